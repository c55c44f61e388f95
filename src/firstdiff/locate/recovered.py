"""Rows that match although what they were computed from does not: a later step hid the error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from firstdiff.locate.graph import Graph
from firstdiff.locate.row import EVIDENCE_ONLY
from firstdiff.schema import Pair

_DIGITS = re.compile(r"\d+")


def mark_recovered(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Matches that follow a mismatch they depend on say so in `recovers_from`.

    An output depends on its own recorded inputs. Where none were recorded, on its earlier namesake (`layers.1` for
    `layers.2`), and in a trace without any namesakes on whatever ran before it.
    """
    numbered = any(_DIGITS.search(pair.name) for pair in pairs)
    bad_inputs: dict[tuple[str, int], int] = {}
    with_inputs = {(pair.name, pair.step) for pair in pairs if pair.role == "input" and pair.metrics is not None}
    last_namesake: dict[str, Pair] = {}
    last: Pair | None = None
    marked: list[Pair] = []
    for pair in pairs:
        place = (pair.name, pair.step)
        if pair.metrics is None or pair.role in EVIDENCE_ONLY:
            marked.append(pair)
            continue
        if pair.role == "input":
            if pair.status == "mismatch":
                bad_inputs[place] = pair.index
            marked.append(pair)
            continue
        if place in with_inputs:
            source = bad_inputs.get(place)
        else:
            before = last_namesake.get(_DIGITS.sub("#", pair.name)) if numbered else last
            source = before.index if before is not None and before.status == "mismatch" else None
        marked.append(replace(pair, recovers_from=source) if pair.status == "match" and source is not None else pair)
        last_namesake[_DIGITS.sub("#", pair.name)] = last = pair
    return tuple(marked)


def mark_recovered_by(graph: Graph) -> tuple[Pair, ...]:
    """As `mark_recovered`, but by what feeds a row wherever the records tell."""
    marked = list(mark_recovered([row.pair for row in graph.rows]))
    for place, row in enumerate(graph.rows):
        fed = graph.compared[place]
        if row.record is None or row.is_evidence or fed.guessed or fed.incomplete or row.pair.role == "input":
            continue
        wrong = [at for at in fed.rows if graph.rows[at].differs] if row.pair.status == "match" else []
        source = graph.rows[wrong[0]].pair.index if wrong else None
        marked[place] = replace(row.pair, recovers_from=source)
    return tuple(marked)
