"""Torch files: .pth zips and the legacy format, read without torch."""

from __future__ import annotations

import re
import struct
import warnings
from functools import lru_cache
from io import BufferedReader
from typing import Any, NamedTuple, final

from firstdiff import dtypes
from firstdiff.errors import ReadError, RefusedError
from firstdiff.readers.archive import STORED, Directory, Member, open_member, read_directory
from firstdiff.readers.blob import Blob, ExtentFile
from firstdiff.readers.format import Format, Found
from firstdiff.readers.pickles.machine import MAX_SIZE, PersistentLoad, unpickle
from firstdiff.readers.pickles.nested import named_tensors
from firstdiff.readers.pickles.torch_classes import STORAGES, UNREADABLE
from firstdiff.readers.pickles.torch_objects import TORCH, Storage, expand
from firstdiff.readers.pickles.values import MOST_ARGUMENTS, Bag, Budget, Leaf, Opaque, Symbol, Table, refused, shown
from firstdiff.readers.sources import MappedSource
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


_PICKLE_SUFFIXES = (".pkl", ".pickle")
_SUFFIXES = (".pth", ".pt", ".bin", ".ckpt", *_PICKLE_SUFFIXES)
_ZIP_MAGIC = b"PK\x03\x04"
_PICKLE_MAGICS = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
_STRUCTURE = "data.pkl"
_FRONT = 4096
_MAGIC_ROOM = 32
_LOCAL_SIZE = 30
_ENCRYPTED = 0x1
_ID_PARTS = 5
_MOST_UNDERSTOOD = 256


def _sniff(blob: Blob) -> bool:
    head = blob.head(_FRONT)
    if head.startswith(_ZIP_MAGIC):
        return blob.suffix in _SUFFIXES or _first_member(head).endswith(b"/" + _STRUCTURE.encode())
    if MAGIC in head[:_MAGIC_ROOM]:
        return True
    return blob.suffix in _SUFFIXES and (head.startswith(_PICKLE_MAGICS) or is_tar(head))


def _first_member(head: bytes) -> bytes:
    """The name in the first header: torch writes the structure first."""
    return head[30 : 30 + int.from_bytes(head[26:28], "little")]


def _open(blob: Blob) -> list[Found]:
    head = blob.head(_FRONT)
    if head.startswith(_ZIP_MAGIC):
        return _open_zip(blob, head)
    if MAGIC in head[:_MAGIC_ROOM]:
        return open_legacy(blob)
    if is_tar(head):
        raise ReadError("is in torch's oldest format, a tar; load it with the torch that wrote it and save it again")
    if head.startswith(_PICKLE_MAGICS) or blob.suffix in _PICKLE_SUFFIXES:
        if blob.size > MAX_SIZE:
            raise _too_large(blob.size)
        return _named(blob.read(0, blob.size), _no_storages)
    raise ReadError("does not start as a file of torch.save does; was it cut off, or is it another format?")


def _open_zip(blob: Blob, front: bytes) -> list[Found]:
    layout = _layout_of(read_directory(blob))
    big_endian = layout.order is not None and _is_big_endian(_content(blob, layout.order, front))
    storages = _Storages(blob, layout.members, layout.folder, big_endian=big_endian)
    return _named_once(_content(blob, layout.structure, front), storages)


class _Layout(NamedTuple):
    """The members of a torch zip: pickle, byte order, storages."""

    structure: Member
    order: Member | None
    folder: str
    members: dict[str, Member]


@lru_cache(maxsize=1)
def _layout_of(directory: Directory) -> _Layout:
    members = {member.name: member for member in directory.members}
    structure = next((name for name in members if name == _STRUCTURE or name.endswith("/" + _STRUCTURE)), None)
    prefix = (structure or "").removesuffix(_STRUCTURE)
    if f"{prefix}constants.pkl" in members:
        raise ReadError(
            "is a TorchScript program, not saved tensors; torch.jit.load it and torch.save its state_dict() instead"
        )
    if structure is None:
        raise ReadError(f"is a zip without a {_STRUCTURE}, so not what torch.save writes")
    return _Layout(members[structure], members.get(f"{prefix}byteorder"), f"{prefix}data/", members)


