"""Every operation judged alone, so that one broken layer is one row and not everything after it."""

from __future__ import annotations

from collections.abc import Sequence

from firstdiff.locate.graph import Graph
from firstdiff.locate.replay_row import Replays
from firstdiff.locate.row import Row
from firstdiff.schema import Isolated


def isolate(rows: Sequence[Row]) -> tuple[Isolated | None, ...]:
    """Judge each row on the candidate's own inputs; None for weights and for what only one side has.

    rows: in the order of the reference
    """
    replays = Replays(Graph(rows))
    return tuple(
        replays.judged(place) if row.compared and not row.is_evidence else None for place, row in enumerate(rows)
    )
