"""Golden data: the reference's trace for every input set, with digests of what it was made from."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal

from firstdiff import __version__
from firstdiff.errors import ReadError, UsageError, WriteError
from firstdiff.json_text import to_json
from firstdiff.readers import open_trace
from firstdiff.trace import HEADER, Trace
from firstdiff.workflows.command import Command, CommandError, OnLine, fill, run_command
from firstdiff.workflows.digests import Digests, digest_of_text
from firstdiff.workflows.project import InputSet, Project

Kind = Literal["inputs", "files", "code", "version"]
_NEW = ".new-"
_OLD = ".old-"
_OF_ITS_OWN = 32.0  # eps: runs of one program on one machine that agree better do not tell how another one may round


@dataclass(frozen=True, slots=True)
class Golden:
    """A golden that was made: where, how many tensors, how long the reference took.

    floors: how many tensors got a noise floor; None where it was not measured
    """

    input_set: str
    path: Path
    tensors: int
    seconds: float
    floors: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is no longer as it was when the golden was made."""

    kind: Kind
    text: str


def run_side(
    command: Command,
    inputs: InputSet,
    trace: Path,
    *,
    only: Sequence[str] = (),
    golden: Path | None = None,
    on_line: OnLine | None = None,
) -> float:
    """Run one side's command on one input set, recording into `trace`; returns the seconds it took.

    only: globs of FIRSTDIFF_ONLY
    golden: the folder that FIRSTDIFF_GOLDEN names, for ports that ask for golden inputs
    """
    main = inputs.main_file
    environment = {"FIRSTDIFF_TRACE": str(trace), "FIRSTDIFF_ONLY": ",".join(only)}
    environment["FIRSTDIFF_INPUT"] = "" if main is None else str(main)
    environment["FIRSTDIFF_GOLDEN"] = "" if golden is None else str(golden)
    words = fill(command.words, inputs.values, main, trace)
    return run_command(command, words, environment, on_line)


def make_golden(
    project: Project,
    inputs: InputSet,
    digests: Digests,
    *,
    floor: int | None = None,
    on_line: OnLine | None = None,
) -> Golden:
    """Run the reference on one input set and put its trace in place of the earlier one, once it is complete.

    floor: how many more runs measure the noise floor; None for what the project says
    """
    command = project.command("reference")
    made_from = _made_from(project, inputs, digests)
    target = project.golden.folder / inputs.name
    with Staging(target) as staging:
        seconds = run_side(command, inputs, staging.path, on_line=on_line)
        trace = recorded_trace(staging.path, command)
        if trace.unfinished:
            raise CommandError(f"the reference left half a trace: {trace.unfinished}; the earlier golden is kept")
        _add_to_header(staging.path, made_from)
        runs = project.golden.floor if floor is None else floor
        floors = _measure_floor(project, inputs, staging.path, runs, on_line) if runs else None
        staging.keep()
    digests.save()
    return Golden(inputs.name, target, len(trace), seconds, floors)


def recorded_trace(folder: Path, command: Command, only: Sequence[str] = ()) -> Trace:
    """Open what a command recorded; CommandError where that is nothing.

    only: the globs of FIRSTDIFF_ONLY that it was given
    """
    try:
        trace = open_trace(folder)
    except ReadError as error:
        if any(folder.glob("*")):
            raise
        raise CommandError(
            f"the {command.side} command ran, but recorded nothing: it must write a trace to the folder in "
            "FIRSTDIFF_TRACE (fd.record(), or a client's Recorder)"
        ) from error
    if not trace.tensors:
        which = f"no tensor that fits {', '.join(only)}" if only else "no tensor; does it tap any?"
        raise CommandError(f"the {command.side} command ran, but its trace holds {which}")
    return trace


def golden_trace(path: Path) -> Trace:
    """Open a golden; ReadError says how to make one that is not there."""
    try:
        path.stat()
    except PermissionError as error:
        raise ReadError("may not be read; check its permissions", str(path)) from error
    except OSError as error:
        raise ReadError("does not exist; `firstdiff golden` makes it", str(path)) from error
    return open_trace(path)


def load_golden(name: str, otherwise: Any = None) -> Any:
    """Return a tensor of the golden while `firstdiff validate --isolate` runs, else the value given.

    >>> load_golden("mel", otherwise=[1.0])  # FIRSTDIFF_GOLDEN is not set
    [1.0]

    name: the tensor's key, as `firstdiff inspect` lists it
    otherwise: the port's own value; left out, there must be a golden
    """
    folder = os.environ.get("FIRSTDIFF_GOLDEN")
    if folder:
        return open_trace(folder)[name].values().read()
    if otherwise is None:
        raise UsageError(f"there is no golden to take {name!r} from; FIRSTDIFF_GOLDEN, which names it, is not set")
    return otherwise


