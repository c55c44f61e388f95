"""Archives as traces: zip and tar, with limits against bombs."""

from __future__ import annotations

import stat
import struct
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, final

from firstdiff.errors import ReadError, RefusedError
from firstdiff.readers import unpack
from firstdiff.readers.blob import Blob, Extent, ExtentFile, PackedBlob, StoredBlob
from firstdiff.readers.tree import RejectedMember, Tree, is_junk, safe_name
from firstdiff.settings import Limits

if TYPE_CHECKING:
    import tarfile

STORED = 0
_ENCRYPTED = 0x1
_UTF8 = 0x800
_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_END64_SIZE = _END64.size + _END64_LOCATOR.size
_TAIL = _END64_SIZE + _END.size + (1 << 16)
_SHORT_TAIL = 4096
_ENTRY = struct.Struct("<4sxB2x2H4x3L3H4x2L")
_CHECKSUM, _LENGTHS_AT, _LENGTHS = 16, 28, struct.Struct("<3H")  # within an entry
_FEW = 64  # members of a directory worth keeping
_LOCAL = struct.Struct("<4s5H3L2H")
_CUT_OFF = "reaches past the end of its archive; was it cut off?"
_FULL32, _FULL16 = 0xFFFFFFFF, 0xFFFF


class Member(NamedTuple):
    """One entry; `header` is where its local header lies within the blob, `mode` its Unix type and permissions."""

    name: str
    method: int
    packed: int
    size: int
    header: int
    flags: int
    mode: int
    crc: int


@final
class Directory:
    """The members of a zip, in order. Zips that differ in their checksums alone, as the files of a dump do, share one
    where all members are stored, for then nobody asks for a checksum.
    """

    def __init__(self, members: tuple[Member, ...]) -> None:
        self.members = members


def read_directory(blob: Blob) -> Directory:
    """The directory of a zip; ReadError where there is none."""
    extent = blob.extent()
    tail, at = _find_end(extent)
    if at < 0 or at + _END.size > len(tail):
        raise ReadError("has no zip directory at its end; was it cut off?")
    _, _, _, _, count, length, start, _ = _END.unpack_from(tail, at)
    end = extent.size - len(tail) + at
    # torch writes the records of 64 bits into every file, needed or not
    if _FULL32 in (length, start) or count == _FULL16 or tail.startswith(b"PK\x06\x07", max(at - 20, 0)):
        count, length, start = _read_end64(tail, at)
        end -= _END64_SIZE
    shift = end - length - start  # bytes in front of the archive, such as a self-extractor
    if shift < 0 or length > extent.size:
        raise ReadError("has a zip directory that does not fit into the file; was it cut off?")
    first = end - length - (extent.size - len(tail))
    directory = tail[first : first + length] if first >= 0 else extent.read(end - length, length)
    known = _known.get((len(directory), shift, count))
    if known is not None and known.without_checksums == _blanked(directory, known.checksums):
        return known.directory
    read = Directory(tuple(_entries(directory, shift)))
    if len(read.members) != count:
        raise ReadError(f"has a zip directory of {len(read.members)} entries where its end says {count}")
    if count <= _FEW and all(member.method == STORED for member in read.members):
        checksums = tuple(_checksums(directory))
        _known.clear()
        _known[len(directory), shift, count] = _Known(_blanked(directory, checksums), checksums, read)
    return read


class _Known(NamedTuple):
    """A directory read before, and where in its bytes the checksums lie."""

    without_checksums: bytes
    checksums: tuple[int, ...]
    directory: Directory


_known: dict[tuple[int, int, int], _Known] = {}


def _blanked(directory: bytes, checksums: tuple[int, ...]) -> bytes:
    blanked = bytearray(directory)
    for at in checksums:
        blanked[at : at + 4] = bytes(4)
    return bytes(blanked)


def _checksums(directory: bytes) -> Iterator[int]:
    at = 0
    while at + _ENTRY.size <= len(directory):
        yield at + _CHECKSUM
        at += _ENTRY.size + sum(_LENGTHS.unpack_from(directory, at + _LENGTHS_AT))


def _find_end(extent: Extent) -> tuple[bytes, int]:
    """The last bytes, and where in them the end record lies: nearly always in the very last, else before a comment."""
    tail, at = b"", -1
    for length in (_SHORT_TAIL, _TAIL):
        if at < 0 and len(tail) < extent.size:
            tail = extent.read(max(extent.size - length, 0), length)
            at = tail.rfind(b"PK\x05\x06")
    return tail, at


