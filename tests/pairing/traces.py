"""Small traces, and what pairing made of them as plain names."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from firstdiff.pairing import PairingOptions, PairingResult, pair_up
from firstdiff.trace import ArraySource, Record, Tensor, Trace


def named(*names: str, size: int = 1) -> Trace:
    """Tensors of zeros, whose values tell nothing."""
    return Trace.from_arrays({name: np.zeros(size) for name in names})


def recorded(*records: Record, size: int = 1) -> Trace:
    return Trace("recorded", tuple(Tensor(record, ArraySource(np.zeros(size))) for record in records))


def random(names: Iterable[str], shape: tuple[int, ...] = (6, 10), seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {name: generator.standard_normal(shape).astype(np.float32) for name in names}


def pairs_of(result: PairingResult) -> list[tuple[str, str]]:
    """Keys of both sides; several of one side joined by spaces."""
    return [
        (
            " ".join(str(result.reference.tensors[place].key) for place in match.reference),
            " ".join(str(result.candidate.tensors[place].key) for place in match.candidate),
        )
        for match in result.pairs
    ]


def methods_of(result: PairingResult) -> set[str]:
    return {match.pairing.method for match in result.pairs}


def paired(reference: Trace, candidate: Trace, **options: object) -> list[tuple[str, str]]:
    return pairs_of(pair_up(reference, candidate, PairingOptions(**options)))  # type: ignore[arg-type]


def missing_of(result: PairingResult) -> list[str]:
    return [str(result.reference.tensors[one.index].key) for one in result.missing]


def extra_of(result: PairingResult) -> list[str]:
    return [str(result.candidate.tensors[one.index].key) for one in result.extra]
