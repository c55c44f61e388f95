"""Files that Python programs of a project are made of: the scripts and the modules they import from its folder."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path


def program_files(words: Sequence[str], root: Path) -> list[Path]:
    """Return the files that a command names, with `-m MODULE` as its file, and what they import below `root`.

    words: the command; its first word is the program itself
    """
    named = [root / word for word in words if (root / word).is_file()]
    named += [file for option, module in pairwise(words) if option == "-m" for file in _files_of(module, root)]
    return list(with_imports(named, root))


def with_imports(files: Iterable[Path], root: Path) -> Iterator[Path]:
    """Return files, each once, and the modules below `root` that they import, directly or not."""
    waiting, seen = list(files), set[Path]()
    while waiting:
        file = waiting.pop(0)
        if file in seen:
            continue
        seen.add(file)
        yield file
        if file.suffix == ".py":
            waiting += _imports(file, root)


def _imports(file: Path, root: Path) -> list[Path]:
    """Return the modules below `root` that one file names; none where it is no Python that we can parse."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    found: list[Path] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names, places = [alias.name for alias in node.names], [file.parent, root]
        elif isinstance(node, ast.ImportFrom):
            package = f"{node.module}." if node.module else ""
            names = [node.module or "", *(f"{package}{alias.name}" for alias in node.names)]
            places = [file.parents[node.level - 1]] if node.level else [file.parent, root]
        else:
            continue
        found += [module for name in names for place in places for module in _files_of(name, place)]
    return [module for module in found if module.is_relative_to(root)]


def _files_of(name: str, place: Path) -> Iterator[Path]:
    """Return the files of a dotted module: its own, or its package's, and those of the packages around it."""
    parts = [part for part in name.split(".") if part]
    for count in range(1, len(parts) + 1):
        stem = place.joinpath(*parts[:count])
        files = stem.with_name(f"{stem.name}.py"), stem / "__init__.py", stem / "__main__.py"
        yield from (file for file in files if file.is_file())
