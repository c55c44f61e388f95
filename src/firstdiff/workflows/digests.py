"""Digests of the files that a golden depends on, remembered while a file stays as it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import final

from firstdiff.errors import ReadError

_BLOCK = 1 << 22


@final
class Digests:
    """SHA-256 of files and folders; large files are read again only after they changed.

    memory: a JSON file that keeps them between runs; None keeps nothing
    """

    def __init__(self, memory: Path | None = None) -> None:
        self._memory = memory
        self._known: dict[str, list[object]] = {}
        if memory is not None:
            with suppress(OSError, ValueError):
                read = json.loads(memory.read_text(encoding="utf-8"))
                self._known = read if isinstance(read, dict) else {}

    def of(self, path: Path) -> str:
        """Return the digest of a file, or of a folder's names and contents; ReadError where it cannot be read."""
        try:
            if not path.is_dir():
                return self._of_file(path)
            whole = hashlib.sha256()
            for file in sorted(entry for entry in path.rglob("*") if entry.is_file()):
                whole.update(f"{file.relative_to(path).as_posix()}\0{self._of_file(file)}\n".encode())
            return whole.hexdigest()
        except OSError as error:
            raise ReadError(f"cannot be read ({error.strerror or error})", str(path)) from error

    def of_files(self, files: Iterable[Path], root: Path) -> dict[str, str]:
        """Return the digests by path relative to a folder."""
        return {_relative(file, root): self.of(file) for file in files}

    def save(self) -> None:
        """Keep what was found; where the folder cannot be written, it is read again the next time."""
        if self._memory is not None:
            with suppress(OSError):
                self._memory.parent.mkdir(parents=True, exist_ok=True)
                self._memory.write_text(json.dumps(self._known), encoding="utf-8")

    def _of_file(self, path: Path) -> str:
        state = path.stat()
        stamp: list[object] = [state.st_size, state.st_mtime_ns]
        known = self._known.get(str(path))
        if isinstance(known, list) and len(known) == 3 and known[:2] == stamp:
            return str(known[2])
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        self._known[str(path)] = [*stamp, digest.hexdigest()]
        return digest.hexdigest()


def digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
