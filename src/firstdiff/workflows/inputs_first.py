"""Check that two runs had the same inputs, weights files, vocabulary and metadata before comparing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from firstdiff.schema import Comparison, Pair
from firstdiff.trace import Trace

# fields of trace.json that say what a run was given, and the words for them
_STATED = {
    "inputs": "the two runs had different inputs (their digests differ)",
    "seed": "the seeds differ",
    "vocab_size": "the vocabulary sizes differ",
}
_TABLES = {"files": "file", "metadata": "metadata"}


def stated_differences(reference: Trace, candidate: Trace) -> list[str]:
    """Compare what both trace.json say of inputs, files, seed, vocabulary and metadata, as far as both say it."""
    ref, cand = reference.header, candidate.header
    found = []
    for field, words in _STATED.items():
        if _both(ref, cand, field) and ref[field] != cand[field]:
            values = "" if field == "inputs" else f": {ref[field]} in the reference, {cand[field]} in the candidate"
            found.append(words + values)
    for field, noun in _TABLES.items():
        if _both(ref, cand, field) and isinstance(ref[field], dict) and isinstance(cand[field], dict):
            found += _differing_entries(noun, ref[field], cand[field])
    return found


def differing_inputs(comparison: Comparison, given: Sequence[str] = ()) -> list[str]:
    """Return sentences on tensors that the runs were given, not computed, and that differ.

    A tensor of role `input` is given where no output comes before it.

    given: globs over names of other tensors that are given, such as noise
    """
    found = []
    computed = False
    for pair in comparison.pairs:
        named = any(fnmatchcase(pair.name, glob) for glob in given)
        if pair.status == "mismatch" and (named or (pair.role == "input" and not computed)):
            found.append(f"input {pair.key} differs: {_difference(pair)}")
        computed = computed or (pair.role == "output" and not named)
    return found


def _both(reference: Mapping[str, Any], candidate: Mapping[str, Any], field: str) -> bool:
    return reference.get(field) is not None and candidate.get(field) is not None


def _differing_entries(noun: str, reference: Mapping[str, Any], candidate: Mapping[str, Any]) -> list[str]:
    found = []
    for name in reference:
        if name in candidate and reference[name] != candidate[name]:
            sides = f"{reference[name]} in the reference, {candidate[name]} in the candidate"
            found.append(f"the two runs used a different file {name}" if noun == "file" else f"{name} differs: {sides}")
    return found


def _difference(pair: Pair) -> str:
    shapes = [side.shape for side in (pair.reference, pair.candidate) if side is not None]
    if len(shapes) == 2 and shapes[0] != shapes[1]:
        return f"shape {list(shapes[0] or ())} in the reference, {list(shapes[1] or ())} in the candidate"
    if pair.metrics is None:
        return pair.reason or "it cannot be compared"
    return f"{pair.metrics.mismatched:,} of {pair.metrics.elements:,} elements"
