"""`firstdiff init`: a commented project file, filled in from the files of the folder."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from firstdiff.errors import FirstdiffError, WriteError
from firstdiff.readers import open_trace
from firstdiff.trace import LINES
from firstdiff.workflows.project import FILE
from firstdiff.workflows.results import write_whole

_WEIGHTS = frozenset({".safetensors", ".gguf", ".pth", ".pt", ".bin", ".onnx", ".npz"})
_NO_MODEL = frozenset({"golden", "inputs", "target", "build", "dist", "node_modules", "tests", "__pycache__"})
_VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model", "merges.txt")
_RECORDS = re.compile(r"\bfirstdiff\b|\bFIRSTDIFF_TRACE\b")
_REFERENCE = re.compile(r"(?:^|_)ref(?:erence)?(?:_|$)", re.IGNORECASE)
_PORT = re.compile(r"(?:^|_)(?:port|candidate)(?:_|$)", re.IGNORECASE)
_MOST_COMPONENTS = 12
_MOST_INPUTS = 20
_MOST_WEIGHTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Findings about a project in its folder; None and empty where it tells nothing."""

    reference: str | None = None
    candidate: str | None = None
    inputs: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    golden: str = "golden"
    components: tuple[str, ...] = ()


def write_project(folder: Path, *, overwrite: bool = False) -> tuple[Path, Findings]:
    """Write `firstdiff.toml`; an existing one is kept unless `overwrite`."""
    path = folder / FILE
    if path.exists() and not overwrite:
        raise WriteError(f"{path} exists already; edit it, or replace it with --overwrite")
    found = look_around(folder)
    try:
        write_whole(path, template(found))
    except OSError as error:
        raise WriteError(f"cannot write {path} ({error.strerror or error})") from error
    return path, found


def look_around(folder: Path) -> Findings:
    """Find the programs, inputs, weights and golden data of a folder."""
    reference, port = _scripts(folder)
    inputs = sorted(path for path in (folder / "inputs").glob("*") if _is_file(path) and path.name[0] != ".")
    folders = [folder, *_subfolders(folder)]
    files = [path for place in folders for path in sorted(place.glob("*")) if _is_file(path)]
    weights = [path.relative_to(folder).as_posix() for path in files if path.suffix in _WEIGHTS][:_MOST_WEIGHTS]
    vocabularies = [path.relative_to(folder).as_posix() for path in files if path.name in _VOCABULARIES]
    named = [("weights" if n == 0 else f"weights_{n + 1}", name) for n, name in enumerate(weights)]
    named += [("vocab" if n == 0 else f"vocab_{n + 1}", name) for n, name in enumerate(vocabularies)]
    return Findings(
        reference=f"python {reference.name}" if reference else None,
        candidate=next(filter(None, (_compiled(place, folder) for place in folders)), None)
        or (f"python {port.name}" if port else None),
        inputs=tuple((_set_name(path), f"inputs/{path.name}") for path in inputs[:_MOST_INPUTS]),
        files=tuple(named),
        components=_components(folder / "golden"),
    )


def _scripts(folder: Path) -> tuple[Path | None, Path | None]:
    """Return the Python programs of both sides: those named so, else any that records.

    A program named so need not mention firstdiff: a module that it imports may record.
    """
    scripts = sorted(folder.glob("*.py"))
    recording = [path for path in scripts if _mentions(path)]
    references = [path for path in recording if "ref" in path.stem.lower()]
    reference = next(iter([*references, *(path for path in scripts if _REFERENCE.search(path.stem))]), None)
    others = [path for path in recording if path != reference]
    return reference, next(iter([*(path for path in scripts if _PORT.search(path.stem)), *others]), None)


def _mentions(path: Path) -> bool:
    try:
        return _RECORDS.search(path.read_text(encoding="utf-8", errors="replace")) is not None
    except OSError:
        return False


def _subfolders(folder: Path) -> list[Path]:
    """Return the folders that may hold a model or the port."""
    named = (path for path in folder.glob("*") if path.name[0] != "." and path.name not in _NO_MODEL)
    return sorted(path for path in named if _is_dir(path) and os.access(path, os.R_OK | os.X_OK))


