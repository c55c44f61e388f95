"""Hypotheses: frames of audio cut at another hop, or weighted by another window."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis
from firstdiff.diagnose.values.sides import Sides
from firstdiff.dtypes import doubles

_NEAR = 1e-4
_FEWEST = 3


def hop_of(frames: np.ndarray) -> int | None:
    """Find the hop of frames [frames, samples]: the end of each is the start of the next.

    None where no hop fits, or silence fits several.
    """
    count, size = frames.shape
    spread = float(np.std(frames))
    if count < _FEWEST or size < 4 or not spread:
        return None
    for hop in range(1, size - 1):
        if float(np.abs(frames[1, : size - hop] - frames[0, hop:]).max()) > _NEAR * spread:
            continue
        apart = frames[1:, : size - hop] - frames[:-1, hop:]
        if float(np.abs(apart).max()) <= _NEAR * spread:
            return hop
    return None


def joined(frames: np.ndarray, hop: int) -> np.ndarray:
    """Join frames to the sound they were cut from."""
    return np.concatenate([frames[:-1, :hop].reshape(-1), frames[-1]])


def cut(sound: np.ndarray, hop: int, size: int, count: int) -> np.ndarray:
    """Cut frames out of a sound, with NaN beyond its end."""
    starts = np.arange(count) * hop
    padded = np.concatenate([sound, np.full(max(int(starts[-1]) + size - len(sound), 0), np.nan)])
    return np.asarray(padded[starts[:, None] + np.arange(size)])


def window_named(values: np.ndarray, start: int = 0, size: int | None = None) -> str | None:
    """Return the name of a window function; None if it is not a known one.

    start, size: where the values begin in a window of this size, if they are a part of it
    """
    for name, known in _windows(size or len(values)):
        if np.allclose(values, known[start : start + len(values)], rtol=0, atol=1e-4):
            return name
    return None


def looks_like_window(values: np.ndarray) -> bool:
    """True if values rise to the middle and fall from there as window functions do, or are constant."""
    if len(values) < 4 or float(values.min()) < -1e-6 or not np.isfinite(values).all():
        return False
    middle = len(values) // 2
    slack = 1e-6 * float(values.max())
    return bool((np.diff(values[: middle + 1]) >= -slack).all() and (np.diff(values[middle + 1 :]) <= slack).all())


def _windows(size: int) -> Iterator[tuple[str, np.ndarray]]:
    yield "no window", np.ones(size)
    for kind, span in (("", size), (" (symmetric)", size - 1)):
        turn = 2 * np.pi * np.arange(size) / span
        yield f"a Hann window{kind}", 0.5 - 0.5 * np.cos(turn)
        yield f"the root of a Hann window{kind}", np.sqrt(np.maximum(0.5 - 0.5 * np.cos(turn), 0.0))
        yield f"a Hamming window{kind}", 0.54 - 0.46 * np.cos(turn)
        yield f"a Blackman window{kind}", 0.42 - 0.5 * np.cos(turn) + 0.08 * np.cos(2 * turn)


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
        """Explain a sound that is the overlap-add of frames recorded just before."""
        length = sides.shape[-1]
        for both in sides.case.sources:
            if both.reference is None or both.candidate is None or both.reference.ndim != sides.ndim + 1:
                continue
            frames = [doubles(side) for side in (both.reference, both.candidate)]
            size, count = frames[0].shape[-2:]  # [size, count], as convolutions give and folds take them
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
                        f"frames are overlapped every {candidate} samples in place of {reference}",
                        f"overlap frames at a hop of {reference}",
                        assumed=1,
                        implies=_IMPLIES,
                    )

    def _of_another_count(self, case: Case) -> Iterator[Explanation]:
        """Explain more or fewer frames of one size, cut out of the same sound."""
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
        """Explain a longer or shorter sound made of the same frames."""
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
                    evidence=f"frames are overlapped every {hops[1]} samples in place of {hops[0]}",
                    fix=f"overlap frames at a hop of {hops[0]}",
                    implies=_IMPLIES,
                )


def _countable(frames: np.ndarray) -> bool:
    return 3 <= frames.shape[-2] <= _MOST_FRAMES and bool(np.isfinite(frames).all())


def _hop_between(frames: np.ndarray | None, sound: np.ndarray | None) -> int | None:
    """Find the hop at which frames overlap-add to a sound; None where none does."""
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
    """Overlap-add frames [..., size, count], `hop` samples apart, cut off at the length."""
    size, count = frames.shape[-2:]
    made = np.zeros((*frames.shape[:-2], max((count - 1) * hop + size, length)))
    for at in range(count):
        made[..., at * hop : at * hop + size] += frames[..., at]
    return made[..., :length]


def _agree(made: np.ndarray, wanted: np.ndarray) -> bool:
    return made.shape == wanted.shape and float(np.abs(made - wanted).max()) <= 1e-3 * float(np.std(wanted))


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


FRAME_HOP: Final = FrameHop()
FRAME_WINDOW: Final = FrameWindow()
