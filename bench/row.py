"""One line of the table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A measured value and the target it is held to (`ok` is None where there is none)."""

    name: str
    value: float
    unit: str
    target: str = ""
    ok: bool | None = None


def at_most(name: str, value: float, unit: str, bound: float) -> Row:
    return Row(name, value, unit, f"<= {bound:g}", value <= bound)


def at_least(name: str, value: float, unit: str, bound: float) -> Row:
    return Row(name, value, unit, f">= {bound:g}", value >= bound)
