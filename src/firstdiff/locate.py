"""Where two runs part: the first row that differs, and rows that only look well because a later step hid the error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from firstdiff.schema import Divergence, Pair

_DIGITS = re.compile(r"\d+")
_EVIDENCE_ONLY = {"param", "buffer"}


def first_divergence(pairs: Sequence[Pair]) -> Divergence | None:
    """The first mismatch in the order of execution; weights are evidence, first only where there is nothing else."""
    mismatches = [pair for pair in pairs if pair.status == "mismatch"]
    only_weights = all(pair.role in _EVIDENCE_ONLY for pair in pairs)
    for pair in mismatches:
        if only_weights or pair.role not in _EVIDENCE_ONLY:
            return Divergence(pair=pair.index, key=pair.key, name=pair.name, origin="unknown")
    return None


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
        if pair.metrics is None or pair.role in _EVIDENCE_ONLY:
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
