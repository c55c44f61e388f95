"""Every operation judged alone, so that one broken layer is one row and not everything after it."""

from __future__ import annotations

from firstdiff.locate.graph import RowGraph
from firstdiff.locate.replay_row import Replays
from firstdiff.schema import Isolated


def isolate(graph: RowGraph, replays: Replays | None = None) -> tuple[Isolated | None, ...]:
    """Judge each row on the candidate's own inputs; None for weights and for what only one side has."""
    replays = replays or Replays(graph)
    return tuple(
        replays.judged(place) if row.compared and not row.is_evidence else None for place, row in enumerate(graph.rows)
    )
