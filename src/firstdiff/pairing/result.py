"""The result of pairing: matches, unpaired tensors, warnings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from firstdiff.schema import Pairing
from firstdiff.trace import Trace

if TYPE_CHECKING:
    from firstdiff.pairing.fingerprint import Fingerprints


@dataclass(frozen=True, slots=True)
class Match:
    """Tensors that belong together, as places in `Trace.tensors`.

    reference, candidate: one each as a rule; several where a side holds shards (in the order of their ranks) or the
        parts of a fused tensor (in the order in which they are fused)
    recipe: the layout a map file states for them
    doubt: why the values speak against the pair, in one sentence
    """

    reference: tuple[int, ...]
    candidate: tuple[int, ...]
    pairing: Pairing
    recipe: str | None = None
    doubt: str | None = None


@dataclass(frozen=True, slots=True)
class Guess:
    """The likeliest partner of a tensor that has none: its key, the evidence, how far it goes (0 to 1), and others."""

    key: str
    why: str
    confidence: float
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unpaired:
    """A tensor, as its place in `Trace.tensors`, that only one side has."""

    index: int
    guess: Guess | None = None


@dataclass(frozen=True)
class PairingResult:
    """Every tensor of both traces, once: in a match, or in `missing` (reference only) or `extra` (candidate only).

    Pairs stand in the order of the reference. `fingerprints` are the values read so far, of both sides.
    """

    reference: Trace
    candidate: Trace
    pairs: tuple[Match, ...]
    missing: tuple[Unpaired, ...]
    extra: tuple[Unpaired, ...]
    warnings: tuple[str, ...] = ()
    fingerprints: tuple[Fingerprints, Fingerprints] | None = field(default=None, repr=False, compare=False)
