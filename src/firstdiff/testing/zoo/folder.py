"""A temporary folder, removed with its owner."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path


class Folder:
    """A new temporary folder; it goes when nothing refers to it any more, or with the process."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="firstdiff-zoo-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
