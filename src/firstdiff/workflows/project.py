"""`firstdiff.toml`: the commands, inputs, golden data and components of a project."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstdiff.errors import SettingsError, UsageError, did_you_mean
from firstdiff.workflows.command import Command, Side, placeholders, split_command
from firstdiff.workflows.program_files import program_files

if TYPE_CHECKING:
    from firstdiff.judge.rules import NamedRule

FILE = "firstdiff.toml"
STATE = ".firstdiff"
NO_INPUTS = "default"
DEFAULT_TIMEOUT_S = 600.0
_SET_NAME = re.compile(r"\w[\w.-]*")
_PATH_LIKE = re.compile(r"\S*[/\\]\S*|\S+\.\w{1,12}")
_TABLES = {
    "reference": {"command", "timeout", "env", "watch"},
    "candidate": {"command", "timeout", "env", "watch"},
    "golden": {"dir", "files", "code", "seed", "floor", "inputs"},
}
_TOP = {*_TABLES, "inputs", "components", "tolerances", "map", "accept_layout", "random"}


@dataclass(frozen=True, slots=True)
class InputSet:
    """One named set of inputs: what `{input.NAME}` stands for, and which of it are files."""

    name: str
    values: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)

    @property
    def main_file(self) -> Path | None:
        """The file that FIRSTDIFF_INPUT names: the first of the set."""
        return next(iter(self.files.values()), None)


@dataclass(frozen=True, slots=True)
class Component:
    """A stage of the pipeline: globs over the names of its tensors."""

    name: str
    globs: tuple[str, ...]

    def holds(self, name: str) -> bool:
        return any(fnmatchcase(name, glob) for glob in self.globs)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenSettings:
    """`[golden]`: where it is kept, and what it depends on.

    files: weights, vocabulary, …; their digests are stored and compared
    code: files of the reference; a golden is stale when they change
    floor: how many more times the reference runs to measure its noise floor
    inputs: globs over tensors that are given to the model, such as noise, rather than computed by it
    """

    folder: Path
    files: Mapping[str, Path] = field(default_factory=dict)
    code: tuple[Path, ...] = ()
    seed: int | None = None
    floor: int = 0
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Everything `firstdiff.toml` says, with paths relative to its folder."""

    path: Path
    reference: Command | None
    candidate: Command | None
    inputs: Mapping[str, InputSet]
    golden: GoldenSettings
    components: tuple[Component, ...] = ()
    rules: tuple[NamedRule, ...] = ()
    map: Path | None = None
    accept_layout: tuple[str, ...] = ()
    random: Mapping[str, Any] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.path.parent

    @property
    def state(self) -> Path:
        """The folder of what firstdiff keeps between runs."""
        return self.root / STATE

    def shown(self, path: Path) -> str:
        """Return a path as messages name it: relative to the project where it lies below it."""
        whole = path.absolute()
        return whole.relative_to(self.root).as_posix() if whole.is_relative_to(self.root) else str(path)

    def command(self, side: Side) -> Command:
        found = self.reference if side == "reference" else self.candidate
        if found is None:
            raise SettingsError(f'{self.path}: has no [{side}] command; add command = "…" under [{side}]')
        return found

    def input_sets(self, wanted: str | None) -> list[InputSet]:
        """Return one set by name, or all; a project whose commands take no inputs has one that is empty."""
        needed = [
            name for command in (self.reference, self.candidate) if command for name in placeholders(command.words)
        ]
        if needed and not self.inputs:
            raise SettingsError(
                f"{self.path}: has no [inputs], but a command uses {{input.{needed[0]}}}; add [inputs.NAME] with "
                f'{needed[0]} = "…", or make inputs with `firstdiff run --random N`'
            )
        known = self.inputs or {NO_INPUTS: InputSet(NO_INPUTS)}
        if wanted is None:
            return list(known.values())
        if wanted not in known:
            raise UsageError(
                f"{self.path}: has no input set {wanted!r}{did_you_mean(wanted, known)}; it has {', '.join(known)}"
            )
        return [known[wanted]]

    def component(self, wanted: str) -> Component:
        for component in self.components:
            if component.name == wanted:
                return component
        names = [component.name for component in self.components]
        there = f"it has {', '.join(names)}" if names else "its [components] are empty"
        raise UsageError(f"{self.path}: has no component {wanted!r}{did_you_mean(wanted, names)}; {there}")