def _is_file(path: Path) -> bool:
    with suppress(OSError):  # of a folder that may not be looked into
        return path.is_file()
    return False


def _is_dir(path: Path) -> bool:
    with suppress(OSError):
        return path.is_dir()
    return False


def _compiled(folder: Path, root: Path) -> str | None:
    """Return the command of a crate or of a Node package, as it is written in the root folder."""
    place = f"./{folder.relative_to(root).as_posix()}/".replace("/./", "/")
    with suppress(OSError, tomllib.TOMLDecodeError, KeyError, TypeError):
        manifest = tomllib.loads((folder / "Cargo.toml").read_text(encoding="utf-8"))
        programs = manifest.get("bin", [])
        return f"{place}target/release/{programs[0]['name'] if programs else manifest['package']['name']}"
    with suppress(OSError, ValueError, KeyError, TypeError):
        package = json.loads((folder / "package.json").read_text(encoding="utf-8"))
        return f"node {place.removeprefix('./')}{package['main']}"
    return None


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


def template(found: Findings) -> str:
    """Return the text of the file; what could not be found out is a comment to be filled in."""
    field = " {input.data}" if found.inputs else ""
    parts = [
        "# What `firstdiff golden`, `validate`, `run`, `bisect` and `plan` work on. Paths are relative to this file.\n"
        "# Commands run without a shell; {input.NAME} comes from the input set, {trace} is the folder to record to.\n"
        "# They record where FIRSTDIFF_TRACE says: fd.record() in Python, Recorder in the clients.\n",
        _command("reference", found.reference, "python reference.py", field),
        _command("candidate", found.candidate, "./target/release/port", field)
        + "timeout = 120                # seconds\n"
        + '# watch = ["src/**/*.rs"]     # what --watch looks at; all sources below this folder if left out\n',
        *_inputs(found.inputs),
        _golden(found),
        _component_lines(found.components),
        "# [[tolerances]]              # the first that matches wins; without one, firstdiff's own limits hold\n"
        '# name = "vocoder.*"          # a regular expression over names\n'
        "# atol = 1e-4\n# rtol = 1e-3\n",
        "# [random.data]               # how `firstdiff run --random N` makes inputs\n"
        '# shape = [1, "1..64"]\n# dtype = "int64"\n# low = 0\n# high = 100\n',
    ]
    return "\n".join(parts)


def _command(side: str, found: str | None, example: str, field: str) -> str:
    line = (
        f"command = {json.dumps(found + field)}" if found else f"# command = {json.dumps(example + field)}   # fill in"
    )
    return f"[{side}]\n{line}\n"


def _inputs(found: Sequence[tuple[str, str]]) -> Iterable[str]:
    if not found:
        return ['# [inputs.short]              # named input sets\n# text = "inputs/short.txt"\n']
    names: dict[str, str] = {}
    for name, path in found:
        unique = name if name not in names else f"{name}_{len(names)}"
        names[unique] = path
    return [f"[inputs.{name}]\ndata = {json.dumps(path)}\n" for name, path in names.items()]


def _golden(found: Findings) -> str:
    files = ", ".join(f"{name} = {json.dumps(path)}" for name, path in found.files)
    line = f"files = {{ {files} }}" if files else '# files = { weights = "model.safetensors" }'
    return (
        f'[golden]\ndir = "{found.golden}"\n{line}   # digests are stored and compared\n'
        '# inputs = ["noise*"]         # tensors that are given to the model, not computed by it\n'
        "# floor = 2                   # more runs of the reference, to measure its own noise\n"
    )


def _component_lines(names: Sequence[str]) -> str:
    head = "[components]                  # in pipeline order: globs over names\n"
    if not names:
        return head + '# tokenizer = ["tokens*"]\n# mel = ["mel", "mel.*"]\n'
    return head + "".join(f"{json.dumps(name)} = {json.dumps([name, f'{name}.*'])}\n" for name in names)
