"""Hypotheses: a bias is missing, or mean and standard deviation are applied on one side only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.estimates import Line, line_between, offsets_along
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
        for name, bias in _recorded_biases(case):
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
        """Explain the difference by one vector, where no bias is recorded."""
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


def _recorded_biases(case: Case) -> Iterator[tuple[str, np.ndarray]]:
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
    """Return the axes of channels: the last, and the second of convolutions."""
    return [sides.ndim - 1, *([1] if sides.ndim >= 3 else [])]


def _even(offsets: np.ndarray) -> bool:
    return bool(np.ptp(offsets) <= 1e-3 * np.abs(offsets).max())


_SURE = 4.0
_SLACK = 2e-3
_MOST_CHANNELS = 4
_STANDARD = 0.02

_KNOWN: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "ImageNet's": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "CLIP's": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "0.5 and 0.5": ((0.5,), (0.5,)),
    "0.5 and 1": ((0.5,), (1.0,)),
    "Whisper's (x + 4) / 4": ((-4.0,), (4.0,)),
    "127.5 and 127.5": ((127.5,), (127.5,)),
    "128 and 128": ((128.0,), (128.0,)),
    "AudioSet's": ((-4.2677393,), (2 * 4.5689974,)),
    "MNIST's": ((0.1307,), (0.3081,)),
    "CIFAR's": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}


class NormaliseMeanStd(Hypothesis):
    """Values are the reference's times a factor plus an offset: normalised on one side, or by other numbers.

    Images and mel spectrograms are brought to a mean and a deviation before the model sees them. Without that,
    done twice, or with another data set's numbers, values are off by about 0.5.

    Tested by the straight line that most elements lie on, for all and for each channel where they are up to four; known
    means and deviations are named. Normalise once, with the reference's numbers.
    """

    code = "normalise.mean_std"

    def applies(self, case: Case) -> bool:
        return case.comparable and Sides.of(case).real

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        yield from self._told(sides, None)
        for axis in range(sides.ndim):
            if 2 <= sides.shape[axis] <= _MOST_CHANNELS:
                yield from self._told(sides, axis)

    def _told(self, sides: Sides, axis: int | None) -> Iterator[Explanation]:
        lines = _lines_along(sides, axis)
        if not lines or not any(map(_is_both, lines)):
            return
        factors, offsets = (
            _broadcast_along(numbers, sides.ndim, axis) for numbers in zip(*map(_factor_and_offset, lines), strict=True)
        )
        name = _known_statistics(lines)
        standard = None if name or axis is not None else _standardised(sides)
        each = "" if axis is None else f" for each index of {axis_words(axis, sides.ndim)}"
        known = f", {name} mean and deviation" if name else f", {standard}" if standard else ""
        yield from sides.told(
            self.code,
            factors * sides.reference + offsets,
            f"the candidate is {_listed_numbers([line.factor for line in lines])} times the reference plus "
            f"{_listed_numbers([line.offset for line in lines])}{each}{known}",
            "normalise once, with the reference's mean and deviation",
            assumed=2 * len(lines),
            specific=Specific.MISTAKE if name or standard else Specific.FORM,
            implies=("scale.constant", "offset.constant", "scale.channel", "offset.channel"),
        )


def _lines_along(sides: Sides, axis: int | None) -> list[Line]:
    """Fit one line to all elements, or one to each index of an axis; empty if any of them has none."""
    if axis is None:
        found = [line_between(sides.reference.reshape(-1), sides.candidate.reshape(-1))]
    else:
        both = np.moveaxis(sides.reference, axis, 0), np.moveaxis(sides.candidate, axis, 0)
        found = [line_between(r.reshape(-1), c.reshape(-1)) for r, c in zip(*both, strict=True)]
    return [] if None in found else [line for line in found if line is not None]


def _is_both(line: Line) -> bool:
    """True if a line has both a factor and an offset."""
    scaled = abs(line.factor - 1.0) > max(_SURE * line.factor_error, _SLACK) and abs(line.factor) > _SLACK
    return scaled and abs(line.offset) > max(_SURE * line.offset_error, 1e-6)


def _factor_and_offset(line: Line) -> tuple[float, float]:
    return line.factor, line.offset


def _broadcast_along(numbers: tuple[float, ...], ndim: int, axis: int | None) -> np.ndarray:
    shape = [1] * ndim
    if axis is not None:
        shape[axis] = len(numbers)
    return np.asarray(numbers).reshape(shape)


def _known_statistics(lines: list[Line]) -> str | None:
    for name, (means, deviations) in _KNOWN.items():
        for order in (1, -1):
            pairs = list(zip(means[::order], deviations[::order], strict=True))
            if len(pairs) not in (1, len(lines)):
                continue
            known = pairs * (len(lines) // len(pairs))
            for unit in (1.0, 255.0):
                ahead = [(unit / deviation, -mean / deviation) for mean, deviation in known]
                back = [(deviation * unit, mean * unit) for mean, deviation in known]
                if _lines_match(lines, ahead) or _lines_match(lines, back):
                    return name
    return None


def _lines_match(lines: list[Line], known: list[tuple[float, float]]) -> bool:
    return all(
        abs(line.factor - factor) <= _SLACK * abs(factor) + _SURE * line.factor_error
        and abs(line.offset - offset) <= _SLACK * abs(offset) + _SURE * line.offset_error
        for line, (factor, offset) in zip(lines, known, strict=True)
    )


def _standardised(sides: Sides) -> str | None:
    """Describe which side has mean 0 and standard deviation 1; None if both or neither do."""
    told = sides.finite
    plain = [
        abs(float(side[told].mean())) < _STANDARD and abs(float(side[told].std()) - 1) < _STANDARD
        for side in (sides.reference, sides.candidate)
    ]
    if plain == [True, False]:
        return "the reference has mean 0 and deviation 1, the candidate has not"
    return "the candidate has mean 0 and deviation 1, the reference has not" if plain == [False, True] else None


def _listed_numbers(numbers: list[float]) -> str:
    return ", ".join(f"{number:.5g}" for number in numbers)


BIAS_MISSING: Final = BiasMissing()
NORMALISE_MEAN_STD: Final = NormaliseMeanStd()
