"""The third trace of a comparison: which of its tensors stands beside which row."""

from __future__ import annotations

from firstdiff.pairing import PairingOptions, exact, layer_stage, normalised, pair_up
from firstdiff.schema import Comparison
from firstdiff.trace import Trace

# names alone: a row does not say how its third tensor was found, so that none may be guessed
_BY_NAME = PairingOptions(strategies=(exact.STRATEGY, layer_stage.STRATEGY, normalised.STRATEGY))


def third_keys(comparison: Comparison, reference: Trace, third: Trace) -> dict[int, str]:
    """For each row that has one, the key of the tensor that the third trace has under the reference's name."""
    ours, theirs = reference.tensors, third.tensors
    keys = {
        str(ours[match.reference[0]].key): str(theirs[match.candidate[0]].key)
        for match in pair_up(reference, third, _BY_NAME).pairs
        if len(match.reference) == len(match.candidate) == 1
    }
    return {
        pair.index: keys[pair.reference.name]
        for pair in comparison.pairs
        if pair.reference is not None and pair.reference.name in keys
    }
