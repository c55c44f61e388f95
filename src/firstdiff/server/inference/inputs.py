"""Make inputs for a model: from a file, random, or one value everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from firstdiff import dtypes
from firstdiff.capturing.onnx_file import OnnxModel
from firstdiff.capturing.onnx_session import check_inputs, read_inputs
from firstdiff.errors import UsageError
from firstdiff.server.inference.described import value_types
from firstdiff.server.inference.wire import InputsIn, ValueType, Vocabulary

_BELOW = 10
_ELEMENTS = 1 << 28


def inputs_from_file(model: OnnxModel, file: Path) -> dict[str, np.ndarray]:
    return check_inputs(model, read_inputs(file))


def made_inputs(model: OnnxModel, wanted: InputsIn, vocabulary: Vocabulary | None) -> dict[str, np.ndarray]:
    """Random or constant inputs; masks are 1 everywhere unless a constant says otherwise."""
    taken = value_types(item for item in model.proto.graph.input if item.name not in model.weights)
    below = wanted.below or (vocabulary.size if vocabulary else _BELOW)
    rng = np.random.default_rng(wanted.seed)
    found: dict[str, np.ndarray] = {}
    for value in taken:
        shape = _shape_of(value, wanted.sizes, model)
        if not dtypes.known(value.dtype):
            raise UsageError(f"{model.path} takes {value.dtype} as {value.name}; give it in an .npz")
        dtype = dtypes.from_name(value.dtype)
        if wanted.kind == "constant":
            found[value.name] = np.full(shape, wanted.value).astype(dtype)
        elif dtypes.kind_of(dtype) == "float":
            found[value.name] = rng.standard_normal(shape).astype(dtype)
        elif dtypes.kind_of(dtype) == "bool" or "mask" in value.name.lower():
            found[value.name] = np.ones(shape, dtype)
        else:
            found[value.name] = rng.integers(0, below, shape).astype(dtype)
    return check_inputs(model, found)


def _shape_of(value: ValueType, sizes: Mapping[str, int], model: OnnxModel) -> tuple[int, ...]:
    if value.axes is None:
        raise UsageError(f"{model.path} does not say how many axes {value.name} has; give inputs in an .npz")
    shape = tuple(axis.size if axis.size is not None else sizes.get(axis.name or "", 1) for axis in value.axes)
    if min(shape, default=1) < 0 or np.prod(shape, dtype=np.float64) > _ELEMENTS:
        raise UsageError(f"{value.name} of shape {list(shape)} cannot be made; take sizes from 0 to a few thousand")
    return shape
