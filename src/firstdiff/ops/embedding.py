"""Embedding lookup."""

from __future__ import annotations

from typing import Any

import numpy as np

from firstdiff.ops.arrays import doubles, whole_numbers
from firstdiff.ops.operator import operator


@operator
def embedding(
    input: np.ndarray, weight: np.ndarray, *, scale: float = 1.0, offset: int = 0, max_norm: float | None = None
) -> Any:
    """`weight[input + offset] * scale`.

    max_norm: rows longer than this are shortened to it
    """
    rows = whole_numbers(input) + offset
    if rows.size and (rows.min() < 0 or rows.max() >= len(weight)):
        raise ValueError(f"row {rows.min() if rows.min() < 0 else rows.max()} is not among the {len(weight)} there are")
    taken = doubles(weight[rows])
    if max_norm is not None:
        lengths = np.linalg.norm(taken, axis=-1, keepdims=True)
        taken = np.where(lengths > max_norm, taken * (max_norm / (lengths + 1e-7)), taken)
    return taken * scale
