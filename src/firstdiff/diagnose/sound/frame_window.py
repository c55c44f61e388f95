"""Frames that are multiplied by another window."""

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
        return case.comparable and case.op is not None and case.op.rpartition(".")[2].lower().startswith("mul")

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        for given, window, axis in _products(case):
            other = tuple(place for place in range(sides.ndim) if place != axis)
            power = np.sum(given**2, axis=other)
            if not sides.real or not (power > 0).all():
                continue
            made = np.sum(given * sides.candidate, axis=other) / power
            names = [window_named(values) for values in (window, made)]
            if names[0] is None or np.allclose(made, window, atol=1e-6) or not (names[1] or looks_like_window(made)):
                continue
            shape = [1] * sides.ndim
            shape[axis] = made.size
            yield from sides.told(
                self.code,
                given * made.reshape(shape),
                f"the frames are multiplied by {names[1] or 'another window'} in place of {names[0]}",
                f"multiply by {names[0]}",
                assumed=0 if names[1] else made.size,
                implies=("op.skipped", "scale.channel", "scale.row", "weights.differ", "scale.constant"),
            )


def _products(case: Case) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """What is multiplied, the window, and the axis it runs along."""
    shape = case.candidate.shape
    values = [doubles(both.reference) for both in case.inputs.values() if both.reference is not None]
    for window in values:
        long = [size for size in window.shape if size > 1]
        if len(long) != 1 or long[0] < _LEAST or window.ndim > len(shape):
            continue
        axis = len(shape) - window.ndim + window.shape.index(long[0])
        for other in values:
            if other is not window and other[case.part].shape == shape:
                yield other[case.part], window.reshape(-1), axis


HYPOTHESIS: Final = FrameWindow()
