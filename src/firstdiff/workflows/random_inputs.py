"""Random inputs for differential runs: made from `[random.NAME]`, reproducible by seed, shrunk on demand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from firstdiff.errors import SettingsError, did_you_mean
from firstdiff.workflows.project import InputSet, Project

Arrays = dict[str, np.ndarray]
_RANGE = re.compile(r"(\d+)\s*\.\.\s*(\d+)")
_FIELDS = frozenset({"shape", "dtype", "low", "high", "format"})
_DEFAULT_HIGH = 100
_FORMATS = ("npy", "txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomInput:
    """One generated input.

    shape: each axis as its smallest and largest length
    low, high: whole numbers from `low` up to below `high`; floats between them, or normal where neither is stated
    format: a `.npy` file, or `txt` for numbers with spaces between them
    """

    name: str
    shape: tuple[tuple[int, int], ...]
    dtype: np.dtype
    low: float | None
    high: float | None
    format: str = "npy"

    def draw(self, generator: np.random.Generator) -> np.ndarray:
        shape = [int(generator.integers(least, most + 1)) for least, most in self.shape]
        if self.dtype.kind in "iu":
            low, high = int(self.low or 0), int(_DEFAULT_HIGH if self.high is None else self.high)
            return generator.integers(low, high, shape).astype(self.dtype)
        if self.dtype.kind == "b":
            return generator.integers(0, 2, shape).astype(bool)
        if self.low is None and self.high is None:
            return generator.normal(size=shape).astype(self.dtype)
        return generator.uniform(self.low or 0.0, 1.0 if self.high is None else self.high, shape).astype(self.dtype)


def random_inputs(project: Project) -> tuple[RandomInput, ...]:
    """Read `[random]`; SettingsError where it is empty or makes no sense."""
    if not project.random:
        raise SettingsError(
            f"{project.path}: has no [random]; --random needs [random.NAME] with a shape, such as "
            'shape = [1, "1..64"], and a dtype for each {input.NAME}'
        )
    return tuple(_read(project, name, table) for name, table in project.random.items())


def draw_inputs(inputs: tuple[RandomInput, ...], seed: int, number: int) -> Arrays:
    """Make the inputs of one case."""
    return {item.name: item.draw(np.random.default_rng([seed, number, crc32(item.name.encode())])) for item in inputs}


def write_inputs(
    inputs: tuple[RandomInput, ...], arrays: Mapping[str, np.ndarray], folder: Path, name: str, fixed: Mapping[str, str]
) -> InputSet:
    """Write the files of one case and return them as an input set.

    fixed: values of other placeholders, which stay as they are
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for item in inputs:
        path = folder / f"{item.name}.{item.format}"
        if item.format == "npy":
            np.save(path, arrays[item.name])
        else:
            path.write_text(" ".join(str(value) for value in arrays[item.name].ravel().tolist()), encoding="utf-8")
        files[item.name] = path
    values = {**fixed, **{key: str(path) for key, path in files.items()}}
    return InputSet(name, values, files)


def shrink(
    inputs: tuple[RandomInput, ...], arrays: Arrays, fails: Callable[[Arrays], bool], most_tries: int
) -> tuple[Arrays, int]:
    """Make a failing case smaller while it still fails: shorter axes first, then simpler values; returns tries, too."""
    tries = 0
    progress = True
    while progress and tries < most_tries:
        progress = False
        for smaller in _smaller(inputs, arrays):
            if tries >= most_tries:
                break
            tries += 1
            if fails(smaller):
                arrays, progress = smaller, True
                break
    return arrays, tries


def _smaller(inputs: tuple[RandomInput, ...], arrays: Arrays) -> Iterator[Arrays]:
    """Yield simpler cases, the boldest first."""
    for item in inputs:
        values = arrays[item.name]
        for axis, (least, _) in enumerate(item.shape):
            length = values.shape[axis]
            for kept in dict.fromkeys((least, (least + length) // 2, length - 1)):
                if least <= kept < length:
                    yield {**arrays, item.name: np.take(values, range(kept), axis)}
                    if kept:
                        yield {**arrays, item.name: np.take(values, range(length - kept, length), axis)}
    for item in inputs:
        values = arrays[item.name]
        plain = values.dtype.type(item.low or 0)
        odd = np.flatnonzero(values.ravel() != plain)
        parts = [odd, *np.array_split(odd, 2), *(np.array_split(odd, len(odd)) if len(odd) <= 16 else [])]
        for part in parts:
            if part.size:
                simpler = values.copy()
                simpler.ravel()[part] = plain
                yield {**arrays, item.name: simpler}


def _read(project: Project, name: str, table: Any) -> RandomInput:
    where = f"{project.path}: [random.{name}]"
    if not isinstance(table, dict) or "shape" not in table:
        raise SettingsError(f'{where} needs a shape, such as shape = [1, "1..64"]')
    for field in table:
        if field not in _FIELDS:
            known = ", ".join(sorted(_FIELDS))
            raise SettingsError(f"{where} unknown entry {field}{did_you_mean(field, _FIELDS)}; it takes {known}")
    try:
        dtype = np.dtype(table.get("dtype", "float32"))
    except TypeError as error:
        raise SettingsError(f"{where} dtype is {table['dtype']!r}; it takes a name such as float32 or int64") from error
    if dtype.kind not in "iufb":
        raise SettingsError(f"{where} dtype is {dtype.name}; it takes whole numbers, floats or bool")
    form = table.get("format", "npy")
    if form not in _FORMATS:
        raise SettingsError(f"{where} format is {form!r}; it takes one of {', '.join(_FORMATS)}")
    shape = table["shape"] if isinstance(table["shape"], list) else [table["shape"]]
    low, high = (_number(where, table, field) for field in ("low", "high"))
    if dtype.kind in "iu" and not (low or 0) < (_DEFAULT_HIGH if high is None else high):
        raise SettingsError(f"{where} low is {low}, which is not below high, {high}")
    return RandomInput(
        name=name,
        shape=tuple(_axis(where, length) for length in shape),
        dtype=dtype,
        low=low,
        high=high,
        format=form,
    )


def _number(where: str, table: Mapping[str, Any], field: str) -> float | None:
    value = table.get(field)
    if value is not None and (not isinstance(value, int | float) or isinstance(value, bool)):
        raise SettingsError(f"{where} {field} is {value!r}; it takes a number")
    return value


def _axis(where: str, length: Any) -> tuple[int, int]:
    if isinstance(length, int) and not isinstance(length, bool) and length >= 0:
        return length, length
    found = _RANGE.fullmatch(length) if isinstance(length, str) else None
    if found is None or int(found[1]) > int(found[2]):
        raise SettingsError(f'{where} shape has {length!r}; an axis takes a length, or a range such as "1..64"')
    return int(found[1]), int(found[2])
