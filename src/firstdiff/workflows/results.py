"""Files that a project keeps between runs, in `.firstdiff`: candidate traces and the history of validations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import final

from firstdiff.errors import WriteError
from firstdiff.json_text import from_plain, to_json
from firstdiff.workflows.validation import SCHEMA, Validation

_NAME = re.compile(r"(\d{6})\.json")
_MOST_KEPT = 200


@final
class Results:
    """The validations of a project, oldest first; a result appears whole or not at all."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._folder = state / "validations"

    def candidate(self, input_set: str) -> Path:
        """Return where the candidate's latest trace of an input set is kept."""
        self._prepare()
        return self._state / "candidate" / input_set

    def folder(self, name: str) -> Path:
        """Return a folder of the project's state, made if need be; WriteError where nothing can be written to it."""
        self._prepare()
        path = self._state / name
        try:
            path.mkdir(exist_ok=True)
            with TemporaryFile(dir=path):
                return path
        except OSError as error:
            raise WriteError(f"cannot write to {path} ({error.strerror or error})") from error

    def add(self, validation: Validation) -> int:
        """Keep one more; returns its number."""
        self._prepare()
        try:
            self._folder.mkdir(exist_ok=True)
            numbers = self.numbers()
            number = numbers[-1] + 1 if numbers else 1
            write_whole(self._folder / f"{number:06d}.json", to_json(validation))
            for old in numbers[: -_MOST_KEPT + 1]:
                (self._folder / f"{old:06d}.json").unlink(missing_ok=True)
        except OSError as error:
            raise WriteError(f"cannot write to {self._folder} ({error.strerror or error})") from error
        return number

    def numbers(self) -> list[int]:
        if not self._folder.is_dir():
            return []
        return sorted(int(found[1]) for path in self._folder.iterdir() if (found := _NAME.fullmatch(path.name)))

    def read(self, number: int) -> Validation | None:
        """Return one by its number; None where it is gone, or of another version."""
        try:
            data = json.loads((self._folder / f"{number:06d}.json").read_text(encoding="utf-8"))
            return from_plain(Validation, data) if data.get("schema") == SCHEMA else None
        except (OSError, ValueError, TypeError, AttributeError, KeyError):
            return None

    def newest_first(self) -> Iterator[Validation]:
        for number in reversed(self.numbers()):
            found = self.read(number)
            if found is not None:
                yield found

    def latest(
        self, input_set: str | None = None, scope: str | None = None, *, isolate: bool | None = None
    ) -> Validation | None:
        """Return the newest validation, of one input set, scope or kind where that is named."""
        return next(
            (
                found
                for found in self.newest_first()
                if input_set in (None, found.input_set)
                and scope in (None, found.scope)
                and isolate in (None, found.isolate)
            ),
            None,
        )

    @contextmanager
    def running(self, input_set: str) -> Iterator[None]:
        """Say that the candidate is running, for whoever looks at the project meanwhile."""
        self._prepare()
        mark = self._state / "running.json"
        began = datetime.now(UTC).isoformat(timespec="seconds")
        with suppress(OSError):
            write_whole(mark, json.dumps({"input_set": input_set, "began": began}))
        try:
            yield
        finally:
            with suppress(OSError):
                mark.unlink()

    def _prepare(self) -> None:
        """Make the folder, which version control is to leave alone."""
        try:
            self._state.mkdir(exist_ok=True)
            ignore = self._state / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
        except OSError as error:
            raise WriteError(f"cannot write to {self._state} ({error.strerror or error})") from error


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place and rename it: nobody reads half of it."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8", newline="\n")
    part.replace(path)
