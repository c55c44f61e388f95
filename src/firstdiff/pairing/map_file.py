"""The map file: pairs that the user states, read and written. `docs/pairing.md` shows every form of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstdiff.errors import SettingsError, did_you_mean
from firstdiff.pairing.strategy import Match, PairingResult, Unpaired
from firstdiff.schema import Comparison, Pair, TensorInfo
from firstdiff.trace import Trace

_TABLES = ("pair", "regex")
_FIELDS = ("reference", "candidate", "recipe")
_POSITION = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True)
class MapEntry:
    """One table of the file; `line` is where it starts. An empty side means: no partner."""

    line: int
    reference: tuple[str, ...]
    candidate: tuple[str, ...]
    recipe: str | None = None
    regex: bool = False


@dataclass(frozen=True, slots=True)
class PairMap:
    """The content of a map file; `label` is its name in messages."""

    label: str
    entries: tuple[MapEntry, ...]

    def error(self, line: int, finding: str) -> SettingsError:
        return _error(self.label, line, finding)


def load_map(path: str | Path) -> PairMap:
    """Read a map file; what is wrong with it is one sentence with the line."""
    return parse_map(map_text(path), str(path))


def map_text(path: str | Path) -> str:
    """Read the text of a map file; SettingsError where it is none."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 text; a map file is TOML") from error
    except OSError as error:
        raise SettingsError(f"cannot read the map {path} ({error.strerror or error})") from error


def parse_map(text: str, label: str = "map") -> PairMap:
    """The same from text."""
    import tomllib

    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(error, text, label) from error
    for table in tables:
        if table not in _TABLES:
            near = did_you_mean(table, _TABLES)
            line = _line_of(text, rf"\s*\[*\s*\"?{re.escape(table)}\b")
            raise _error(label, line, f"{table!r} is not known{near}; a map has [[pair]] and [[regex]]")
    entries = tuple(sorted(_entries(tables, text, label), key=lambda entry: (entry.regex, entry.line)))
    if not entries:
        raise SettingsError(f"{label} names nothing; write [[pair]] with a reference and a candidate")
    return PairMap(label, entries)


def _entries(tables: Mapping[str, Any], text: str, label: str) -> Iterator[MapEntry]:
    for table in _TABLES:
        items = tables.get(table, [])
        lines = _lines_of(text, rf"\s*\[\[\s*\"?{table}\"?\s*\]\]")
        inline = _line_of(text, rf"\s*\[?\s*\"?{table}\b")
        if not isinstance(items, list):
            raise _error(label, inline, f"[{table}] is one table where a list is expected; write [[{table}]]")
        for number, item in enumerate(items):
            line = lines[number] if number < len(lines) else inline
            yield _entry(table, item, line, label)


def _entry(table: str, item: Any, line: int, label: str) -> MapEntry:
    if not isinstance(item, dict):
        raise _error(label, line, f"{item!r} stands where a table with reference and candidate is expected")
    for name in item:
        if name not in _FIELDS:
            near = did_you_mean(name, _FIELDS)
            raise _error(label, line, f"{name!r} is not known{near}; an entry has {', '.join(_FIELDS)}")
    reference = _names(item.get("reference", []), "reference", line, label)
    candidate = _names(item.get("candidate", []), "candidate", line, label)
    recipe = item.get("recipe")
    if recipe is not None and not isinstance(recipe, str):
        raise _error(label, line, f"recipe is {recipe!r}; it takes a text such as 'b s h d -> s (b h) d'")
    named = bool(reference), bool(candidate)
    if not any(named) or (table == "regex" and not all(named)):
        raise _error(label, line, "the entry names nothing; give it a reference and a candidate")
    entry = MapEntry(line, reference, candidate, recipe, table == "regex")
    if entry.regex:
        _check_patterns(entry, label)
    return entry


