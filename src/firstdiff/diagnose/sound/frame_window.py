"""Hypothesis: frames multiplied by another window function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.sound.frames import looks_like_window, window_named
from firstdiff.diagnose.values.sides import Sides
from firstdiff.dtypes import doubles

_LEAST = 8


class FrameWindow(Hypothesis):
    """Frames are multiplied by another window.

    Hann or Hamming, periodic or symmetric, once or twice, or none at all: before a Fourier transform every spectrum is
    another, in overlap-add the gain ripples from frame to frame.

    Tested where the reference multiplies by a window: the factor of each place in a frame must make another one.
    Use the reference's window.
    """

    code = "audio.window"

    def applies(self, case: Case) -> bool:
        kinds = (case.op, *(one.op for one in case.operations)) if case.comparable else ()
        return case.comparable and (not case.operations or any(map(_multiplies, kinds)))

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        for given, whole in _given(case) if sides.real and sides.finite.all() else ():
            for axis in range(sides.ndim):
                if sides.shape[axis] >= _LEAST:
                    yield from self._along(sides, given, axis, case.part[axis].start, whole[axis])

    def _along(self, sides: Sides, given: np.ndarray, axis: int, start: int, size: int) -> Iterator[Explanation]:
        """Test one axis as that of a window of `size`, of which the case holds the part from `start` on."""
        reference, candidate = (_factors(given, side, axis) for side in (sides.reference, sides.candidate))
        name, other = (window_named(side.reshape(-1), start, size) for side in (reference, candidate))
        if name is None or _parallel(candidate, reference):
            return
        if other is None and (candidate.size < size or not looks_like_window(candidate.reshape(-1))):
            return
        yield from sides.told(
            self.code,
            given * candidate,
            f"the frames are multiplied by {other or 'another window'} in place of {name}",
            f"multiply by {name}",
            assumed=0 if other else candidate.size,
            implies=("op.skipped", "scale.channel", "scale.row", "weights.differ", "scale.constant"),
        )


def _multiplies(op: str | None) -> bool:
    return op is not None and op.rpartition(".")[2].lower().startswith("mul")


def _given(case: Case) -> Iterator[tuple[np.ndarray, tuple[int, ...]]]:
    """Yield the inputs that may have been windowed, those of the shape of the row: the part, and the whole shape."""
    shape = case.candidate.shape
    for both in case.inputs.values():
        values = both.candidate if both.candidate is not None else both.reference
        if values is not None and values.ndim == len(shape) and values[case.part].shape == shape:
            yield doubles(values[case.part]), values.shape


def _factors(given: np.ndarray, made: np.ndarray, axis: int) -> np.ndarray:
    """Return the least-squares factor of each index of an axis, broadcastable to `given`."""
    others = tuple(place for place in range(given.ndim) if place != axis)
    power = np.sum(given**2, axis=others, keepdims=True)
    return np.asarray(np.sum(given * made, axis=others, keepdims=True) / np.where(power > 0, power, 1.0))


def _parallel(one: np.ndarray, other: np.ndarray) -> bool:
    """True if one array is a multiple of the other: a gain rather than another window."""
    factor = float(np.vdot(other, one)) / float(np.vdot(other, other))
    return bool(np.abs(one - factor * other).max() <= 1e-5 * np.abs(one).max())


HYPOTHESIS: Final = FrameWindow()
