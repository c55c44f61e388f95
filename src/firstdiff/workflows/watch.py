"""The files of a candidate: what identifies its version, and what `validate --watch` waits for a change of."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import final

from firstdiff.workflows.program_files import program_files
from firstdiff.workflows.project import Project

_INTERVAL_S = 0.5
_SOURCES = frozenset(
    ".py .rs .toml .js .mjs .ts .c .cc .cpp .cxx .h .hpp .cu .m .mm .go .java .kt .swift .zig .jl .cs .wgsl".split()
)
_SKIPPED = frozenset({"target", "node_modules", "build", "dist", "__pycache__", "venv", "site-packages"})
_MOST_FILES = 20_000


def candidate_files(project: Project) -> list[Path]:
    """Return the files under `[candidate] watch`; without it, sources below the project and files the command names."""
    command = project.candidate
    if command is None:
        return []
    if command.watch:
        found = {path for glob in command.watch for path in project.root.glob(glob) if path.is_file()}
        return sorted(found)
    own = set(program_files(command.words, project.root))
    reference = set(project.golden.code)
    return sorted(own | {path for path in _sources(project) if path not in reference})


def _sources(project: Project) -> Iterator[Path]:
    seen = 0
    for folder, folders, files in os.walk(project.root):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".") and name not in _SKIPPED and Path(folder, name) != project.golden.folder
        ]
        for name in files:
            seen += 1
            if seen > _MOST_FILES:
                return
            if Path(name).suffix in _SOURCES and not name.startswith("."):
                path = Path(folder, name)
                if path != project.path:
                    yield path


@final
class CandidateWatch:
    """Knows the candidate's files as they were when it last looked."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._seen = self._state()

    def wait(self) -> list[str]:
        """Return which files changed, once they stay as they are: an editor or a linker may be at work still."""
        while True:
            time.sleep(_INTERVAL_S)
            now = self._state()
            if now == self._seen:
                continue
            before = self._seen
            while True:
                time.sleep(_INTERVAL_S)
                later = self._state()
                if later == now:
                    break
                now = later
            self._seen = now
            changed = [path for path in {**before, **now} if before.get(path) != now.get(path)]
            return sorted(self._project.shown(path) for path in changed)

    def _state(self) -> Mapping[Path, tuple[int, int]]:
        found = {}
        for path in candidate_files(self._project):
            try:
                state = path.stat()
            except OSError:  # it is being replaced
                continue
            found[path] = (state.st_mtime_ns, state.st_size)
        return found
