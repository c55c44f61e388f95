"""Hypothesis: a bias is not added, from the values alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.channels import offsets_along
from firstdiff.diagnose.values.sides import Sides, axis_words

_LEAST_ROWS = 3
_UNSEEN = 0.25  # other things add a vector too: a mean, an embedding, the shift of a norm


class BiasMissing(Hypothesis):
    """A bias is not added: the difference is one vector along the channels, the same everywhere else.

    The layer was built without a bias, its weight was not found in the checkpoint, or a fused kernel leaves it out.

    Tested by subtracting the recorded bias from what the candidate should have; where none is recorded, by the mean
    difference of each channel. Load the bias and add it.
    """

    code = "bias.missing"

    def applies(self, case: Case) -> bool:
        return case.comparable and len(case.candidate.shape) >= 1 and "norm" not in (case.op or "").lower()

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        recorded = False
        for name, bias in _biases(case):
            for axis in _channel_axes(sides):
                if sides.shape[axis] != bias.size:
                    continue
                recorded = True
                shape = [1] * sides.ndim
                shape[axis] = bias.size
                yield from sides.told(
                    self.code,
                    sides.reference - bias.reshape(shape),
                    f"the difference is {name}, along {axis_words(axis, sides.ndim)}",
                    f"add {name}",
                    implies=("offset.channel", "offset.constant"),
                )
        if not recorded and case.role == "output" and not _has_none(case) and _varies(sides):
            yield from self._unseen(sides)

    def _unseen(self, sides: Sides) -> Iterator[Explanation]:
        """No bias is recorded: a vector that is the same everywhere else."""
        for axis in _channel_axes(sides):
            length = sides.shape[axis]
            if length < 2 or sides.reference.size // length < _LEAST_ROWS:
                continue
            offsets, differ = offsets_along(sides.difference, (axis,), sides.allowed)
            if 2 * int(differ.sum()) < length or _even(offsets):
                continue
            yield from sides.told(
                self.code,
                sides.reference + offsets,
                f"the difference is one vector along {axis_words(axis, sides.ndim)}, the same everywhere else",
                "add the layer's bias, or compare it with the reference's",
                assumed=int(differ.sum()),
                implies=("offset.channel", "offset.constant"),
                doubt=_UNSEEN,
            )


def _biases(case: Case) -> Iterator[tuple[str, np.ndarray]]:
    for name, both in case.params.items():
        values = both.reference if both.reference is not None else both.candidate
        if values is not None and values.ndim == 1 and "bias" in name.rsplit(".", 1)[-1]:
            yield both.key, np.asarray(values, np.float64)


def _has_none(case: Case) -> bool:
    """True if the reference recorded a weight matrix for the operation."""
    return any(both.reference is not None and both.reference.ndim > 1 for both in case.params.values())


def _varies(sides: Sides) -> bool:
    """True if the vectors along the last axis differ; where all are equal, any change looks like an added vector."""
    rows = sides.reference.reshape(-1, sides.shape[-1])
    return bool(np.ptp(rows, axis=0).max(initial=0.0) > 1e-6 * np.abs(rows).max(initial=0.0))


def _channel_axes(sides: Sides) -> list[int]:
    """The last axis, and the second, where convolutions have their channels."""
    return [sides.ndim - 1, *([1] if sides.ndim >= 3 else [])]


def _even(offsets: np.ndarray) -> bool:
    return bool(np.ptp(offsets) <= 1e-3 * np.abs(offsets).max())


HYPOTHESIS: Final = BiasMissing()