def open_member(blob: Blob, member: Member) -> Blob:
    """A member's bytes: in place if stored, else unpacked when they are needed."""
    label = f"{blob.label}/{member.name}"
    if member.flags & _ENCRYPTED:
        raise RefusedError("is encrypted; unpack it with its password first", label)
    if member.method == STORED:
        if member.packed != member.size:
            raise ReadError("is stored, yet has two sizes", label)
        if member.header + member.packed > blob.size:
            raise ReadError(_CUT_OFF, label)
        return _StoredMember(blob, member, label)
    if member.method not in unpack.METHODS:
        raise ReadError(f"is packed by method {member.method}, which firstdiff does not know; pack it again", label)

    def peek(count: int) -> bytes:
        return unpack.first_bytes(_located(blob, member), member.method, min(count, member.size))

    def whole() -> Path:
        return unpack.to_cache(_located(blob, member), member.method, size=member.size, crc=member.crc)

    return PackedBlob(member.name, label, member.size, peek, whole)


@final
class _StoredMember(Blob):
    """An uncompressed member, whose local header is not read before its bytes are wanted."""

    def __init__(self, archive: Blob, member: Member, label: str) -> None:
        super().__init__(member.name, label, member.size)
        self._archive = archive
        self._member = member
        self._extent: Extent | None = None

    def extent(self) -> Extent:
        if self._extent is None:
            self._extent = _located(self._archive, self._member)
        return self._extent


def _located(blob: Blob, member: Member) -> Extent:
    """Return the extent of the member's compressed bytes, which start after its local header."""
    extent = blob.extent()
    header = extent.read(member.header, _LOCAL.size)
    if len(header) < _LOCAL.size or header[:4] != b"PK\x03\x04":
        raise ReadError("is not where the zip directory says", f"{blob.label}/{member.name}")
    name_length, extra_length = _LOCAL.unpack(header)[-2:]
    start = member.header + _LOCAL.size + name_length + extra_length
    if start + member.packed > extent.size:
        raise ReadError(_CUT_OFF, f"{blob.label}/{member.name}")
    return Extent(extent.path, extent.offset + start, member.packed)


def _read_end64(tail: bytes, end: int) -> tuple[int, int, int]:
    """The record lies right before its locator, whose own offset is off in archives with a prefix."""
    records = tail[max(end - _END64_SIZE, 0) : end]
    if len(records) < _END64_SIZE or records[:4] != b"PK\x06\x06" or records[_END64.size :][:4] != b"PK\x06\x07":
        raise ReadError("has a zip directory that points nowhere")
    *_, count, length, start = _END64.unpack_from(records)
    return count, length, start


def _entries(directory: bytes, shift: int) -> Iterator[Member]:
    at = 0
    while at + _ENTRY.size <= len(directory):
        magic, made_by, flags, method, crc, packed, size, names, extras, comments, mode, header = _ENTRY.unpack_from(
            directory, at
        )
        if magic != b"PK\x01\x02":
            break
        at += _ENTRY.size
        raw = directory[at : at + names]
        if _FULL32 in (packed, size, header):
            packed, size, header = _widen(directory[at + names : at + names + extras], packed, size, header)
        at += names + extras + comments
        if at > len(directory):
            break
        name = raw.decode("utf-8" if flags & _UTF8 else "cp437", "replace")
        unix_mode = mode >> 16 if made_by == 3 else 0
        yield Member(name.replace("\\", "/"), method, packed, size, header + shift, flags, unix_mode, crc)


