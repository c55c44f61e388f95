"""Find the programs, inputs, weights and golden data of a project in its folder, for `firstdiff init`."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from firstdiff.errors import FirstdiffError
from firstdiff.readers import open_trace
from firstdiff.trace import LINES

_WEIGHTS = frozenset({".safetensors", ".gguf", ".pth", ".pt", ".bin", ".onnx", ".npz"})
_VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model", "merges.txt")
_PASSED_OVER = frozenset(
    "golden target build dist node_modules tests test docs __pycache__ venv env site-packages".split()
)
_INPUT_FOLDERS = ("inputs", "input", "testdata", "test_data", "fixtures", "samples", "data")
_KINDS = {
    "text": {".txt", ".md"},
    "audio": {".wav", ".flac", ".mp3", ".ogg"},
    "image": {".png", ".jpg", ".jpeg", ".bmp", ".webp"},
}
_RECORDS = re.compile(r"\bfirstdiff\b|\bFIRSTDIFF_TRACE\b")
_RUNS = re.compile(r"__main__|\bsys\.argv\b|\bargparse\b|\brecord\(|\bcapture\(|\bFIRSTDIFF_TRACE\b")
_REFERENCE = re.compile(r"(?:^|[_/-])(?:ref|reference|upstream|original|official|torch|pytorch)(?:[_/-]|$)")
_PORT = re.compile(r"(?:^|[_/-])(?:port|candidate|rewrite)(?:[_/-]|$)")
_NO_PROGRAM = re.compile(r"__init__|conftest|setup|test_.*|.*_test")
_DEEPEST = 3
_MOST_FILES = 5000
_MOST_COMPONENTS = 12
_MOST_INPUTS = 20
_MOST_WEIGHTS = 4


@dataclass(frozen=True, slots=True)
class InputFiles:
    """The files of one input set, each under the name that a command uses it by."""

    name: str
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Findings about a project in its folder; None and empty where it tells nothing.

    candidates: commands of other programs that may be the port
    """

    reference: str | None = None
    candidates: tuple[str, ...] = ()
    inputs: tuple[InputFiles, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    golden: str = "golden"
    components: tuple[str, ...] = ()

    @property
    def candidate(self) -> str | None:
        return next(iter(self.candidates), None)


def look_around(folder: Path) -> Findings:
    """Find the programs, inputs, weights and golden data of a folder."""
    found = [path for path in _files(folder) if not set(path.parts[:-1]) & {*_INPUT_FOLDERS}]
    reference, ports = _scripts(folder, found)
    compiled = [command for path in found if (command := _compiled(folder / path.parent, path)) is not None]
    weights = [path.as_posix() for path in found if path.suffix in _WEIGHTS][:_MOST_WEIGHTS]
    vocabularies = [path.as_posix() for path in found if path.name in _VOCABULARIES]
    named = [("weights" if n == 0 else f"weights_{n + 1}", name) for n, name in enumerate(weights)]
    named += [("vocab" if n == 0 else f"vocab_{n + 1}", name) for n, name in enumerate(vocabularies)]
    return Findings(
        reference=None if reference is None else _python(folder, reference),
        candidates=(*compiled, *(_python(folder, port) for port in ports)),
        inputs=_inputs(folder),
        files=tuple(named),
        components=_components(folder / "golden"),
    )


def _files(folder: Path) -> list[Path]:
    """Return the files of a folder and of those below, the nearest first, relative to it."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        inside = Path(place).relative_to(folder)
        deep = len(inside.parts) >= _DEEPEST
        folders[:] = [] if deep else sorted(name for name in folders if name[0] != "." and name not in _PASSED_OVER)
        found += [inside / name for name in sorted(names) if name[0] != "."]
        if len(found) > _MOST_FILES:
            break
    return sorted((path for path in found if _is_file(folder / path)), key=lambda path: (len(path.parts), path))


def _scripts(folder: Path, files: Sequence[Path]) -> tuple[Path | None, list[Path]]:
    """Return the Python programs of both sides: those named so, else any that records.

    A program named so need not mention firstdiff: a module that it imports may record.
    """
    scripts = [path for path in files if path.suffix == ".py" and not _NO_PROGRAM.fullmatch(path.stem)]
    texts = {path: _text(folder / path) for path in scripts}
    recording = [path for path, text in texts.items() if _RECORDS.search(text)]
    programs = [path for path in texts if len(path.parts) == 1 or _RUNS.search(texts[path])]
    both = [path for path in programs if path in recording]
    references = [path for path in both if _is_named(path, _REFERENCE)]
    references += [path for path in both if len(path.parts) == 1 and "ref" in path.stem.lower()]
    references += [path for path in programs if _is_named(path, _REFERENCE)]
    reference = next(iter(references), None)
    ports = [path for path in programs if path not in references and _is_named(path, _PORT)]
    ports += [path for path in both if path not in (reference, *ports)]
    return reference, ports


def _is_named(path: Path, words: re.Pattern[str]) -> bool:
    return words.search(path.with_suffix("").as_posix().lower()) is not None


def _python(folder: Path, script: Path) -> str:
    """Return the command of a script: as a module where it lies in a package."""
    around = script.parts[:-1]
    if around and all((folder.joinpath(*around[: n + 1]) / "__init__.py").is_file() for n in range(len(around))):
        return f"python -m {'.'.join(script.with_suffix('').parts).removesuffix('.__main__')}"
    return f"python {_quoted(script)}"


def _quoted(path: Path) -> str:
    text = path.as_posix()
    return text if re.fullmatch(r"[\w./-]+", text) else f"'{text}'"


def _compiled(folder: Path, manifest: Path) -> str | None:
    """Return the command of a crate or of a Node package, as it is written in the root folder."""
    place = "" if manifest.parent == Path() else f"{manifest.parent.as_posix()}/"
    with suppress(OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError):
        if manifest.name == "Cargo.toml":
            crate = tomllib.loads((folder / manifest.name).read_text(encoding="utf-8"))
            programs = crate.get("bin", [])
            return f"./{place}target/release/{programs[0]['name'] if programs else crate['package']['name']}"
        if manifest.name == "package.json":
            package = json.loads((folder / manifest.name).read_text(encoding="utf-8"))
            return f"node {place}{package['main']}"
    return None


def _inputs(folder: Path) -> tuple[InputFiles, ...]:
    """Return the input sets: a file each, or files of one stem together where every set has the same kinds."""
    files = next(filter(None, (_input_files(folder, name) for name in _INPUT_FOLDERS)), [])
    files.sort(key=lambda path: path.stem)
    groups: dict[str, list[Path]] = {}
    for path in files:
        groups.setdefault(path.stem, []).append(path)
    kinds = [[_kind(path) for path in group] for group in groups.values()]
    together = len({tuple(kind) for kind in kinds}) == 1 and len(set(kinds[0])) == len(kinds[0]) > 1
    sets = list(groups.values()) if together else [[path] for path in files]
    names = [_set_name(paths[0]) for paths in sets]
    unique = [name if names.index(name) == n else f"{name}_{n}" for n, name in enumerate(names)]
    return tuple(
        InputFiles(name, tuple((_kind(path) if together else "data", path.as_posix()) for path in sorted(paths)))
        for name, paths in zip(unique, sets, strict=True)
    )[:_MOST_INPUTS]


def _input_files(folder: Path, name: str) -> list[Path]:
    """Return the files of a folder of inputs, or of those within where it has none; data files alone in `data`."""
    if not _is_dir(folder / name):
        return []
    places = [folder / name, *sorted(path for path in _entries(folder / name) if _is_dir(path))]
    listed = ([path for path in _entries(place) if _is_file(path) and path.name[0] != "."] for place in places)
    known = {suffix for suffixes in _KINDS.values() for suffix in suffixes} | {".npy"}
    wanted = ([path for path in found if name != "data" or path.suffix in known] for found in listed)
    return [path.relative_to(folder) for path in next(filter(None, wanted), [])]


def _entries(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []


def _kind(path: Path) -> str:
    return next((kind for kind, suffixes in _KINDS.items() if path.suffix.lower() in suffixes), "data")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _is_file(path: Path) -> bool:
    with suppress(OSError):  # of a folder that may not be looked into
        return path.is_file()
    return False


def _is_dir(path: Path) -> bool:
    with suppress(OSError):
        return path.is_dir()
    return False


def _set_name(path: Path) -> str:
    return re.sub(r"\W+", "_", path.stem).strip("_") or "input"


def _components(golden: Path) -> tuple[str, ...]:
    """Return the first parts of the names in a golden that is there."""
    lines = sorted(golden.rglob(LINES))
    if not lines:
        return ()
    try:
        names = [tensor.name for tensor in open_trace(lines[0].parent)]
    except FirstdiffError:
        return ()
    return tuple(dict.fromkeys(name.replace("/", ".").partition(".")[0] for name in names))[:_MOST_COMPONENTS]
