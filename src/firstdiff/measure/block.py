"""A short stretch of a pair as numbers to compute with, whatever the types of its sides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firstdiff.measure.promote import Domain, to_complex128, to_float64
from firstdiff.trace import Index

_EXACT = 1 << 53


@dataclass(frozen=True, slots=True)
class Block:
    """All of it float64.

    r, c, d: reference, candidate and candidate - reference; for complex pairs real and imaginary parts in turn
    size, difference: |r| and |c - r|
    reference_values, candidate_values: what the statistics are taken of: r and c, or their magnitudes
    whole: |c - r| as whole numbers where float64 cannot hold it
    """

    r: np.ndarray
    c: np.ndarray
    d: np.ndarray
    size: np.ndarray
    difference: np.ndarray
    reference_values: np.ndarray
    candidate_values: np.ndarray
    whole: np.ndarray | None = None

    def exact(self, at: Index) -> tuple[np.ndarray, np.ndarray]:
        """|r| and |c - r| at some places."""
        return self.size[at], self.difference[at]


def block_of(domain: Domain, reference: np.ndarray, candidate: np.ndarray) -> Block:
    """Work out the differences of a stretch in float64."""
    if domain == "complex":
        return _complex_block(reference, candidate)
    if domain == "wide" and not (_is_exact(reference) and _is_exact(candidate)):
        return _wide_block(reference, candidate)
    return _real_block(to_float64(reference), to_float64(candidate))


def _real_block(r: np.ndarray, c: np.ndarray) -> Block:
    d = c - r
    return Block(r, c, d, np.abs(r), np.abs(d), r, c)


def _complex_block(reference: np.ndarray, candidate: np.ndarray) -> Block:
    r, c = to_complex128(reference), to_complex128(candidate)
    d = c - r
    size = np.abs(r)
    return Block(
        r.view(np.float64),
        c.view(np.float64),
        d.view(np.float64),
        size,
        np.abs(d),
        size if reference.dtype.kind == "c" else to_float64(reference),
        np.abs(c) if candidate.dtype.kind == "c" else to_float64(candidate),
    )


def _wide_block(reference: np.ndarray, candidate: np.ndarray) -> Block:
    above = _exceeds(candidate, reference)
    whole = _whole_difference(reference, candidate, above)
    r, c = to_float64(reference), to_float64(candidate)
    difference = whole.astype(np.float64)
    return Block(r, c, np.where(above, difference, -difference), np.abs(r), difference, r, c, whole)


def _whole_difference(reference: np.ndarray, candidate: np.ndarray, above: np.ndarray) -> np.ndarray:
    """|c - r|, as Python's integers where it may exceed 2^64: a huge uint64 against a negative number."""
    if np.uint64 in (reference.dtype, candidate.dtype) and (_negative(reference) | _negative(candidate)).any():
        huge: np.ndarray = np.abs(candidate.astype(object) - reference.astype(object))
        return huge
    r, c = reference.astype(np.uint64), candidate.astype(np.uint64)  # modulo 2^64, where differences come out right
    return np.where(above, c - r, r - c)


def _exceeds(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Whether left > right, for whole numbers of any two types, without going through float64."""
    negative_left, negative_right = _negative(left), _negative(right)
    larger = left.astype(np.uint64) > right.astype(np.uint64)  # holds wherever the signs agree
    return np.where(negative_left == negative_right, larger, negative_right)


def _negative(values: np.ndarray) -> np.ndarray:
    return values < 0 if values.dtype.kind == "i" else np.zeros(values.shape, bool)


def _is_exact(values: np.ndarray) -> bool:
    if values.dtype.itemsize < 8:
        return True
    return int(values.min()) >= -_EXACT and int(values.max()) <= _EXACT
