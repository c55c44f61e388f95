"""The folder of saved comparisons, and which processes use it."""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

from firstdiff.store.database import StoreError
from firstdiff.trace.lock import lock


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of a store and what lies in it. Names that users or archives give never become paths in here."""

    path: Path

    @property
    def database(self) -> Path:
        return self.path / "store.sqlite"

    @property
    def uploads(self) -> Path:
        return self.path / "uploads"

    @property
    def servers(self) -> Path:
        return self.path / "servers"

    def upload(self, upload: str, number: int) -> Path:
        """Return the path of the bytes of one uploaded file."""
        return self.uploads / upload / f"{number:06d}"

    @property
    def all_results(self) -> Path:
        return self.path / "results"

    def results(self, comparison: str) -> Path:
        """Return the folder of all results of one comparison, one for each run."""
        return self.all_results / comparison

    def result(self, comparison: str, run: int) -> Path:
        return self.results(comparison) / f"{run:06d}"


def default_home() -> Path:
    """Return FIRSTDIFF_HOME, or the system's folder for application data."""
    if stated := os.environ.get("FIRSTDIFF_HOME"):
        return Path(stated).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "firstdiff" / "data"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "firstdiff"
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "firstdiff"


def bytes_below(folder: Path) -> int:
    """Bytes of all files in a folder and the folders in it."""
    total = 0
    try:
        with os.scandir(folder) as found:
            for one in found:
                inside = one.is_dir(follow_symlinks=False)
                total += bytes_below(Path(one.path)) if inside else one.stat(follow_symlinks=False).st_size
    except OSError:  # never there, or deleted meanwhile
        return total
    return total


@final
class Owner:
    """One server, as others that share the home see it."""

    def __init__(self, servers: Path) -> None:
        self.id = secrets.token_hex(6)
        self._path = servers / self.id
        try:
            servers.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("x+b")
        except OSError as error:
            raise StoreError(f"cannot write to {servers} ({error.strerror or error}); choose another --home") from error
        lock(self._file)

    def close(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


def is_alive(servers: Path, owner: str) -> bool:
    """True if a server still runs; removes the file of a dead one."""
    path = servers / owner
    try:
        with path.open("r+b") as file:
            if not lock(file):
                return True
    except FileNotFoundError:
        return False
    except OSError:
        return True
    with suppress(OSError):
        path.unlink(missing_ok=True)
    return False