def find_project(start: Path | None = None) -> Path | None:
    """Return the `firstdiff.toml` of a folder or of the nearest one above it."""
    folder = (start or Path.cwd()).absolute()
    return next((place / FILE for place in (folder, *folder.parents) if (place / FILE).is_file()), None)


def load_project(path: Path | None = None) -> Project:
    """Read a project file; SettingsError names the entry that makes no sense."""
    import tomllib

    found = path or find_project()
    if found is None:
        raise UsageError(f"there is no {FILE} here or above; `firstdiff init` writes one")
    try:
        text = found.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{found}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{found}: is not valid TOML: {error}") from error
    return _ProjectReader(found, text, data).read()


class _ProjectReader:
    def __init__(self, path: Path, text: str, data: Mapping[str, Any]) -> None:
        self._path = path.absolute()
        self._root = self._path.parent
        self._text = text
        self._data = data

    def read(self) -> Project:
        self._known("", self._data, _TOP)
        for table, fields in _TABLES.items():
            self._known(f"[{table}] ", self._table(table), fields)
        inputs = {name: self._input_set(name, values) for name, values in self._table("inputs").items()}
        random = self._table("random")
        commands = self._command("reference"), self._command("candidate")
        self._check_placeholders(commands, inputs, random)
        return Project(
            path=self._path,
            reference=commands[0],
            candidate=commands[1],
            inputs=inputs,
            golden=self._golden(commands[0]),
            components=tuple(Component(name, self._globs(name, globs)) for name, globs in self._components()),
            rules=self._rules(),
            map=self._root / self._text_of("map", self._data["map"]) if "map" in self._data else None,
            accept_layout=self._texts("accept_layout", self._data.get("accept_layout", [])),
            random=random,
        )

    def _wrong(self, finding: str) -> SettingsError:
        return SettingsError(f"{self._path}: {finding}")

    def _known(self, where: str, table: Mapping[str, Any], fields: Iterable[str]) -> None:
        for name in table:
            if name not in set(fields):
                near = did_you_mean(name, fields)
                raise self._wrong(f"unknown entry {where}{name}{near}; it takes {', '.join(sorted(fields))}")

    def _table(self, name: str) -> dict[str, Any]:
        value = self._data.get(name, {})
        if not isinstance(value, dict):
            raise self._wrong(f"{name} is {value!r}; it takes a table, [{name}]")
        return value

    def _text_of(self, where: str, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise self._wrong(f"{where} is {value!r}; it takes a string")
        return value

    def _texts(self, where: str, value: Any) -> tuple[str, ...]:
        several = [value] if isinstance(value, str) else value
        if not isinstance(several, list):
            raise self._wrong(f"{where} is {value!r}; it takes a string or a list of strings")
        return tuple(self._text_of(where, item) for item in several)

    def _file_globs(self, where: str, value: Any) -> tuple[str, ...]:
        globs = self._texts(where, value)
        for glob in globs:
            try:
                next(self._path.glob(glob), None)  # of a file, so nothing is searched: pathlib only reads the pattern
            except (ValueError, NotImplementedError) as error:
                raise self._wrong(f"{where}: {glob} is no glob relative to this file ({error})") from error
        return globs

    def _command(self, side: Side) -> Command | None:
        table = self._table(side)
        if "command" not in table:
            return None
        stated = table["command"]
        try:
            words = split_command(stated) if isinstance(stated, str) else self._texts(f"[{side}] command", stated)
        except ValueError as error:
            raise self._wrong(f"[{side}] command {stated!r} cannot be split into words ({error})") from error
        if not words:
            raise self._wrong(f"[{side}] command is empty")
        timeout = table.get("timeout", DEFAULT_TIMEOUT_S)
        if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not timeout > 0:
            raise self._wrong(f"[{side}] timeout is {timeout!r}; it takes seconds above 0")
        environment = table.get("env", {})
        if not isinstance(environment, dict):
            raise self._wrong(f'[{side}] env is {environment!r}; it takes a table, {{ NAME = "value" }}')
        return Command(
            side=side,
            words=tuple(words),
            folder=self._root,
            timeout=float(timeout),
            environment={name: str(value) for name, value in environment.items()},
            watch=self._file_globs(f"[{side}] watch", table.get("watch", [])),
        )

    def _input_set(self, name: str, values: Any) -> InputSet:
        if not isinstance(values, dict):
            raise self._wrong(f'[inputs] {name} is {values!r}; write [inputs.{name}] and under it text = "…"')
        if not _SET_NAME.fullmatch(name):
            raise self._wrong(f"input set {name!r} cannot name a folder; use letters, digits, '-', '_' and '.'")
        files: dict[str, Path] = {}
        for key, value in values.items():
            if isinstance(value, dict | list):
                raise self._wrong(f"[inputs.{name}] {key} is {value!r}; it takes a file, a text or a number")
            path = self._root / str(value) if isinstance(value, str) and value else None
            if path is not None and path.exists():
                files[key] = path
            elif path is not None and _PATH_LIKE.fullmatch(str(value)):
                raise self._wrong(f"[inputs.{name}] {key}: {value} does not exist")
        return InputSet(name, {key: str(value) for key, value in values.items()}, files)

    def _check_placeholders(
        self, commands: Iterable[Command | None], inputs: Mapping[str, InputSet], random: Mapping[str, Any]
    ) -> None:
        for command in filter(None, commands):
            for name in placeholders(command.words):
                lacking = [found.name for found in inputs.values() if name not in found.values]
                if lacking or (not inputs and name not in random):
                    known = {key for found in inputs.values() for key in found.values}
                    where = f"input set {lacking[0]!r} does" if lacking else "the project, which has no [inputs], does"
                    raise self._wrong(
                        f"[{command.side}] command uses {{input.{name}}}, which {where} not have"
                        f"{did_you_mean(name, known)}"
                    )

    def _golden(self, reference: Command | None) -> GoldenSettings:
        table = self._table("golden")
        files = table.get("files", {})
        if not isinstance(files, dict):
            raise self._wrong(f'[golden] files is {files!r}; write files = {{ weights = "model.safetensors" }}')
        seed, floor = table.get("seed"), table.get("floor", 0)
        if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
            raise self._wrong(f"[golden] seed is {seed!r}; it takes a whole number")
        if not isinstance(floor, int) or isinstance(floor, bool) or floor < 0:
            raise self._wrong(f"[golden] floor is {floor!r}; it takes how many more times the reference runs")
        code = self._file_globs("[golden] code", table.get("code", []))
        return GoldenSettings(
            folder=self._root / self._text_of("[golden] dir", table.get("dir", "golden")),
            files={name: self._root / self._text_of(f"[golden] files.{name}", file) for name, file in files.items()},
            code=tuple(self._code_files(code, reference)),
            seed=seed,
            floor=floor,
            inputs=self._texts("[golden] inputs", table.get("inputs", [])),
        )

    def _code_files(self, globs: tuple[str, ...], reference: Command | None) -> Iterable[Path]:
        """Return the files of the reference: as stated, or those that its command names and their modules."""
        if globs:
            for glob in globs:
                found = sorted(path for path in self._root.glob(glob) if path.is_file())
                if not found:
                    raise self._wrong(f"[golden] code: {glob} matches no file")
                yield from found
        elif reference is not None:
            yield from program_files(reference.words[1:], self._root)

    def _components(self) -> Iterable[tuple[str, Any]]:
        for name, globs in self._table("components").items():
            if name == "full":
                raise self._wrong("[components] full cannot name a component: `--component full` means all of them")
            yield name, globs

    def _globs(self, name: str, globs: Any) -> tuple[str, ...]:
        found = self._texts(f"[components] {name}", globs)
        if not found:
            raise self._wrong(f'[components] {name} is empty; it takes globs over names, such as ["{name}.*"]')
        return found

    def _rules(self) -> tuple[NamedRule, ...]:
        if "tolerances" not in self._data:
            return ()
        from firstdiff.judge.rules import parse_rules

        return parse_rules(self._text, str(self._path))
