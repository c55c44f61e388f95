"""Zip and tar archives as trees: stored members are mapped in place, compressed ones unpacked once."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable
from io import BufferedReader
from typing import TYPE_CHECKING

from firstdiff.errors import ReadError, RefusedError
from firstdiff.readers import unpack
from firstdiff.readers.blob import Blob, Extent, ExtentFile, StoredBlob
from firstdiff.readers.tree import Refusal, Tree, is_junk, safe_name
from firstdiff.readers.zip_directory import Member, open_member, read_directory
from firstdiff.settings import Limits

if TYPE_CHECKING:
    import tarfile

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
    refusals: list[Refusal] = []
    for given, mode, open_it in members:
        try:
            blobs.append(open_it(safe_name(given, mode)))
        except ReadError as error:
            refusals.append(Refusal(given, type(error)(error.finding)))
    return Tree(label, tuple(blobs), tuple(refusals), warnings).without_twins()


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
