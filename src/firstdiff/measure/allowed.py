"""What a tolerance comes down to."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from firstdiff.schema import Statistics


class Allowed(NamedTuple):
    """`|c - r| <= atol + rtol * |r|`."""

    atol: float
    rtol: float


Tolerance = Callable[[Statistics], Allowed]

EXACT = Allowed(0.0, 0.0)
