"""An advisory lock on an open file, gone with the process that holds it."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import IO

_FAR_BYTE = 1 << 30  # locked on Windows instead of the content, which others must be able to read

if sys.platform == "win32":
    import msvcrt

    def lock(file: IO[bytes]) -> bool:
        """Take the lock; False if another handle has it."""
        file.seek(_FAR_BYTE)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(file: IO[bytes]) -> None:
        """Give the lock back."""
        file.seek(_FAR_BYTE)
        with suppress(OSError):
            msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import errno
    import fcntl

    def lock(file: IO[bytes]) -> bool:
        """Take the lock; False if another handle has it. A file system without locks gives it to everyone."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
        return True

    def unlock(file: IO[bytes]) -> None:
        """Give the lock back; closing alone would not, while a process that was forked meanwhile lives."""
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)
