"""Encode tensors and model bytes as one message: length of the JSON header in four bytes, header, raw bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from firstdiff import dtypes
from firstdiff.capturing.onnx_browser import BrowserPart
from firstdiff.errors import UsageError
from firstdiff.json_text import to_json

_HEAD = 4


def pack_part(part: BrowserPart) -> bytes:
    """A part for the browser: the head says what to feed, fetch and keep, the rest is the model."""
    head = {"feeds": part.feeds, "values": part.values, "kept": part.kept, "done": part.done}
    text = to_json(head).encode()
    return len(text).to_bytes(_HEAD, "little") + text + part.model


def unpack_tensors(data: bytes) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, str]]:
    """Tensors by set and name, and the kinds of values that could not be sent; UsageError if the message is torn."""
    try:
        size = int.from_bytes(data[:_HEAD], "little")
        head = json.loads(data[_HEAD : _HEAD + size])
        start, sets = _HEAD + size, dict[str, dict[str, np.ndarray]]()
        for name, tensors in head["sets"].items():
            sets[name] = {}
            for tensor in tensors:
                array, start = _tensor(data, start, tensor)
                sets[name][tensor["name"]] = array
        kinds = {str(name): str(kind) for name, kind in head.get("kinds", {}).items()}
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"the browser's message cannot be read ({error}); reload the page and run again") from error
    return sets, kinds


def _tensor(data: bytes, start: int, said: Mapping[str, Any]) -> tuple[np.ndarray, int]:
    dtype = dtypes.from_name(said["dtype"])
    shape = tuple(int(size) for size in said["shape"])
    count = int(np.prod(shape, dtype=np.int64))
    stop = start + count * dtype.itemsize
    if min(shape, default=0) < 0 or stop > len(data):
        raise ValueError(f"{said['name']} of shape {list(shape)} is cut off")
    return np.frombuffer(data, dtype.newbyteorder("<"), count, start).reshape(shape), stop
