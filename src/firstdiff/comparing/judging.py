"""The verdict on every row, by its values, its operation computed again, and a control; what is known is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from firstdiff.comparing.control import judged_beside, measured_control
from firstdiff.comparing.options import Options
from firstdiff.comparing.settling import settled
from firstdiff.locate import MeasuredPair, Replays, RowGraph
from firstdiff.schema import Isolated, Note
from firstdiff.trace import Trace

_REPLAY_SHARE = 0.5  # of the effort, for operations computed again on the candidate's own inputs


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """Rows with their final verdicts.

    graph: of these rows
    isolated: each operation judged on the candidate's own inputs; None where that was not asked, or not affordable
    replays: what was computed again
    notes: what there is to say about all of them
    """

    rows: list[MeasuredPair]
    graph: RowGraph
    isolated: list[Isolated | None]
    replays: Replays
    notes: tuple[Note, ...]


@final
class Judging:
    """Judges the rows of a comparison, again where some of them are set apart.

    Operations are computed again once, the graph of rows is built once, and the control is measured once.
    """

    def __init__(
        self, sides: tuple[Trace, Trace], control: Trace | None, rows: Sequence[MeasuredPair], options: Options
    ) -> None:
        self._options = options
        self._graph: RowGraph | None = None
        self._replays: Replays | None = None
        effort = options.effort
        self._seconds = None if options.isolate or effort is None else _REPLAY_SHARE * effort
        self._control = None if control is None else measured_control(control, sides[0], rows, options)

    def judged(self, rows: Sequence[MeasuredPair]) -> JudgedRows:
        """Judge rows in the order of execution; those of the same index are the same tensors each time."""
        graph = self._graph = RowGraph(rows) if self._graph is None else self._graph.with_verdicts(rows)
        replays = self._replays = Replays(graph, self._replays)
        found = settled(rows, graph, replays, equal_nan=self._options.rules.equal_nan, seconds=self._seconds)
        self._seconds = found.seconds_left
        if self._control is None:
            return JudgedRows(found.rows, graph.with_verdicts(found.rows), found.isolated, replays, found.notes)
        beside = judged_beside(self._control, found.rows, found.isolated, self._options)
        notes = (*beside.notes, *found.notes)
        return JudgedRows(beside.rows, graph.with_verdicts(beside.rows), found.isolated, replays, notes)
