"""Torch files written for a test, and what is found in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.readers.blob import file_blob
from firstdiff.readers.format import Found
from firstdiff.readers.pth import FORMAT
from firstdiff.trace import Source

THREE = np.array([1, 2, 3], np.float32)


def found_in(path: Path) -> dict[str, Found]:
    blob = file_blob(path)
    assert FORMAT.sniff(blob)
    found = list(FORMAT.open(blob))
    assert len({item.name for item in found}) == len(found)
    return {item.name: item for item in found}


def saved(value: Any, folder: Path, **options: Any) -> dict[str, Found]:
    torch.save(value, folder / "x.pth", **options)
    return found_in(folder / "x.pth")


def written(data: bytes, folder: Path, name: str = "x.pth") -> dict[str, Found]:
    (folder / name).write_bytes(data)
    return found_in(folder / name)


def values(item: Found) -> np.ndarray:
    assert isinstance(item.source, Source), item.source
    return item.source.read()


def failure(item: Found) -> str:
    assert isinstance(item.source, ReadError)
    return item.source.finding


def oracle(tensor: torch.Tensor) -> np.ndarray:
    """A torch tensor as the array firstdiff should give."""
    plain = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    if plain.dtype == torch.complex32:
        plain = plain.to(torch.complex64)
    name = str(plain.dtype).removeprefix("torch.")
    raw = bytes(plain.reshape(-1).view(torch.uint8).numpy())
    return np.frombuffer(raw, dtypes.from_name(name)).reshape(plain.shape)


def flat(value: Any, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Yield the named tensors of a torch.load result, as the reference definition of the names."""
    if isinstance(value, torch.Tensor):
        yield name, oracle(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from flat(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from flat(item, f"{name}.{index}" if name else str(index))
    elif isinstance(value, bool | int | float | complex):
        yield name, np.array(value)


def assert_same(source: Source | ReadError, expected: np.ndarray) -> None:
    assert isinstance(source, Source), source
    assert (source.shape, source.dtype) == (expected.shape, expected.dtype)
    assert source.read().tobytes() == expected.tobytes()
