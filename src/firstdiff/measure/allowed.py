"""What a tolerance comes down to."""

from __future__ import annotations

from typing import NamedTuple


class Allowed(NamedTuple):
    """`|c - r| <= atol + rtol * |r|`."""

    atol: float
    rtol: float


EXACT = Allowed(0.0, 0.0)