def _names(value: Any, side: str, line: int, label: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        raise _error(label, line, f"{side} is {value!r}; it takes a key, or a list of keys")
    for name in names:
        if list(names).count(name) > 1:
            raise _error(label, line, f"{side} has {name!r} twice")
    return tuple(names)


def _check_patterns(entry: MapEntry, label: str) -> None:
    for pattern in entry.reference:
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise _error(label, entry.line, f"the regex {pattern!r} does not parse ({error})") from error
        for template in entry.candidate:
            known = max([0, *map(int, re.findall(r"\\(\d{1,2})", template))]) <= compiled.groups
            named = set(re.findall(r"\\g<([A-Za-z_]\w*)>", template)) <= compiled.groupindex.keys()
            if not known or not named:
                raise _error(label, entry.line, f"{template!r} uses a group that {pattern!r} does not have")


def _not_toml(error: ValueError, text: str, label: str) -> SettingsError:
    finding = str(error)
    at = _POSITION.search(finding)
    line = int(at[1]) if at and at[1] else text.count("\n") + (not text.endswith("\n"))
    finding = _POSITION.sub("", finding)
    return _error(label, line, f"this is not valid TOML ({finding[:1].lower()}{finding[1:]})")


def _lines_of(text: str, pattern: str) -> list[int]:
    return [number for number, line in enumerate(text.split("\n"), 1) if re.match(pattern, line)]


def _line_of(text: str, pattern: str) -> int:
    return next(iter(_lines_of(text, pattern)), 1)


def _error(label: str, line: int, finding: str) -> SettingsError:
    return SettingsError(f"{label}, line {line}: {finding}")


_HEAD = (
    "# Which tensor of {reference} is which of {candidate}.\n"
    "# Edit it and pass it with --map; an entry with one side only says that the tensor has no partner.\n"
)


def write_map(result: PairingResult) -> str:
    """The pairs as a map file, how each was found beside it; what is unpaired follows as comments, with its guess.

    >>> import numpy as np
    >>> from firstdiff.pairing import pair_up
    >>> reference, candidate = Trace.from_arrays({"a": np.ones(3)}), Trace.from_arrays({"b": np.ones(3)})
    >>> print(write_map(pair_up(reference, candidate)).split("[[pair]]")[1])
      # order, 0.90
    reference = "a"
    candidate = "b"
    <BLANKLINE>
    """
    head = _HEAD.format(reference=comment(result.reference.path), candidate=comment(result.candidate.path))
    reference, candidate = _unique_keys(result.reference), _unique_keys(result.candidate)
    blocks = [head, *(_pair(match, reference, candidate) for match in result.pairs)]
    blocks += _unpaired(result.missing, reference, "reference", "candidate")
    blocks += _unpaired(result.extra, candidate, "candidate", "reference")
    return "\n".join(blocks)


def _pair(match: Match, ref: list[str | None], cand: list[str | None]) -> str:
    pairing = match.pairing
    said = f"{pairing.method}, {pairing.confidence:.2f}"
    if pairing.alternatives:
        said += f", or {', '.join(pairing.alternatives)}"
    reference, candidate = [ref[place] for place in match.reference], [cand[place] for place in match.candidate]
    lines = [
        f"[[pair]]  # {comment(said)}",
        f"reference = {_value(reference)}",
        f"candidate = {_value(candidate)}",
    ]
    if match.recipe is not None:
        lines.append(f"recipe = {quoted(match.recipe)}")
    if None in (*reference, *candidate):  # a key that occurs twice cannot be named
        lines = [f"# {line}" for line in lines]
    return "\n".join(lines) + "\n"


def _unpaired(tensors: tuple[Unpaired, ...], names: list[str | None], side: str, other: str) -> Iterator[str]:
    for tensor in tensors:
        name = names[tensor.index]
        guess = tensor.guess
        line = f"# [[pair]]\n# {side} = {_value([name])}\n"
        if guess is not None:
            line += f"# {other} = {quoted(guess.key)}  # {comment(guess.why)}, {guess.confidence:.2f}\n"
        yield line


def _unique_keys(trace: Trace) -> list[str | None]:
    """The key of each tensor, None where the key means another one as well."""
    keys = [str(tensor.key) for tensor in trace]
    count = Counter(keys)
    return [key if count[key] == 1 else None for key in keys]


def _value(names: Sequence[str | None]) -> str:
    texts = ['"(a key that occurs twice)"' if name is None else quoted(name) for name in names]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def quoted(text: str) -> str:
    """A TOML string: JSON's escapes are among TOML's, which escapes delete as well."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def comment(text: str) -> str:
    """Text that stays on its line."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def map_of_rows(comparison: Comparison) -> str:
    """The pairs as a map file, how each was found beside it; what is unpaired follows as comments.

    A recipe is written where the pair was found to match in another layout.
    """
    head = _HEAD.format(reference=comment(comparison.reference.path), candidate=comment(comparison.candidate.path))
    return "\n".join([head, *(_block(pair) for pair in comparison.pairs)])


def _block(pair: Pair) -> str:
    lines = list(_lines(pair))
    if pair.reference is None or pair.candidate is None:
        lines = [f"# {line}" for line in lines]
    return "\n".join(lines) + "\n"


def _lines(pair: Pair) -> Iterator[str]:
    found = pair.pairing
    yield f"[[pair]]  # {comment(f'{found.method}, {found.confidence:.2f}')}" if found else "[[pair]]"
    for name, side in (("reference", pair.reference), ("candidate", pair.candidate)):
        if side is not None:
            yield f"{name} = {_value(_keys(side))}"
    if pair.alignment and not pair.alignment.is_identity and pair.status == "match":
        yield f"recipe = {quoted(pair.alignment.recipe)}"


def _keys(side: TensorInfo) -> list[str]:
    return list(side.keys or (side.name,))
