"""What goes into locating and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass

from firstdiff.schema import Divergence, Note, Pair
from firstdiff.trace import Record, Source, Tensor

EVIDENCE_ONLY = frozenset({"param", "buffer"})


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a comparison.

    pair: as judged; its `index` is its place
    reference, candidate: the tensors, the first one where several were joined
    sources: both sides in one layout, where they were measured
    """

    pair: Pair
    reference: Tensor | None
    candidate: Tensor | None
    sources: tuple[Source, Source] | None = None

    @property
    def compared(self) -> bool:
        return self.reference is not None and self.pair.status in ("match", "mismatch")

    @property
    def differs(self) -> bool:
        return self.pair.status == "mismatch"

    @property
    def is_evidence(self) -> bool:
        return self.pair.role in EVIDENCE_ONLY

    @property
    def record(self) -> Record | None:
        """The reference's, whose records give the structure."""
        return self.reference.record if self.reference else None


@dataclass(frozen=True, slots=True)
class DepthPoint:
    """One point of the error over depth: `relative` and `allowed` are both relative to the reference's norm."""

    index: int
    key: str
    relative: float
    allowed: float | None


@dataclass(frozen=True, slots=True)
class Located:
    """Where two runs part.

    pairs: as they came, with `origin`, `origin_reason`, `recovers_from` and `where`
    first_divergence: the first row that differs, in the order of the reference
    divergences: every place where an error was introduced, in order
    depth: error over depth, for plots
    notes: what else there is to say
    """

    pairs: tuple[Pair, ...]
    first_divergence: Divergence | None
    divergences: tuple[Divergence, ...]
    depth: tuple[DepthPoint, ...]
    notes: tuple[Note, ...]
