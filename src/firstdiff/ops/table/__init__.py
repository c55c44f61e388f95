"""The table from recorded operations to operators; the first row that supports a call reads it."""

from __future__ import annotations

from firstdiff.ops.table import (
    activations,
    arithmetic,
    attention,
    conv,
    embedding,
    gated,
    linear,
    norms,
    onnx_nodes,
    pooling,
    reductions,
    rotary,
    selecting,
    shaping,
    spectral,
)
from firstdiff.ops.table.row import Row

TABLE: tuple[Row, ...] = (
    *onnx_nodes.ROWS,
    *gated.ROWS,
    *linear.ROWS,
    *conv.ROWS,
    *embedding.ROWS,
    *norms.ROWS,
    *activations.ROWS,
    *attention.ROWS,
    *rotary.ROWS,
    *arithmetic.ROWS,
    *reductions.ROWS,
    *shaping.ROWS,
    *selecting.ROWS,
    *pooling.ROWS,
    *spectral.ROWS,
)

__all__ = ["TABLE", "Row"]
