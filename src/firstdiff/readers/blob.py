"""The bytes a format reads: a file, a part of one, or a packed member that is unpacked when needed."""

from __future__ import annotations

import mmap
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from io import BufferedReader, FileIO, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, final

from firstdiff.errors import ReadError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_GRAIN = mmap.ALLOCATIONGRANULARITY
_AHEAD = 1 << 14
_FEW = 1 << 16  # bytes that are read rather than mapped


class _Kept(threading.local):
    """The file a thread read last, while it is in `file_kept_open`."""

    scopes = 0
    path = ""
    file: BufferedReader | None = None
    last: tuple[str, int, int] | None = (
        None  # what was read last, and its bytes: a file's first ones are asked for twice
    )
    data = b""

    def opened(self, path: str) -> BufferedReader:
        if self.file is None or path != self.path:
            self.close()
            self.path, self.file = path, BufferedReader(_opened(path), _AHEAD)
        return self.file

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
        self.path, self.file, self.last, self.data = "", None, None, b""


_kept = _Kept()


@contextmanager
def file_kept_open() -> Iterator[None]:
    """Within it, the file read last stays open, some bytes ahead read: the members of one archive come in turn."""
    _kept.scopes += 1
    try:
        yield
    finally:
        _kept.scopes -= 1
        if not _kept.scopes:
            _kept.close()


class Extent(NamedTuple):
    """`size` bytes of a file on disk, from `offset` on."""

    path: str
    offset: int
    size: int

    def read(self, start: int, count: int) -> bytes:
        """At most `count` bytes from `start`; fewer only where the extent ends."""
        count = min(count, self.size - start)
        if count <= 0:
            return b""
        if _kept.scopes and count <= _AHEAD:
            wanted = (self.path, self.offset + start, count)
            if wanted != _kept.last:
                file = _kept.opened(self.path)
                file.seek(self.offset + start)
                _kept.last, _kept.data = wanted, file.read(count)
            data = _kept.data
        else:
            with _opened(self.path) as alone:
                alone.seek(self.offset + start)
                data = alone.read(count)
        if len(data) < count:
            raise ReadError(f"ends {count - len(data)} bytes early; was it cut off, or is it still being written?")
        return data

    def map(self, start: int, count: int) -> memoryview:
        """A read-only map of `count` bytes from `start`; nothing is read until it is touched.

        A few bytes are read instead, which costs less than setting up a map.
        """
        if count == 0:
            return memoryview(b"")
        first = self.offset + start
        slack = first % _GRAIN
        with _opened(self.path) as file:
            end = os.fstat(file.fileno()).st_size
            if first + count > end or start + count > self.size:
                # a map that reaches past the end of its file would kill the process when touched
                raise ReadError(f"ends {max(first + count - end, 1)} bytes before its data does; was it cut off?")
            if count <= _FEW:
                file.seek(first)
                data = file.read(count)
                if len(data) < count:
                    raise ReadError("became shorter while it was read; compare again when it is complete")
                return memoryview(data)
            mapped = mmap.mmap(file.fileno(), count + slack, access=mmap.ACCESS_READ, offset=first - slack)
        return memoryview(mapped)[slack:]


@final
class ExtentFile(RawIOBase):
    """An extent as a read-only file object, for libraries that want one."""

    def __init__(self, extent: Extent) -> None:
        super().__init__()
        self._file = _opened(extent.path)
        self._extent = extent
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._at = max(offset + (0, self._at, self._extent.size)[whence], 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        target = memoryview(buffer).cast("B")
        left = max(self._extent.size - self._at, 0)
        self._file.seek(self._extent.offset + self._at)
        count = self._file.readinto(target[:left]) or 0
        self._at += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class Blob(ABC):
    """Named bytes. `name` is the path within what was opened, with `/`; `label` is what messages call it.

    `stem` and `suffix` are the last part of the name without its ending, and the ending in lower case: `.npy`.
    `head` is cheap on every blob; `extent` may have to unpack the whole member first.
    """

    def __init__(self, name: str, label: str, size: int) -> None:
        self.name = name
        self.label = label
        self.size = size

    @cached_property
    def stem(self) -> str:
        return os.path.splitext(self.name.rpartition("/")[2])[0]

    @cached_property
    def suffix(self) -> str:
        return os.path.splitext(self.name)[1].lower()

    def head(self, count: int) -> bytes:
        """The first bytes, at most `count`."""
        return self.extent().read(0, count)

    @abstractmethod
    def extent(self) -> Extent:
        """Return the path, offset and size of the bytes on disk."""

    def read(self, start: int, count: int) -> bytes:
        return self.extent().read(start, count)

    def map(self, start: int, count: int) -> memoryview:
        return self.extent().map(start, count)

    def stamp(self) -> object:
        """Changes when the file that holds the bytes does."""
        try:
            status = os.stat(self.extent().path)
        except OSError:
            return "gone"
        return status.st_size, status.st_mtime_ns, status.st_ino


@final
class StoredBlob(Blob):
    """Bytes that lie on disk as they are: a file, or an uncompressed member of an archive."""

    def __init__(self, name: str, label: str, extent: Extent) -> None:
        super().__init__(name, label, extent.size)
        self._extent = extent

    def extent(self) -> Extent:
        return self._extent


@final
class PackedBlob(Blob):
    """A compressed member: `peek` inflates its first bytes, `unpack` puts all of it on disk, once."""

    def __init__(
        self, name: str, label: str, size: int, peek: Callable[[int], bytes], unpack: Callable[[], Path]
    ) -> None:
        super().__init__(name, label, size)
        self._peek = peek
        self._unpack = unpack
        self._extent: Extent | None = None

    def head(self, count: int) -> bytes:
        return self._peek(count)

    def extent(self) -> Extent:
        # the cache may have dropped the file to make room for others
        if self._extent is None or not os.path.exists(self._extent.path):
            self._extent = Extent(str(self._unpack()), 0, self.size)
        return self._extent


def file_blob(path: Path, name: str | None = None) -> StoredBlob:
    """A whole file on disk."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ReadError(_reason(error), str(path)) from error
    return StoredBlob(name or path.name, str(path), Extent(str(path), 0, size))


def _opened(path: str) -> FileIO:
    try:
        return FileIO(path)
    except OSError as error:
        raise ReadError(_reason(error)) from error


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "is gone; was it moved or deleted?"
    if isinstance(error, PermissionError):
        return "may not be read; check its permissions"
    return f"cannot be read ({error.strerror or error})"
