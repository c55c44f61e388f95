"""Crop a larger run to the part that a smaller one also has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from firstdiff.trace import ArraySource, Tensor, Trace


def cropped(reference: Trace, candidate: Trace, sizes: Mapping[int, int]) -> tuple[Trace, Trace]:
    """Both traces, the candidate's tensors cropped to what the reference has of them.

    sizes: axes of the candidate this long have so many leading places in common with the reference

    Tensors whose shapes are not related that way, such as a length, are left out of both.
    """
    smaller = {str(tensor.key): tensor for tensor in reference}
    kept: dict[str, Tensor] = {}
    for tensor in candidate:
        ours = smaller.get(str(tensor.key))
        if ours is None:
            kept[str(tensor.key)] = tensor
            continue
        part = _part(tensor.values().read(), ours.values().shape, sizes)
        if part is not None:
            kept[str(tensor.key)] = replace(tensor, source=ArraySource(part))
    theirs = {str(tensor.key) for tensor in candidate}
    common = tuple(tensor for key, tensor in smaller.items() if key in kept or key not in theirs)
    return replace(reference, tensors=common), replace(candidate, tensors=tuple(kept.values()))


def _part(values: np.ndarray, shape: tuple[int, ...], sizes: Mapping[int, int]) -> np.ndarray | None:
    if values.ndim != len(shape) or not shape:  # a lone number may be a length
        return None
    for axis, wanted in enumerate(shape):
        given = values.shape[axis]
        if given == wanted:
            continue
        inner = next(
            (long for long, short in sizes.items() if given % long == 0 and given // long * short == wanted), 0
        )
        if not inner:
            return None
        whole = values.reshape(
            *values.shape[:axis], *_factors(given, inner, wanted, sizes[inner]), *values.shape[axis + 1 :]
        )
        values = np.take(whole, range(sizes[inner]), axis=axis if sizes[inner] == 1 else axis + 1)
        values = values.reshape(*values.shape[:axis], wanted, *values.shape[axis + 2 :])
    return np.ascontiguousarray(values)


def _factors(given: int, inner: int, wanted: int, short: int) -> tuple[int, int]:
    """A batch is the outer part of an axis that was flattened, tokens are the inner one."""
    return (inner, given // inner) if short == 1 else (wanted // short, inner)
