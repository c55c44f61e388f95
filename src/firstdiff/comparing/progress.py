"""Progress of a comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Stage(StrEnum):
    """The stages of a comparison, as shown to the user."""

    OPENING = "opening"
    PAIRING = "pairing"
    MEASURING = "comparing"
    LOCATING = "locating"
    DIAGNOSING = "looking for causes"


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` bytes of a stage; both 0 where it cannot be counted.

    first: the first row that differs so far
    """

    stage: Stage
    done: int = 0
    total: int = 0
    first: str | None = None


OnProgress = Callable[[Progress], None]
