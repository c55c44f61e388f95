"""Track live servers: each holds a lock on its own file, which the system releases when the process dies."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from typing import final

from firstdiff.store.database import StoreError
from firstdiff.trace.lock import lock


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
