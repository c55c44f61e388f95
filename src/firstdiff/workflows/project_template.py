"""`firstdiff init`: a commented project file, filled in from the files of the folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from firstdiff.errors import WriteError
from firstdiff.workflows.project import FILE
from firstdiff.workflows.project_search import Findings, InputFiles, look_around
from firstdiff.workflows.results import write_whole

_MOST_CANDIDATES = 4


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


def template(found: Findings) -> str:
    """Return the text of the file; what could not be found out is a comment to be filled in."""
    fields = "".join(f" {{input.{name}}}" for name, _ in found.inputs[0].files) if found.inputs else ""
    others = found.candidates[1:_MOST_CANDIDATES]
    parts = [
        "# What `firstdiff golden`, `validate`, `run`, `bisect` and `plan` work on. Paths are relative to this file.\n"
        "# Commands run without a shell; {input.NAME} comes from the input set, {trace} is the folder to record to.\n"
        "# They record where FIRSTDIFF_TRACE says: fd.record() in Python, Recorder in the clients.\n",
        _command("reference", found.reference, "python reference.py", fields),
        _command("candidate", found.candidate, "./target/release/port", fields)
        + "".join(f"# command = {json.dumps(other + fields)}   # found as well\n" for other in others)
        + "timeout = 120                # seconds\n"
        + '# watch = ["src/**/*.rs"]     # what --watch looks at; all sources below this folder if left out\n',
        *_input_sets(found.inputs),
        _golden(found),
        _component_lines(found.components),
        "# [[tolerances]]              # the first that matches wins; without one, firstdiff's own limits hold\n"
        '# name = "vocoder.*"          # a regular expression over names\n'
        "# atol = 1e-4\n# rtol = 1e-3\n",
        "# [random.data]               # how `firstdiff run --random N` makes inputs\n"
        '# shape = [1, "1..64"]\n# dtype = "int64"\n# low = 0\n# high = 100\n',
    ]
    return "\n".join(parts)


def _command(side: str, found: str | None, example: str, fields: str) -> str:
    line = (
        f"command = {json.dumps(found + fields)}"
        if found
        else f"# command = {json.dumps(example + fields)}   # fill in"
    )
    return f"[{side}]\n{line}\n"


def _input_sets(found: Sequence[InputFiles]) -> list[str]:
    if not found:
        return ['# [inputs.short]              # named input sets\n# text = "inputs/short.txt"\n']
    return [
        f"[inputs.{inputs.name}]\n" + "".join(f"{name} = {json.dumps(path)}\n" for name, path in inputs.files)
        for inputs in found
    ]


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
