"""Rows that match although what they were computed from does not: a later step hid the error."""

from __future__ import annotations

import re
from collections.abc import Sequence

from firstdiff.locate.graph import RowGraph
from firstdiff.locate.row import EVIDENCE_ONLY, MeasuredPair

_DIGITS = re.compile(r"\d+")


def recovered(graph: RowGraph) -> list[int | None]:
    """Return, for each row that matches, the row that differs and feeds it: by the records where they tell."""
    found = recovered_by_name(graph.rows)
    for place, row in enumerate(graph.rows):
        fed = graph.compared[place]
        if row.record is None or row.is_evidence or fed.guessed or fed.incomplete or row.role == "input":
            continue
        wrong = [at for at in fed.rows if graph.rows[at].differs] if row.status == "match" else []
        found[place] = graph.rows[wrong[0]].index if wrong else None
    return found


def recovered_by_name(rows: Sequence[MeasuredPair]) -> list[int | None]:
    """Return the same by names alone.

    An output depends on its own recorded inputs. Where none were recorded, on its earlier namesake (`layers.1` for
    `layers.2`), and in a trace without any namesakes on whatever ran before it.
    """
    numbered = any(_DIGITS.search(pair.name) for pair in rows)
    bad_inputs: dict[tuple[str, int], int] = {}
    with_inputs = {(pair.name, pair.step) for pair in rows if pair.role == "input" and pair.metrics is not None}
    last_namesake: dict[str, MeasuredPair] = {}
    last: MeasuredPair | None = None
    found: list[int | None] = []
    for pair in rows:
        place = (pair.name, pair.step)
        if pair.metrics is None or pair.role in EVIDENCE_ONLY:
            found.append(None)
            continue
        if pair.role == "input":
            if pair.status == "mismatch":
                bad_inputs[place] = pair.index
            found.append(None)
            continue
        if place in with_inputs:
            source = bad_inputs.get(place)
        else:
            before = last_namesake.get(_DIGITS.sub("#", pair.name)) if numbered else last
            source = before.index if before is not None and before.status == "mismatch" else None
        found.append(source if pair.status == "match" else None)
        last_namesake[_DIGITS.sub("#", pair.name)] = last = pair
    return found
