"""Write a trace folder so that a crash loses at most the tensor being written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, final

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import WriteError
from firstdiff.json_text import to_json
from firstdiff.trace.lock import lock, unlock
from firstdiff.trace.record import Record

FORMAT = "firstdiff-trace"
VERSION = 1
HEADER = "trace.json"
LINES = "tensors.jsonl"
_OURS = re.compile(r"\d{6,}\.npy")


@final
class TraceWriter:
    """Writes tensors one by one into a new folder.

    >>> with TraceWriter("mine.trace", producer={"name": "demo"}) as trace:      # doctest: +SKIP
    ...     trace.write(Record(name="mel", seq=0), np.zeros((80, 100), np.float32))

    path: the folder, which must not hold a trace yet unless `overwrite`
    header: further fields of trace.json, such as `seed` or `inputs`
    """

    def __init__(
        self,
        path: str | Path,
        *,
        producer: Mapping[str, Any] | None = None,
        header: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> None:
        self.path = Path(path)
        self.count = 0
        self._broken = False
        self._held: list[dict[str, Any]] = []
        self._header = {
            "format": FORMAT,
            "version": VERSION,
            "producer": dict(producer or {}),
            **(header or {}),
            "complete": False,
        }
        try:
            self._claim(overwrite)
            self._lines: IO[str] = (self.path / LINES).open("w", encoding="utf-8", newline="\n")
        except OSError as error:
            raise WriteError(f"cannot write a trace to {self.path} ({error.strerror or error})") from error

    def write(self, record: Record, array: np.ndarray) -> int:
        """Write the values, then the line that makes them part of the trace; returns the line's number."""
        return self.append(record, self.save(record, array, self.count))

    def save(self, record: Record, array: np.ndarray, number: int) -> dict[str, Any]:
        """Write the values of a line to come, from any thread; returns what `append` wants to know of them."""
        file = self.path / f"{number:06d}.npy"
        if not dtypes.is_supported(array.dtype):
            raise WriteError(f"{record.name} has elements of type {array.dtype}, which a trace cannot hold")
        try:
            _save(file, array.view(dtypes.bits_of(array.dtype)) if dtypes.is_extended(array.dtype) else array)
        except OSError as error:
            self.forget(number)  # a full disk gets room for trace.json to say so
            raise self._failed(record, error) from error
        return {"file": file.name, "dtype": dtypes.name_of(array.dtype), "shape": list(array.shape)}

    def forget(self, number: int) -> None:
        """Delete the values that were saved for a line that will not come."""
        with suppress(OSError):
            (self.path / f"{number:06d}.npy").unlink()

    def append(self, record: Record, held: dict[str, Any]) -> int:
        """Write the line for values that were saved for it; returns its number."""
        if self._broken:
            raise WriteError(f"cannot write {record.name} to {self.path}: an earlier tensor could not be written")
        try:
            self._lines.write(to_json(record.to_line() | held) + "\n")
            self._lines.flush()
        except OSError as error:
            raise self._failed(record, error) from error
        self._held.append(held)
        self.count += 1
        return self.count - 1

    def repeat(self, record: Record, number: int) -> int:
        """Write a line for values that line `number` holds already: both name the same file."""
        return self.append(record, self._held[number])

    def add_floors(self, floors: Mapping[int, Mapping[str, Any]]) -> None:
        """Give lines, by number, a noise floor; the lines are replaced all at once, or not at all."""
        self._lines.close()
        try:
            add_floors(self.path, floors)
            self._lines = (self.path / LINES).open("a", encoding="utf-8", newline="\n")
        except OSError as error:
            raise WriteError(f"cannot add noise floors to {self.path} ({error.strerror or error})") from error

    def close(self, **fields: Any) -> None:
        """Mark the trace complete and let others at it; `fields` are added to trace.json."""
        if self._lock.closed:
            return
        self._header |= {"complete": True, "tensors": self.count, **fields}
        try:
            with suppress(OSError) if self._broken else nullcontext():
                self._lines.close()
            self._write_header()
        except OSError as error:
            raise WriteError(f"cannot finish {self.path} ({error.strerror or error})") from error
        finally:
            unlock(self._lock)
            self._lock.close()

    def abandon(self, reason: str) -> None:
        """Close after a failure: what was written stays, and trace.json says why there is no more."""
        self.close(complete=False, error=reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            self.abandon(f"{type(error).__name__}: {error}")

    def _failed(self, record: Record, error: OSError) -> WriteError:
        """No line may follow one that is torn."""
        self._broken = True
        return WriteError(f"cannot write {record.name} to {self.path} ({error.strerror or error})")

    def _claim(self, overwrite: bool) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        header = self.path / HEADER
        try:
            self._lock: IO[bytes] = header.open("x+b")
        except FileExistsError:
            self._lock = header.open("r+b")
            if not lock(self._lock):
                self._lock.close()
                raise WriteError(
                    f"another process is writing a trace to {self.path}; give each its own folder"
                ) from None
            if not overwrite:
                self._lock.close()
                raise WriteError(
                    f"{self.path} holds a trace already; choose another folder, or pass overwrite=True (--overwrite)"
                ) from None
            self._clear()
        else:
            lock(self._lock)
        self._write_header()

    def _clear(self) -> None:
        (self.path / LINES).unlink(missing_ok=True)
        for file in self.path.iterdir():
            if _OURS.fullmatch(file.name):
                file.unlink()

    def _write_header(self) -> None:
        """In place, for the lock is on this very file; a longer text only ever replaces a shorter one."""
        text = to_json(self._header, indent=1).encode()
        self._lock.seek(0)
        self._lock.write(text)
        self._lock.truncate()
        self._lock.flush()


def _save(file: Path, array: np.ndarray) -> None:
    """Write an .npy file in two writes, since a trace is thousands of small files."""
    with file.open("wb", buffering=0) as data:
        if not array.flags.c_contiguous:
            np.lib.format.write_array(data, array, allow_pickle=False)
            return
        data.write(_npy_header(array.dtype, array.shape))
        left = array.reshape(-1).view(np.uint8).data
        while left:
            left = left[data.write(left) :]


@lru_cache(maxsize=1024)
def _npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    out = BytesIO()
    np.lib.format.write_array_header_1_0(
        out, {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    )
    return out.getvalue()


def add_floors(folder: Path, floors: Mapping[int, Mapping[str, Any]]) -> None:
    """Add noise floors to the lines of a finished trace, by number; the lines are replaced at once, or not at all."""
    fresh = folder / f"{LINES}.new"
    with (
        (folder / LINES).open(encoding="utf-8", newline="\n") as old,
        fresh.open("w", encoding="utf-8", newline="\n") as new,
    ):
        for number, line in enumerate(old):
            new.write(to_json(json.loads(line) | {"floor": floors[number]}) + "\n" if number in floors else line)
        new.flush()
        os.fsync(new.fileno())
    fresh.replace(folder / LINES)


def add_names(folder: Path, records: Sequence[tuple[Record, int]]) -> None:
    """Give tensors of a finished trace, by number, further names: lines that name the same files.

    A tensor that has one of these names already is called `value NAME` from then on.
    """
    lines = [json.loads(line) for line in (folder / LINES).read_text(encoding="utf-8").splitlines()]
    added = [
        record.to_line() | {name: lines[at][name] for name in ("file", "dtype", "shape")} for record, at in records
    ]
    taken = {record.name for record, _ in records}
    kept = [line | {"name": f"value {line['name']}"} if line["name"] in taken else line for line in lines]
    fresh = folder / f"{LINES}.new"
    fresh.write_text("".join(to_json(line) + "\n" for line in (*kept, *added)), encoding="utf-8", newline="\n")
    fresh.replace(folder / LINES)
    header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
    (folder / HEADER).write_text(to_json(header | {"tensors": len(kept) + len(added)}, indent=1), encoding="utf-8")
