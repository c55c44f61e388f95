"""Hypothesis: another noise schedule, recognised by its shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis, Specific
from firstdiff.diagnose.values.sides import Sides
from firstdiff.diagnose.values.update_rules import Mixture, mixtures_of
from firstdiff.dtypes import doubles

_NEAR_CURVE = 2e-3
_FEWEST_LEVELS = 6
_Curve = Callable[[np.ndarray, float, float], np.ndarray]

# levels between two ends, over steps from 0 to 1
_BETWEEN_ENDS: dict[str, _Curve] = {
    "even steps": lambda x, a, b: a + (b - a) * x,
    "even steps of the root": lambda x, a, b: (np.sqrt(a) + (np.sqrt(b) - np.sqrt(a)) * x) ** 2,
    "even factors": lambda x, a, b: a * (b / a) ** x,
    "Karras's steps (rho 7)": lambda x, a, b: (a ** (1 / 7) + (b ** (1 / 7) - a ** (1 / 7)) * x) ** 7,
}
_BETAS = {
    "betas in even steps from 0.0001 to 0.02": (1e-4, 0.02, 1.0),
    "betas in even steps of the root from 0.00085 to 0.012": (8.5e-4, 0.012, 0.5),
    "betas in even steps from 0.00085 to 0.012": (8.5e-4, 0.012, 1.0),
}
# tables that schedulers derive from the remaining signal power
_FROM_SIGNAL_POWER: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "what is left of the signal's power": lambda left: left,
    "what is left of the signal": np.sqrt,
    "the noise": lambda left: np.sqrt(1.0 - left),
    "noise over signal": lambda left: np.sqrt((1.0 - left) / left),
    "the logarithm of signal over noise": lambda left: np.log(left / (1.0 - left)),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """The name of a schedule.

    kind: how it goes from one end to the other
    ends: between what, in words; empty where the kind says it
    """

    kind: str
    ends: str = ""

    @property
    def words(self) -> str:
        return f"{self.kind}{self.ends}"


def is_schedule(values: np.ndarray) -> bool:
    """True if numbers in a row only rise, or only fall, and all are finite."""
    if values.ndim != 1 or values.size < _FEWEST_LEVELS:
        return False
    steps = np.diff(values)
    return (
        bool(np.isfinite(values).all()) and bool((steps >= 0).all() or (steps <= 0).all()) and bool((steps != 0).any())
    )


@np.errstate(all="ignore")
def shape_of(values: np.ndarray) -> Shape | None:
    """Return the name of a schedule; None if it is not a known one."""
    reach = float(np.ptp(values))
    for shape, made in _known_shapes(values):
        if np.isfinite(made).all() and float(np.abs(made - values).max()) <= _NEAR_CURVE * reach:
            return shape
    return None


def _known_shapes(values: np.ndarray) -> Iterator[tuple[Shape, np.ndarray]]:
    count = values.size
    place = np.linspace(0.0, 1.0, count)
    first, last = float(values[0]), float(values[-1])
    for name, curve in _BETWEEN_ENDS.items():
        yield Shape(name, f" from {first:.4g} to {last:.4g}"), curve(place, first, last)
    for name, left in _signal_powers(count):
        for what, made_of in _FROM_SIGNAL_POWER.items():
            for order in (1, -1):
                yield Shape(f"{what} with {name}"), made_of(left)[::order]
    yield Shape("betas of a cosine"), _cosine_betas(count)
    yield Shape("1 less betas of a cosine"), 1.0 - _cosine_betas(count)


def _signal_powers(count: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield known schedules of signal power over `count` steps, each with its name."""
    for name, (first, last, power) in _BETAS.items():
        betas = np.linspace(first**power, last**power, count) ** (1.0 / power)
        yield name, np.cumprod(1.0 - betas)
    yield "betas of a cosine", np.cumprod(1.0 - _cosine_betas(count))
    yield "a cosine", np.clip(_cosine_signal(count)[1:] / _cosine_signal(count)[0], 1e-12, 1.0 - 1e-12)


def _cosine_betas(count: int) -> np.ndarray:
    return np.asarray(np.minimum(1.0 - _cosine_signal(count)[1:] / _cosine_signal(count)[:-1], 0.999))


def _cosine_signal(count: int) -> np.ndarray:
    return np.asarray(np.cos((np.linspace(0.0, 1.0, count + 1) + 0.008) / 1.008 * np.pi / 2.0) ** 2)