def _widen(extra: bytes, packed: int, size: int, header: int) -> tuple[int, int, int]:
    """Sizes and offsets of 64 bits, from the extra field that holds those which did not fit."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            wide = iter(struct.unpack_from(f"<{min(length, len(extra) - at - 4) // 8}Q", extra, at + 4))
            try:
                size = next(wide) if size == _FULL32 else size
                packed = next(wide) if packed == _FULL32 else packed
                header = next(wide) if header == _FULL32 else header
            except StopIteration:
                raise ReadError("has a zip directory with sizes missing") from None
        at += 4 + length
    return packed, size, header


_ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_TAR_MAGIC = (257, b"ustar")
_TAR_BLOCK = 512


def archive_kind(blob: Blob) -> str | None:
    """`zip`, `tar`, `gzip` or `zstd` by the first bytes; None for no archive."""
    head = blob.head(512)
    if head.startswith(_ZIP_MAGICS):
        return "zip"
    if head.startswith(_GZIP_MAGIC):
        return "gzip"
    if head.startswith(_ZSTD_MAGIC):
        return "zstd"
    at, magic = _TAR_MAGIC
    return "tar" if head[at:].startswith(magic) else None


def open_archive(blob: Blob, kind: str) -> Tree:
    """The members of an archive, none of them read yet (a packed tar is unpacked first, once)."""
    if kind == "zip":
        return _open_zip(blob)
    extent = blob.extent()
    if kind != "tar":
        path = unpack.to_cache(extent, kind)
        extent = Extent(str(path), 0, path.stat().st_size)
    return _open_tar(blob.label, extent)


def _open_zip(blob: Blob) -> Tree:
    members = [member for member in read_directory(blob).members if not member.name.endswith("/")]
    limits = Limits.from_environment()
    _refuse_crowd(len(members), limits)
    unpack.refuse_bomb(sum(member.size for member in members), blob.size, limits)

    def opener(member: Member) -> Callable[[str], Blob]:
        return lambda name: open_member(blob, member._replace(name=name))

    wanted = [member for member in members if not is_junk(member.name)]
    return _tree(blob.label, ((member.name, member.mode, opener(member)) for member in wanted))


def _open_tar(label: str, extent: Extent) -> Tree:
    import tarfile

    limits = Limits.from_environment()
    found = []
    try:
        with BufferedReader(ExtentFile(extent)) as file, tarfile.open(fileobj=file, mode="r:") as tar:
            for member in tar:
                found.append(member)
                _refuse_crowd(len(found), limits)
    except tarfile.TarError as error:
        raise ReadError(f"is damaged or cut off: not a whole tar ({error})") from error
    end = max((_after(member) for member in found), default=0)
    if end > extent.size:
        raise ReadError("ends inside its last member; was it cut off?")
    marked = extent.read(end, _TAR_BLOCK) == bytes(_TAR_BLOCK)
    warnings = () if marked else ("the tar has no end mark; members may be missing",)

    def opener(member: tarfile.TarInfo) -> Callable[[str], Blob]:
        def open_it(name: str) -> Blob:
            if member.issparse():
                raise ReadError("is a sparse member, which cannot be mapped; unpack the tar first")
            part = Extent(extent.path, extent.offset + member.offset_data, member.size)
            return StoredBlob(name, f"{label}/{name}", part)

        return open_it

    wanted = [member for member in found if not member.isdir() and not is_junk(member.name)]
    return _tree(label, ((member.name, _mode_of(member), opener(member)) for member in wanted), warnings)


def _after(member: tarfile.TarInfo) -> int:
    """Return the offset of the next tar header; data are padded to whole blocks, and only regular files have any."""
    size = member.size if member.isreg() else 0
    return member.offset_data + -(-size // _TAR_BLOCK) * _TAR_BLOCK


def _tree(
    label: str, members: Iterable[tuple[str, int, Callable[[str], Blob]]], warnings: tuple[str, ...] = ()
) -> Tree:
    blobs: list[Blob] = []
    refusals: list[RejectedMember] = []
    for given, mode, open_it in members:
        try:
            blobs.append(open_it(safe_name(given, mode)))
        except ReadError as error:
            refusals.append(RejectedMember(given, type(error)(error.finding)))
    return Tree(label, tuple(blobs), tuple(refusals), warnings).drop_duplicate_names()


def _mode_of(member: tarfile.TarInfo) -> int:
    kinds = (
        (member.issym() or member.islnk(), stat.S_IFLNK),
        (member.ischr() or member.isblk(), stat.S_IFCHR),
        (member.isfifo(), stat.S_IFIFO),
    )
    return next((mode for holds, mode in kinds if holds), stat.S_IFREG)


def _refuse_crowd(count: int, limits: Limits) -> None:
    if count > limits.max_members:
        raise RefusedError(
            f"has more than {limits.max_members:,} members; raise FIRSTDIFF_MAX_MEMBERS if that is meant"
        )
