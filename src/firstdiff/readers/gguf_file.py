"""Read GGUF files: map plain tensors, decode quantised ones block by block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob
from firstdiff.readers.decoded import Decode, DecodedSource
from firstdiff.readers.format import Format, Found
from firstdiff.readers.gguf_header import MAGIC, ByteOrder, Entry, read_header
from firstdiff.readers.mapped import MappedSource
from firstdiff.trace import Source

_PLAIN = {
    0: "float32",
    1: "float16",
    24: "int8",
    25: "int16",
    26: "int32",
    27: "int64",
    28: "float64",
    30: "bfloat16",
}


class Quantisation(NamedTuple):
    """One of ggml's block types: `values` numbers in `unit` bytes."""

    kind: int
    name: str
    values: int
    unit: int


_QUANTISED = {
    each.kind: each
    for each in (
        Quantisation(2, "Q4_0", 32, 18),
        Quantisation(3, "Q4_1", 32, 20),
        Quantisation(6, "Q5_0", 32, 22),
        Quantisation(7, "Q5_1", 32, 24),
        Quantisation(8, "Q8_0", 32, 34),
        Quantisation(9, "Q8_1", 32, 40),
        Quantisation(10, "Q2_K", 256, 84),
        Quantisation(11, "Q3_K", 256, 110),
        Quantisation(12, "Q4_K", 256, 144),
        Quantisation(13, "Q5_K", 256, 176),
        Quantisation(14, "Q6_K", 256, 210),
        Quantisation(15, "Q8_K", 256, 292),
        Quantisation(16, "IQ2_XXS", 256, 66),
        Quantisation(17, "IQ2_XS", 256, 74),
        Quantisation(18, "IQ3_XXS", 256, 98),
        Quantisation(19, "IQ1_S", 256, 50),
        Quantisation(20, "IQ4_NL", 32, 18),
        Quantisation(21, "IQ3_S", 256, 110),
        Quantisation(22, "IQ2_S", 256, 82),
        Quantisation(23, "IQ4_XS", 256, 136),
        Quantisation(29, "IQ1_M", 256, 56),
        Quantisation(34, "TQ1_0", 256, 54),
        Quantisation(35, "TQ2_0", 256, 66),
        Quantisation(39, "MXFP4", 32, 17),
        Quantisation(40, "NVFP4", 64, 36),
        Quantisation(41, "Q1_0", 128, 18),
    )
}


def _open(blob: Blob) -> list[Found]:
    header = read_header(blob)
    counts = Counter(entry.name for entry in header.entries)
    decoder = cache(_decoder)
    found = [_tensor(blob, entry, header.order, decoder) for entry in header.entries if counts[entry.name] == 1]
    twins = [name for name, count in counts.items() if count > 1]
    return found + [Found(name, ReadError(f"is in the file {counts[name]} times")) for name in twins]


def _tensor(blob: Blob, entry: Entry, order: ByteOrder, decoder: Callable[[Quantisation], Decode]) -> Found:
    quantisation = _QUANTISED.get(entry.kind)
    attrs: dict[str, Any] = {} if quantisation is None else {"quantisation": quantisation.name}
    try:
        if quantisation is None:
            return Found(entry.name, _plain(blob, entry, order), attrs)
        return Found(entry.name, _quantised(blob, entry, order, quantisation, decoder), attrs)
    except ReadError as error:
        return Found(entry.name, error, attrs)


def _plain(blob: Blob, entry: Entry, order: ByteOrder) -> Source:
    name = _PLAIN.get(entry.kind)
    if name is None:
        raise ReadError(f"has ggml's type {entry.kind}, which cannot be compared")
    dtype = dtypes.from_name(name)
    if dtypes.is_extended(dtype) and order == ">":
        # numpy cannot name a bfloat16 of the other byte order
        return DecodedSource(blob, entry.shape, dtype, _swapped_bfloat16, offset=entry.offset, unit=2)
    return MappedSource(blob, dtype.newbyteorder(order), entry.shape, offset=entry.offset)


def _swapped_bfloat16(packed: np.ndarray) -> np.ndarray:
    return packed.view(">u2").astype(np.uint16).view(dtypes.from_name("bfloat16"))


def _quantised(
    blob: Blob, entry: Entry, order: ByteOrder, kind: Quantisation, decoder: Callable[[Quantisation], Decode]
) -> Source:
    if not entry.shape or entry.shape[-1] % kind.values:
        raise ReadError(f"has shape {list(entry.shape)}, whose rows are no whole {kind.name} blocks of {kind.values}")
    if order == ">":
        raise ReadError(f"is quantised as {kind.name} in big-endian order; convert it with gguf-convert-endian first")
    float32 = np.dtype(np.float32)
    decode = decoder(kind)
    return DecodedSource(blob, entry.shape, float32, decode, offset=entry.offset, unit=kind.unit, values=kind.values)


def _decoder(kind: Quantisation) -> Decode:
    """Tried on one empty block, so that a type the package cannot decode is known before anything is read."""
    try:
        from gguf.constants import GGMLQuantizationType
        from gguf.quants import dequantize
    except ImportError as error:
        needs = "which needs the gguf package: pip install 'firstdiff[gguf]'"
        raise ReadError(f"is quantised as {kind.name}, {needs}") from error

    def decode(packed: np.ndarray) -> np.ndarray:
        # damaged scales overflow; the infinities they give are the values
        with np.errstate(all="ignore"):
            values: np.ndarray = dequantize(packed.reshape(1, -1), GGMLQuantizationType(kind.kind))
        return values

    try:
        decode(np.zeros((1, kind.unit), np.uint8))
    except (NotImplementedError, ValueError, KeyError) as error:
        raise ReadError(f"is quantised as {kind.name}, which the installed gguf package cannot decode") from error
    return decode


def _sniff(blob: Blob) -> bool:
    return blob.head(4) == MAGIC


FORMAT = Format("gguf", (".gguf",), _sniff, _open)