_NAMES = re.compile(r"sigma|beta|alpha|schedul|timestep|snr|noise|lambdas", re.IGNORECASE)
_ONE = 1e-3
_OF_TWO_KINDS, _OF_ONE_KIND = 0.05, 0.3
_FIX = "use the reference's schedule: its kind, its ends and its number of steps"
_IMPLIES = ("scale.constant", "scale.channel", "scale.row", "offset.constant", "normalise.mean_std", "residual.missing")


class NoiseSchedule(Hypothesis):
    """The schedule of noise is another one.

    How much noise there is at each step: betas in even steps or of a cosine, sigmas of Karras or in even factors,
    other ends, another number of training steps. Pictures come out grey, washed out or noisy.

    Tested on tables of betas, alphas or sigmas, by the shapes that schedules have; and on what signal and noise are
    mixed to: on both sides it is the two of them, with other weights, and the weights of each make up a whole. Use the
    reference's schedule. A schedule of the same kind between the same ends with another number of steps is a loop that
    takes too few or too many of them: `loop.steps`.
    """

    code = "noise.schedule"
    also = ("loop.steps",)

    def applies(self, case: Case) -> bool:
        return Sides.of(case).real if case.comparable else bool(_NAMES.search(case.key))

    def test(self, case: Case) -> Iterator[Explanation]:
        if _NAMES.search(case.key):
            tables = [_levels(side) for side in (case.reference_as_recorded, case.candidate_as_recorded)]
            if tables[0] is not None and tables[1] is not None:
                yield from self._of_tables(tables[0], tables[1])
        if case.comparable:
            yield from self._of_mixtures(case)

    def _of_tables(self, reference: np.ndarray, candidate: np.ndarray) -> Iterator[Explanation]:
        shapes = [shape_of(side) for side in (reference, candidate)]
        words = [
            shape.words if shape else f"a schedule from {side[0]:.4g} to {side[-1]:.4g}"
            for shape, side in zip(shapes, (reference, candidate), strict=True)
        ]
        if reference.size != candidate.size and shapes[0] is not None and shapes[0] == shapes[1]:
            yield Explanation(
                cause="loop.steps",
                fit=Fit(0.0, 0.0, inf),
                evidence=f"both sides have {words[0]}: the candidate {candidate.size} of them, "
                f"the reference {reference.size}",
                fix=f"take as many steps as the reference: {reference.size}",
                implies=("noise.schedule", *_IMPLIES),
                doubt=_OF_TWO_KINDS,
            )
            return
        of_two_kinds = shapes[0] is not None and shapes[1] is not None and shapes[0].kind != shapes[1].kind
        if not of_two_kinds and _is_scaled(reference, candidate):
            return
        yield Explanation(
            cause=self.code,
            fit=Fit(0.0, 0.0, inf),
            evidence=f"both sides are schedules: the candidate has {words[1]}, the reference {words[0]}",
            fix=_FIX,
            specific=Specific.MISTAKE if None not in shapes else Specific.FORM,
            implies=_IMPLIES if of_two_kinds else (),
            doubt=_OF_TWO_KINDS if of_two_kinds else _OF_ONE_KIND,
        )

    def _of_mixtures(self, case: Case) -> Iterator[Explanation]:
        """Compare the weights of signal and noise in a noised sample."""
        mixtures = mixtures_of(case)
        if mixtures is None or not all(map(_is_whole, mixtures)):
            return
        reference, candidate = mixtures
        fit = case.fit(candidate.made)
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"the candidate is {candidate.words} in place of {reference.words}: {case.falls_to(fit)}",
            fix=_FIX,
            assumed=int(candidate.weights.size),
            implies=_IMPLIES,
            doubt=0.1,
            predicted=candidate.made,
        )


def _levels(values: np.ndarray | None) -> np.ndarray | None:
    """Return the levels of a schedule as one row; None if the values are no schedule."""
    if values is None or dtypes.kind_of(values.dtype) != "float":
        return None
    levels = doubles(np.squeeze(values))
    return levels if is_schedule(levels) else None


def _is_scaled(reference: np.ndarray, candidate: np.ndarray) -> bool:
    """True if one array is a multiple of the other: a scale rather than another schedule."""
    if reference.shape != candidate.shape:
        return False
    factor = float(np.vdot(reference, candidate)) / float(np.vdot(reference, reference))
    return bool(np.abs(candidate - factor * reference).max() <= _ONE * np.abs(candidate).max())


def _is_whole(mixture: Mixture) -> bool:
    """True if the weights of signal and noise, or their squares, add up to 1."""
    if len(mixture.keys) != 2:
        return False
    return any(
        bool(np.all(np.abs(sums - 1.0) < _ONE)) for sums in (mixture.weights.sum(0), (mixture.weights**2).sum(0))
    )


NOISE_SCHEDULE: Final = NoiseSchedule()
