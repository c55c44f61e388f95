"""Recognise noise schedules by their shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

_NEAR = 2e-3
_LEAST = 6
_Curve = Callable[[np.ndarray, float, float], np.ndarray]

# levels at places from 0 to 1 between two ends
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
# what is made of the share of the signal that is left
_MADE_OF: dict[str, Callable[[np.ndarray], np.ndarray]] = {
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
    if values.ndim != 1 or values.size < _LEAST:
        return False
    steps = np.diff(values)
    return (
        bool(np.isfinite(values).all()) and bool((steps >= 0).all() or (steps <= 0).all()) and bool((steps != 0).any())
    )


@np.errstate(all="ignore")
def shape_of(values: np.ndarray) -> Shape | None:
    """Return the name of a schedule; None if it is not a known one."""
    reach = float(np.ptp(values))
    for shape, made in _known(values):
        if np.isfinite(made).all() and float(np.abs(made - values).max()) <= _NEAR * reach:
            return shape
    return None


def _known(values: np.ndarray) -> Iterator[tuple[Shape, np.ndarray]]:
    count = values.size
    place = np.linspace(0.0, 1.0, count)
    first, last = float(values[0]), float(values[-1])
    for name, curve in _BETWEEN_ENDS.items():
        yield Shape(name, f" from {first:.4g} to {last:.4g}"), curve(place, first, last)
    for name, left in _signals(count):
        for what, made_of in _MADE_OF.items():
            for order in (1, -1):
                yield Shape(f"{what} with {name}"), made_of(left)[::order]
    yield Shape("betas of a cosine"), _cosine_betas(count)
    yield Shape("1 less betas of a cosine"), 1.0 - _cosine_betas(count)


def _signals(count: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield known schedules of signal power over `count` steps, each with its name."""
    for name, (first, last, power) in _BETAS.items():
        betas = np.linspace(first**power, last**power, count) ** (1.0 / power)
        yield name, np.cumprod(1.0 - betas)
    yield "betas of a cosine", np.cumprod(1.0 - _cosine_betas(count))
    yield "a cosine", np.clip(_cosine(count)[1:] / _cosine(count)[0], 1e-12, 1.0 - 1e-12)


def _cosine_betas(count: int) -> np.ndarray:
    return np.asarray(np.minimum(1.0 - _cosine(count)[1:] / _cosine(count)[:-1], 0.999))


def _cosine(count: int) -> np.ndarray:
    return np.asarray(np.cos((np.linspace(0.0, 1.0, count + 1) + 0.008) / 1.008 * np.pi / 2.0) ** 2)
