"""Unpack compressed bytes once, into a bounded folder on disk."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import cast

from firstdiff.errors import ReadError, RefusedError
from firstdiff.readers.blob import Extent, ExtentFile
from firstdiff.settings import Limits, cache_folder

_PIECE = 1 << 18
_ENDING = ".unpacked"


def _deflate(packed: Extent) -> Iterator[bytes]:
    from isal import isal_zlib

    engine = isal_zlib.decompressobj(-15)
    at = 0
    while not engine.eof:
        chunk = engine.unconsumed_tail or packed.read(at, _PIECE)
        at += 0 if engine.unconsumed_tail else len(chunk)
        piece = engine.decompress(chunk, _PIECE)
        if not chunk and not piece:
            raise ReadError("ends in the middle of its compressed data; was it cut off?")
        yield piece


def _gzip(packed: Extent) -> Iterator[bytes]:
    from isal import igzip

    with ExtentFile(packed) as raw, igzip.open(raw) as file:
        while piece := file.read(_PIECE):
            yield piece


def _zstd(packed: Extent) -> Iterator[bytes]:
    import zstandard

    with zstandard.ZstdDecompressor().stream_reader(
        BufferedReader(ExtentFile(packed)), read_across_frames=True
    ) as file:
        while piece := file.read(_PIECE):
            yield piece


# zip's methods by their numbers, and the two that wrap a tar by name
METHODS: dict[int | str, Callable[[Extent], Iterator[bytes]]] = {
    8: _deflate,
    20: _zstd,
    93: _zstd,
    "gzip": _gzip,
    "zstd": _zstd,
}


def first_bytes(packed: Extent, method: int | str, count: int) -> bytes:
    """The first `count` unpacked bytes, without unpacking the rest."""
    found = b""
    for piece in _pieces(packed, method):
        found += piece
        if len(found) >= count:
            break
    return found[:count]


def to_cache(packed: Extent, method: int | str, *, size: int | None = None, crc: int | None = None) -> Path:
    """A file with the unpacked bytes; made once, and used again while the packed file does not change.

    size, crc: what must come out; None where the format does not say (.tar.gz)
    """
    import tempfile

    limits = Limits.from_environment()
    refuse_bomb(size or 0, packed.size, limits)
    folder = cache_folder() / "unpacked"
    target = folder / (_identity(packed, method) + _ENDING)
    if target.exists():
        with suppress(OSError):
            os.utime(target)  # what was used last is dropped last
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, part = tempfile.mkstemp(dir=folder, suffix=".part")
        try:
            with os.fdopen(descriptor, "wb") as out:
                for piece in _checked(packed, method, size, crc, limits):
                    out.write(piece)
            Path(part).replace(target)
        finally:
            Path(part).unlink(missing_ok=True)
        _drop_oldest(folder, limits.cache_bytes, keep=target)
    except OSError as error:
        raise ReadError(
            f"cannot be unpacked to {folder} ({error.strerror}); set FIRSTDIFF_CACHE to a folder with room"
        ) from error
    return target


def refuse_bomb(unpacked: int, packed: int, limits: Limits) -> None:
    """Raise RefusedError for what unpacks out of all proportion."""
    if unpacked > limits.max_unpacked:
        raise RefusedError(
            f"unpacks to more than {limits.max_unpacked:,} bytes; raise FIRSTDIFF_MAX_UNPACKED if that is meant"
        )
    if unpacked > limits.free_unpacked and unpacked > limits.max_ratio * max(packed, 1):
        raise RefusedError(
            f"unpacks to over {limits.max_ratio} times its size, as a bomb does; "
            "raise FIRSTDIFF_MAX_RATIO if that is meant"
        )


def _checked(packed: Extent, method: int | str, size: int | None, crc: int | None, limits: Limits) -> Iterator[bytes]:
    done = sum_so_far = 0
    for piece in _pieces(packed, method):
        done += len(piece)
        sum_so_far = zlib.crc32(piece, sum_so_far)
        if size is not None and done > size:
            raise RefusedError(f"unpacks to more than the {size:,} bytes it claims")
        refuse_bomb(done, packed.size, limits)
        yield piece
    if size is not None and done < size:
        raise ReadError(f"unpacks to {done:,} bytes instead of the {size:,} it claims; was it cut off?")
    if crc is not None and sum_so_far != crc:
        raise ReadError("is damaged: its checksum does not fit")


def _pieces(packed: Extent, method: int | str) -> Iterator[bytes]:
    """Unpacked bytes in bounded pieces, whatever the ratio; every library's own complaint becomes one sentence."""
    import zstandard
    from isal.igzip_lib import IsalError

    damage: tuple[type[Exception], ...] = (cast("type[Exception]", IsalError), zlib.error, zstandard.ZstdError, OSError)
    try:
        yield from METHODS[method](packed)
    except EOFError as error:
        raise ReadError("ends in the middle of its compressed data; was it cut off?") from error
    except damage as error:
        raise ReadError(f"is damaged and cannot be unpacked ({error})") from error


def _identity(packed: Extent, method: int | str) -> str:
    """Changes when the packed file does."""
    import hashlib

    status = os.stat(packed.path)
    facts = (os.path.realpath(packed.path), packed.offset, packed.size, method, status.st_size, status.st_mtime_ns)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _drop_oldest(folder: Path, bound: int, keep: Path) -> None:
    """Least recently used first. A file in use stays readable where the system lets it go, and stays where not."""
    files = []
    for file in folder.glob(f"*{_ENDING}"):
        with suppress(OSError):
            status = file.stat()
            files.append((status.st_mtime_ns, status.st_size, file))
    total = sum(size for _, size, _ in files)
    for _, size, file in sorted(files):
        if total <= bound:
            return
        if file != keep:
            with suppress(OSError):
                file.unlink()
                total -= size
