"""Results of comparisons on disk: written atomically, read row by row."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from firstdiff.errors import FirstdiffError, UsageError
from firstdiff.json_text import from_plain, plain, to_json
from firstdiff.schema import Comparison, Pair

_HEAD = "head.json"
_ROWS = "rows.json"
_PAIRS = "pairs.jsonl"
_PLACES = "places.bin"
_TENSORS = "tensors.json"
_THIRD = "third.json"
_CHOICES = "choices.json"


class GoneError(FirstdiffError):
    """A result whose files are no longer there."""


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """The content of a result to write.

    rows: a slim line for each pair
    tensors: the tensors of each side
    third: the key of the third trace's tensor for each row that has one
    choices: what there is to filter the rows by
    """

    comparison: Comparison
    rows: Iterable[Any]
    tensors: Mapping[str, Iterable[Any]]
    third: Mapping[int, str]
    choices: Mapping[str, Any]


def write_result(folder: Path, result: ResultFiles) -> None:
    """Write into a folder beside, then rename: whoever sees the folder sees all of it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}.part-"))
    try:
        head = plain(replace(result.comparison, pairs=()))
        (part / _HEAD).write_text(to_json(head), encoding="utf-8")
        (part / _ROWS).write_text(to_json({"rows": list(result.rows)}), encoding="utf-8")
        (part / _TENSORS).write_text(to_json(dict(result.tensors)), encoding="utf-8")
        (part / _THIRD).write_text(to_json(dict(result.third)), encoding="utf-8")
        (part / _CHOICES).write_text(to_json(dict(result.choices)), encoding="utf-8")
        _write_pairs(part, result.comparison.pairs)
        shutil.rmtree(folder, ignore_errors=True)
        part.replace(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def run_of(folder: Path) -> int:
    """The run that wrote a result, or left a part of one behind."""
    number = folder.name.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def _write_pairs(folder: Path, pairs: Iterable[Pair]) -> None:
    places = array("Q")
    with (folder / _PAIRS).open("wb") as file:
        for pair in pairs:
            places.append(file.tell())
            file.write(to_json(pair).encode() + b"\n")
        places.append(file.tell())
        file.flush()
        os.fsync(file.fileno())
    (folder / _PLACES).write_bytes(places.tobytes())


def _upgraded(head: dict[str, Any]) -> dict[str, Any]:
    """The head with `notes` as records; earlier versions wrote plain sentences."""
    notes = ({"code": "other", "key": None, "text": note} if isinstance(note, str) else note for note in head["notes"])
    return {**head, "notes": list(notes)}


@final
class Result:
    """A result as it was written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def head(self) -> dict[str, Any]:
        """The Comparison without its pairs."""
        head: dict[str, Any] = json.loads(self._read(_HEAD))
        del head["pairs"]
        return _upgraded(head)

    def choices(self) -> dict[str, Any] | None:
        """Return the filter choices of the rows; None for a result of a version that did not write them."""
        if not (self.folder / _CHOICES).exists():
            return None
        found: dict[str, Any] = json.loads(self._read(_CHOICES))
        return found

    def rows_text(self) -> bytes:
        """The slim rows, ready to be sent."""
        return self._read(_ROWS)

    def tensors(self, side: str) -> list[dict[str, Any]]:
        found: dict[str, list[dict[str, Any]]] = json.loads(self._read(_TENSORS))
        return found.get(side, [])

    def third(self, row: int) -> str | None:
        found: dict[str, str] = json.loads(self._read(_THIRD))
        return found.get(str(row))

    def pair_text(self, row: int) -> bytes:
        """One pair as JSON, without reading the others."""
        places = array("Q")
        places.frombytes(self._read(_PLACES))
        if not 0 <= row < len(places) - 1:
            raise UsageError(f"there is no row {row}; the comparison has {len(places) - 1:,}, counted from 0")
        try:
            with (self.folder / _PAIRS).open("rb") as file:
                file.seek(places[row])
                return file.read(places[row + 1] - places[row])
        except OSError as error:
            raise self._gone(error) from error

    def pair(self, row: int) -> Pair:
        return from_plain(Pair, json.loads(self.pair_text(row)))

    def comparison(self) -> Comparison:
        """All of it, for reports and other tolerances."""
        whole = _upgraded(json.loads(self._read(_HEAD)))
        whole["pairs"] = [json.loads(line) for line in self._read(_PAIRS).splitlines()]
        return from_plain(Comparison, whole)

    def _read(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise self._gone(error) from error

    def _gone(self, error: OSError) -> GoneError:
        return GoneError(f"the result in {self.folder} is gone ({error.strerror or error}); run the comparison again")
