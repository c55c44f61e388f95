"""Hypothesis: mean and standard deviation are applied on one side only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.estimates import Line, line_between
from firstdiff.diagnose.values.sides import Sides, axis_words

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
        lines = _lines(sides, axis)
        if not lines or not any(map(_is_both, lines)):
            return
        factors, offsets = (_along(numbers, sides.ndim, axis) for numbers in zip(*map(_numbers, lines), strict=True))
        name = _name(lines)
        standard = None if name or axis is not None else _standardised(sides)
        each = "" if axis is None else f" for each index of {axis_words(axis, sides.ndim)}"
        known = f", {name} mean and deviation" if name else f", {standard}" if standard else ""
        yield from sides.told(
            self.code,
            factors * sides.reference + offsets,
            f"the candidate is {_text([line.factor for line in lines])} times the reference plus "
            f"{_text([line.offset for line in lines])}{each}{known}",
            "normalise once, with the reference's mean and deviation",
            assumed=2 * len(lines),
            specific=Specific.MISTAKE if name or standard else Specific.FORM,
            implies=("scale.constant", "offset.constant", "scale.channel", "offset.channel"),
        )


def _lines(sides: Sides, axis: int | None) -> list[Line]:
    """The line of all, or of each index of an axis; none where one of them has none."""
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


def _numbers(line: Line) -> tuple[float, float]:
    return line.factor, line.offset


def _along(numbers: tuple[float, ...], ndim: int, axis: int | None) -> np.ndarray:
    shape = [1] * ndim
    if axis is not None:
        shape[axis] = len(numbers)
    return np.asarray(numbers).reshape(shape)


def _name(lines: list[Line]) -> str | None:
    for name, (means, deviations) in _KNOWN.items():
        for order in (1, -1):
            pairs = list(zip(means[::order], deviations[::order], strict=True))
            if len(pairs) not in (1, len(lines)):
                continue
            known = pairs * (len(lines) // len(pairs))
            for unit in (1.0, 255.0):
                ahead = [(unit / deviation, -mean / deviation) for mean, deviation in known]
                back = [(deviation * unit, mean * unit) for mean, deviation in known]
                if _agree(lines, ahead) or _agree(lines, back):
                    return name
    return None


def _agree(lines: list[Line], known: list[tuple[float, float]]) -> bool:
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


def _text(numbers: list[float]) -> str:
    return ", ".join(f"{number:.5g}" for number in numbers)


HYPOTHESIS: Final = NormaliseMeanStd()
