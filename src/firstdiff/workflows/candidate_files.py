"""The files of a candidate, watched by `--watch` and used to identify its version."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from firstdiff.workflows.imported_files import program_files
from firstdiff.workflows.project import Project

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
