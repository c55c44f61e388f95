"""Read the torch.save format before 1.6 (pickles and storages in sequence) through torch itself."""

from __future__ import annotations

import re
import warnings
from io import BufferedReader
from typing import Any

from firstdiff import dtypes
from firstdiff.errors import ReadError, RefusedError
from firstdiff.readers.blob import Blob, ExtentFile
from firstdiff.readers.format import Found
from firstdiff.readers.pickles.nested import named_tensors
from firstdiff.readers.pickles.torch_classes import UNREADABLE
from firstdiff.readers.pickles.values import Bag, Budget, Leaf, Table, refused
from firstdiff.trace import ArraySource

MAGIC = (0x1950A86A20F9469CFC6C).to_bytes(10, "little")
_TAR_MAGIC = (257, b"ustar")
_TAR_MEMBERS = (b"sys_info", b"pickle", b"storages", b"tensors")
_GLOBAL = re.compile(r"GLOBAL (\S+)")


def is_tar(head: bytes) -> bool:
    """True for the oldest torch format, a tar of four files, which torch itself cannot load safely."""
    at, magic = _TAR_MAGIC
    return head[at:].startswith(magic) and head.startswith(_TAR_MEMBERS)


def open_legacy(blob: Blob) -> list[Found]:
    """The tensors, through torch's own restricted loader, if torch is installed."""
    try:
        import torch
    except ImportError as error:
        raise ReadError(
            "was written in torch's legacy format, which needs torch to be read; "
            "pip install 'firstdiff[torch]' or save it again with a newer torch"
        ) from error
    # a file object without a descriptor keeps torch off its oldest loader, which before 2.6 ran what it was given
    with warnings.catch_warnings(), BufferedReader(ExtentFile(blob.extent())) as file:
        warnings.simplefilter("ignore")
        try:
            root = torch.load(file, weights_only=True, map_location="cpu", mmap=False)
        except Exception as error:  # a damaged file makes torch raise anything at all
            raise _in_one_sentence(error) from error
        return named_tensors(root, _expand, Budget(blob.size))


def _in_one_sentence(error: Exception) -> ReadError:
    text = str(error)
    if asked := _GLOBAL.search(text):
        return refused(asked[1])
    if "reduce for unrecognized function" in text or "Can only create new object" in text:
        return RefusedError("asks for a call that torch refuses; save plain tensors instead")
    return ReadError(f"is damaged or cut off: torch cannot load it ({type(error).__name__})")


def _expand(value: Any) -> Any:
    """Convert a loaded value to the types that the pickle reader gives."""
    import torch

    if isinstance(value, torch.Tensor):
        return _leaf(value)
    if isinstance(value, dict):
        return Table([part for item in value.items() for part in item])
    if isinstance(value, tuple):
        return tuple(value)
    if isinstance(value, set):
        return Bag(value)
    if isinstance(value, torch.TypedStorage):
        return Leaf(ReadError("is a bare storage; save a tensor instead"))
    return None


def _leaf(tensor: Any) -> Leaf:
    """The values of a torch tensor, in memory."""
    import torch

    kinds = (
        (tensor.is_quantized, "_rebuild_qtensor"),
        (tensor.layout != torch.strided, "_rebuild_sparse_tensor"),
        (tensor.is_meta, "_rebuild_meta_tensor_no_storage"),
    )
    for holds, kind in kinds:
        if holds:
            return Leaf(ReadError(UNREADABLE[kind]))
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype == torch.bfloat16:  # the one type of this format that numpy alone does not know
        return Leaf(ArraySource(plain.view(torch.int16).numpy().view(dtypes.from_name("bfloat16"))))
    return Leaf(ArraySource(plain.numpy()))