def _content(blob: Blob, member: Member, front: bytes) -> bytes:
    """All of a member; torch writes the small ones first, so they are usually in what was read already."""
    at = member.header
    if front[at : at + 4] == _ZIP_MAGIC and at + _LOCAL_SIZE <= len(front) and _is_stored(member):
        name_length, extra_length = struct.unpack_from("<2H", front, at + 26)
        start = at + _LOCAL_SIZE + name_length + extra_length
        if start + member.size <= len(front):
            return front[start : start + member.size]
    opened = open_member(blob, member)
    if opened.size > MAX_SIZE:
        raise _too_large(opened.size)
    return opened.head(opened.size) if opened.size <= _FRONT else opened.read(0, opened.size)


def _is_stored(member: Member) -> bool:
    return member.method == STORED and member.packed == member.size and not member.flags & _ENCRYPTED


def _too_large(size: int) -> RefusedError:
    return RefusedError(
        f"holds a pickle of {size:,} bytes, beyond the {MAX_SIZE:,} firstdiff takes into memory; save tensors instead"
    )


class _OneTensor(NamedTuple):
    """The parsed pickle of a file with one tensor: its name, layout and storage, and the storage's size."""

    name: str
    source: MappedSource
    storage: str
    size: int


# the files of a dump are often alike to the byte but for their values; each kind is understood once
_understood: dict[tuple[bytes, bool], _OneTensor] = {}


def _named_once(data: bytes, storages: _Storages) -> list[Found]:
    """As `_named`, by what an equal pickle said before, if any."""
    key = data, storages.big_endian
    known = _understood.get(key)
    blob = storages.plain(known.storage) if known else None
    if known and blob and blob.size == known.size:
        return [Found(known.name, known.source.moved_to(blob))]
    named = _named(data, storages)
    if len(named) == len(storages.blobs) == 1 and len(data) <= _FRONT:
        ((name, blob),) = storages.blobs.items()
        if type(named[0].source) is MappedSource:
            if len(_understood) == _MOST_UNDERSTOOD:
                _understood.clear()
            _understood[key] = _OneTensor(named[0].name, named[0].source, name, blob.size)
    return named


def _named(data: bytes, storages: PersistentLoad) -> list[Found]:
    budget = Budget(len(data))
    return named_tensors(unpickle(data, TORCH, storages, budget), expand, budget)


def _no_storages(_: Any) -> Leaf:
    return Leaf(ReadError("refers to data that is not in the file; save it with torch.save"))


@final
class _Storages:
    """The members that hold values, by the persistent ids of the pickle."""

    def __init__(self, archive: Blob, members: dict[str, Member], folder: str, *, big_endian: bool) -> None:
        self._archive = archive
        self._members = members
        self._folder = folder
        self.big_endian = big_endian
        self.blobs: dict[str, Blob] = {}

    def __call__(self, given: Any) -> Any:
        parts = given if type(given) is tuple and len(given) <= MOST_ARGUMENTS else ()
        if len(parts) >= _ID_PARTS and parts[0] == "storage":
            _, cls, key, _, count = parts[:_ID_PARTS]
            if type(cls) is Symbol and type(key) is str:
                return self._storage(cls.name, key, count)
        for part in (given, *parts):
            if type(part) is Opaque:
                return part
        return Leaf(ReadError("refers to its data in a way that torch does not"))

    def _storage(self, cls: str, key: str, count: Any) -> Storage | Leaf:
        dtype = STORAGES.get(cls)
        if dtype is None:
            return Leaf(refused(cls))
        try:
            blob = self.blobs.get(key) or self._open(key)
        except ReadError as error:
            return Leaf(error)
        return Storage(blob, dtype, count, big_endian=self.big_endian)

    def _open(self, key: str) -> Blob:
        member = self._members.get(self._folder + key)
        if member is None:
            raise ReadError(f"needs data/{shown(key)}, which is not in the file")
        try:
            blob = self.blobs[key] = open_member(self._archive, member)
        except ReadError as error:
            raise type(error)(f"needs data/{shown(key)}, which {error.finding}") from error
        return blob

    def plain(self, key: str) -> Blob | None:
        """The storage of that name if it is there and lies in the file as it is."""
        member = self._members.get(self._folder + key)
        return self._open(key) if member is not None and _is_stored(member) else None


def _is_big_endian(order: bytes) -> bool:
    if order not in (b"little", b"big"):
        raise ReadError(f"was written in the byte order {order[:16]!r}, which firstdiff does not know")
    return order == b"big"


FORMAT = Format("torch", _SUFFIXES, _sniff, _open)
