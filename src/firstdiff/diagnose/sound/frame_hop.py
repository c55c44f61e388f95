"""Hypothesis: frames split or overlap-added with another hop length."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis
from firstdiff.diagnose.sound.frames import cut, hop_of, joined
from firstdiff.diagnose.values.sides import Sides
from firstdiff.dtypes import doubles

_MOST_FRAMES = 1 << 16
_IMPLIES = ("values.uncorrelated", "shift.sequence")


class FrameHop(Hypothesis):
    """Frames of a sound start after another number of samples.

    The hop of a spectrogram, or of overlap-add, is another: from frame to frame the two sides drift apart.

    Tested on frames, which overlap: where one ends with what the next one begins with tells the hop of each side. On
    a sound that is made of recorded frames, by setting these down at every other hop. Use the reference's hop.
    """

    code = "audio.hop"

    def applies(self, case: Case) -> bool:
        return not case.comparable or (Sides.of(case).real and case.candidate.ndim >= 2)

    def test(self, case: Case) -> Iterator[Explanation]:
        if case.comparable:
            yield from self._cut(Sides.of(case))
            yield from self._set_down(Sides.of(case))
        else:
            yield from self._of_another_length(case)
            yield from self._of_another_count(case)

    def _cut(self, sides: Sides) -> Iterator[Explanation]:
        shape = sides.shape
        if not 3 <= shape[-2] <= _MOST_FRAMES or not sides.finite.all():
            return
        every = [side.reshape(-1, *shape[-2:]) for side in (sides.reference, sides.candidate)]
        reference, candidate = (hop_of(frames[0]) for frames in every)
        if reference is None or candidate is None or reference == candidate:
            return
        made = np.stack(
            [cut(joined(frames, reference), candidate, shape[-1], shape[-2]) for frames in every[0]]
        ).reshape(shape)
        yield from sides.told(
            self.code,
            np.where(np.isnan(made), sides.candidate, made),
            f"frames start every {candidate} samples in place of {reference}",
            f"cut frames at a hop of {reference}",
            implies=_IMPLIES,
        )

    def _set_down(self, sides: Sides) -> Iterator[Explanation]:
        """A sound that is a sum of frames recorded just before."""
        length = sides.shape[-1]
        for both in sides.case.sources:
            if both.reference is None or both.candidate is None or both.reference.ndim != sides.ndim + 1:
                continue
            frames = [doubles(side) for side in (both.reference, both.candidate)]
            size, count = frames[0].shape[-2:]  # as they come out of a convolution, and go into a fold
            reference = (length - size) // max(count - 1, 1)
            if frames[0].shape[:-2] != sides.shape[:-1] or not 1 <= reference < size or count < 2:
                continue
            if not _agree(_added(frames[0], reference, length), sides.reference):
                continue
            for candidate in (hop for hop in range(1, size + 1) if hop != reference):
                made = _added(frames[1], candidate, length)
                if _agree(made, sides.candidate):
                    yield from sides.told(
                        self.code,
                        made,
                        f"frames are set down every {candidate} samples in place of {reference}",
                        f"set frames down at a hop of {reference}",
                        assumed=1,
                        implies=_IMPLIES,
                    )

    def _of_another_count(self, case: Case) -> Iterator[Explanation]:
        """More or fewer frames of one size, cut out of the same sound."""
        sides = case.reference_as_recorded, case.candidate_as_recorded
        frames = [doubles(side) for side in sides if side is not None and side.ndim >= 2 and side.dtype.kind in "fV"]
        if len(frames) < 2 or frames[0].shape[-1] != frames[1].shape[-1] or not all(map(_countable, frames)):
            return
        first = [side.reshape(-1, *side.shape[-2:])[0] for side in frames]
        counts = f"{len(first[1])} frames instead of {len(first[0])}"
        reference, candidate = (hop_of(side) for side in first)
        if reference is None or candidate is None or reference == candidate:
            return
        yield Explanation(
            cause=self.code,
            fit=Fit(0.0, 0.0, inf),
            evidence=f"frames start every {candidate} samples in place of {reference}: {counts}",
            fix=f"cut frames at a hop of {reference}",
            implies=_IMPLIES,
        )

    def _of_another_length(self, case: Case) -> Iterator[Explanation]:
        """As many frames, closer together or further apart, make a shorter or a longer sound."""
        sides = case.reference_as_recorded, case.candidate_as_recorded
        for both in case.sources:
            frames = both.reference, both.candidate
            if any(one is None or one.ndim < 2 or other is None for one, other in zip(frames, sides, strict=True)):
                continue
            hops = [_hop_between(one, other) for one, other in zip(frames, sides, strict=True)]
            if None not in hops and hops[0] != hops[1]:
                yield Explanation(
                    cause=self.code,
                    fit=Fit(0.0, 0.0, inf),
                    evidence=f"frames are set down every {hops[1]} samples in place of {hops[0]}",
                    fix=f"set frames down at a hop of {hops[0]}",
                    implies=_IMPLIES,
                )


def _countable(frames: np.ndarray) -> bool:
    return 3 <= frames.shape[-2] <= _MOST_FRAMES and bool(np.isfinite(frames).all())


def _hop_between(frames: np.ndarray | None, sound: np.ndarray | None) -> int | None:
    """The hop at which frames add up to a sound; None where none does."""
    assert frames is not None, "both were asked for"
    assert sound is not None, "both were asked for"
    size, count = frames.shape[-2:]
    rows = prod(frames.shape[:-2])
    if count < 2 or sound.dtype.kind != "f" or not rows or sound.size % rows:
        return None
    length = sound.size // rows
    hop, rest = divmod(length - size, count - 1)
    if rest or not 1 <= hop <= size:
        return None
    made = _added(doubles(frames).reshape(rows, size, count), hop, length)
    return hop if _agree(made, doubles(sound).reshape(rows, length)) else None


def _added(frames: np.ndarray, hop: int, length: int) -> np.ndarray:
    """Frames [..., size, count] added up, `hop` samples apart; what reaches beyond the length is cut off."""
    size, count = frames.shape[-2:]
    made = np.zeros((*frames.shape[:-2], max((count - 1) * hop + size, length)))
    for at in range(count):
        made[..., at * hop : at * hop + size] += frames[..., at]
    return made[..., :length]


def _agree(made: np.ndarray, wanted: np.ndarray) -> bool:
    return made.shape == wanted.shape and float(np.abs(made - wanted).max()) <= 1e-3 * float(np.std(wanted))


HYPOTHESIS: Final = FrameHop()
