"""Which indices of an axis hold an error, and how to say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Form = Literal["one", "from", "below", "block", "every", "several"]

_ALL = 0.999
_MOST = 0.95
_FEW = 8
_DENSE = 0.9


@dataclass(frozen=True, slots=True)
class Pattern:
    """Indices of one axis that hold a share of the error; `step` apart in the form `every`."""

    form: Form
    indices: tuple[int, ...]
    share: float
    length: int
    step: int = 1

    def words(self, noun: str) -> str:
        """`channel 3`, `tokens >= 12`, `every 2nd channel from 1`."""
        first, last = self.indices[0], self.indices[-1]
        plural = f"{noun}s" if not noun.endswith("x") else f"{noun[:-2]}ices"
        if self.form == "one":
            return f"the last {noun} ({first})" if first == self.length - 1 else f"{noun} {first}"
        if self.form == "from":
            return f"{plural} >= {first}"
        if self.form == "below":
            return f"{plural} < {last + 1}"
        if self.form == "block":
            return f"{plural} {first} to {last}"
        if self.form == "every":
            return f"every {_ordinal(self.step)} {noun} from {first} on"
        return f"{plural} {', '.join(map(str, self.indices[:-1]))} and {last}"


def pattern_of(sums: np.ndarray) -> Pattern | None:
    """The part of an axis that the error is confined to; None if there is no such part."""
    total = float(sums.sum())
    if sums.size < 2 or total == 0:
        return None
    touched = np.flatnonzero(sums > 0)
    whole = _form(touched, sums.size)
    if whole is not None:
        return _made(whole, sums, total)
    order = np.argsort(-sums, kind="stable")
    held = np.cumsum(sums[order]) / total
    for share in (_ALL, _MOST):
        count = int(np.searchsorted(held, share)) + 1
        if count <= max(1, sums.size // 4):
            form = _form(np.sort(order[:count]), sums.size)
            if form is not None:
                return _made(form, sums, total)
    return None


def _made(found: tuple[Form, np.ndarray, int], sums: np.ndarray, total: float) -> Pattern:
    form, indices, step = found
    share = float(sums[indices].sum()) / total
    return Pattern(form, tuple(int(at) for at in indices), share, sums.size, step)


def _form(indices: np.ndarray, length: int) -> tuple[Form, np.ndarray, int] | None:
    first, last = int(indices[0]), int(indices[-1])
    if indices.size == 1:
        return "one", indices, 1
    span = last - first + 1
    if span < length and indices.size >= _DENSE * span:
        form: Form = "from" if last == length - 1 else "below" if first == 0 else "block"
        return form, np.arange(first, last + 1), 1
    steps = np.diff(indices)
    step = int(steps[0])
    if step > 1 and bool((steps == step).all()) and indices.size >= 3 and first < step and last >= length - step:
        return "every", indices, step
    if indices.size <= _FEW and indices.size <= length // 2:
        return "several", indices, 1
    return None


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