def changes_since(header: Mapping[str, Any], project: Project, inputs: InputSet, digests: Digests) -> list[Change]:
    """Compare what a golden was made from with what is there now: inputs, named files, code, version.

    Nothing is known of a golden that does not state its origin; of a project without reference command only its code.
    """
    if not states_origin(header):
        return []
    now = _made_from(project, inputs, digests)
    digests.save()
    was, current = header["golden"], now["golden"]
    found = [
        *_differing("inputs", "input", _table(was, "inputs"), current["inputs"]),
        *_differing("files", "file", _table(header, "files"), now["files"]),
    ]
    if project.reference is not None:
        found += _differing("code", "reference code", _table(was, "code"), current["code"])
    if project.reference is not None and was.get("command") != current["command"]:
        found.append(Change("code", "the reference command changed since the golden was made"))
    if was.get("firstdiff") != __version__:
        made_with = was.get("firstdiff", "an unknown version")
        found.append(Change("version", f"the golden was made with firstdiff {made_with}; this is {__version__}"))
    return found


def states_origin(header: Mapping[str, Any]) -> bool:
    """Return whether a golden says what it was made from, as those of `firstdiff golden` do."""
    return isinstance(header.get("golden"), Mapping)


def _table(fields: Mapping[str, Any], name: str) -> Mapping[str, str]:
    found = fields.get(name)
    return found if isinstance(found, Mapping) else {}


def _differing(kind: Kind, noun: str, was: Mapping[str, str], now: Mapping[str, str]) -> list[Change]:
    texts = [
        f"{noun} {name} changed since the golden was made" for name in was if name in now and was[name] != now[name]
    ]
    texts += [f"{noun} {name} is new since the golden was made" for name in now if name not in was]
    texts += [f"{noun} {name} is no longer there" for name in was if name not in now]
    return [Change(kind, text) for text in texts]


def _made_from(project: Project, inputs: InputSet, digests: Digests) -> dict[str, Any]:
    """Return what trace.json says of a golden's origin.

    Digests of input files stand under `golden`; `inputs` beside it is the recorder's own digest of the tensors.
    """
    for name, file in project.golden.files.items():
        if not file.exists():
            raise ReadError(f"does not exist; [golden] files.{name} names it", str(file))
    by_name = {
        name: digests.of(inputs.files[name]) if name in inputs.files else digest_of_text(value)
        for name, value in inputs.values.items()
    }
    found: dict[str, Any] = {
        "files": {name: digests.of(file) for name, file in project.golden.files.items()},
        "golden": {
            "input_set": inputs.name,
            "inputs": by_name,
            "command": list(project.reference.words) if project.reference else [],
            "code": digests.of_files(project.golden.code, project.root),
            "firstdiff": __version__,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
        },
    }
    if project.golden.seed is not None:
        found["seed"] = project.golden.seed
    return found


def _add_to_header(folder: Path, fields: Mapping[str, Any]) -> None:
    path = folder / HEADER
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}  # a folder of plain files has none
    if "seed" in known:
        fields = {name: value for name, value in fields.items() if name != "seed"}
    path.write_text(to_json({**known, **fields}, indent=1), encoding="utf-8")


def _measure_floor(project: Project, inputs: InputSet, trace: Path, runs: int, on_line: OnLine | None) -> int:
    from firstdiff.workflows.calibrate import calibrate

    others = [trace.with_name(f"{trace.name}-run{number}") for number in range(runs)]
    try:
        for other in others:
            run_side(project.command("reference"), inputs, other, on_line=on_line)
        return calibrate(trace, others, trace, least=_OF_ITS_OWN).with_floor
    finally:
        for other in others:
            shutil.rmtree(other, ignore_errors=True)


class Staging:
    """A folder beside its target that takes the target's place when it is kept, and is gone otherwise."""

    def __init__(self, target: Path) -> None:
        self._target = target
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(mkdtemp(prefix=f".{target.name}{_NEW}", dir=target.parent))
        except OSError as error:
            raise WriteError(f"cannot write to {target.parent} ({error.strerror or error})") from error
        self.path = self._folder / "trace"

    def __enter__(self) -> Staging:
        return self

    def keep(self) -> None:
        """Put it in the target's place; the earlier one is gone only after that."""
        earlier = self._target.with_name(f".{self._target.name}{_OLD}{os.getpid()}")
        try:
            if self._target.exists():
                self._target.rename(earlier)
            try:
                self.path.rename(self._target)
            except OSError:
                if earlier.exists():
                    earlier.rename(self._target)
                raise
        except OSError as error:
            raise WriteError(f"cannot write to {self._target} ({error.strerror or error})") from error
        with suppress(OSError):
            shutil.rmtree(earlier)

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
