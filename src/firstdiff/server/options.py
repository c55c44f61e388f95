"""Convert requests of the page to comparison options, tolerances and edits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from firstdiff.align import Alignment
from firstdiff.comparing import Options
from firstdiff.errors import UsageError
from firstdiff.judge import NamedRule, Rules, parse_rules
from firstdiff.pairing import PairMap
from firstdiff.pairing.map_file import MapEntry, parse_map
from firstdiff.store import Edits
from firstdiff.trace import Trace

if TYPE_CHECKING:
    from firstdiff.server.schemas import JudgeIn

_EDITS = "the pairs set by hand"
_FILE = "the map file"
_JOINED = " + "
# options of the page's form that have the names and values of `Options.of`
FORM_OPTIONS = (
    "atol",
    "rtol",
    "equal_nan",
    "allow_missing",
    "allow_extra",
    "allow_partial",
    "strict_functions",
    "layout",
    "accept_layout",
    "isolate",
    "diagnose",
    "effort",
    "order",
    "engine",
)


def rules_in(body: JudgeIn) -> Rules:
    """Return the tolerances of a request."""
    if body.rule == "toml":
        return Rules(named=parse_rules(body.toml or ""), equal_nan=body.equal_nan)
    if body.rule == "torch":
        return Rules(table="torch", equal_nan=body.equal_nan)
    if body.rule == "custom":
        if body.atol is None and body.rtol is None:
            raise UsageError("a custom tolerance needs atol, rtol, or both")
        return Rules(atol=body.atol, rtol=body.rtol, equal_nan=body.equal_nan)
    if body.k is None:
        return Rules(equal_nan=body.equal_nan)
    if not body.k >= 0:
        raise UsageError(f"k is {body.k!r}; it takes a number from 0 up")
    everywhere = NamedRule(re.compile(".*", re.DOTALL), None, None, body.k, "k as set on the page")
    return Rules(named=(everywhere,), equal_nan=body.equal_nan)


def options_in(stated: Mapping[str, Any], edits: Edits, traces: Mapping[str, Trace] | None = None) -> Options:
    """Return how to compare, as it was asked for and changed by hand since.

    traces: the sides, which tell the keys that joined rows are made of
    """
    names = {name: stated[name] for name in FORM_OPTIONS if name in stated}
    options = Options.of(
        **names,
        tolerances_text=stated.get("tolerances"),
        layer_offset=edits.layer_offset,
        map=_map(edits, traces or {}, stated.get("map")),
    )
    recipes = {entry.key: _recipe(entry.key, entry.recipe) for entry in edits.layouts}
    return replace(options, layout=replace(options.layout, stated=recipes))


def check_edits(edits: Edits) -> None:
    """Raise UsageError for impossible edits: a tensor in two pairs, a recipe that does not parse."""
    for side in ("reference", "candidate"):
        keys = [getattr(pair, side) for pair in edits.pairs]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise UsageError(f"the {side} {twice!r} is in two pairs; take it out of one of them")
    for entry in edits.layouts:
        _recipe(entry.key, entry.recipe)


def _recipe(key: str, text: str) -> Alignment:
    try:
        return Alignment.parse(text)
    except UsageError as error:
        raise UsageError(f"the recipe for {key}: {error}") from error


def _map(edits: Edits, traces: Mapping[str, Trace], file: str | None) -> PairMap | None:
    """Return pairs as stated; what was in a dropped pair and is in no other has no partner.

    file: the text of a map file, of which holds what was not changed by hand
    """

    def keys(side: str, name: str) -> tuple[str, ...]:
        return _keys(name, traces.get(side))

    entries = [
        MapEntry(line, keys("reference", pair.reference), keys("candidate", pair.candidate))
        for line, pair in enumerate(edits.pairs, 1)
    ]
    placed = {("reference", pair.reference) for pair in edits.pairs} | {
        ("candidate", pair.candidate) for pair in edits.pairs
    }
    for line, pair in enumerate(edits.dropped, len(entries) + 1):
        if ("reference", pair.reference) not in placed:
            entries.append(MapEntry(line, keys("reference", pair.reference), ()))
        if ("candidate", pair.candidate) not in placed:
            entries.append(MapEntry(line, (), keys("candidate", pair.candidate)))
        placed |= {("reference", pair.reference), ("candidate", pair.candidate)}
    if file:
        entries += _unchanged(parse_map(file, _FILE).entries, entries)
    return PairMap(_EDITS if edits.pairs or edits.dropped else _FILE, tuple(entries)) if entries else None


def _unchanged(entries: Iterable[MapEntry], edited: Sequence[MapEntry]) -> list[MapEntry]:
    references = {key for entry in edited for key in entry.reference}
    candidates = {key for entry in edited for key in entry.candidate}
    return [
        entry
        for entry in entries
        if entry.regex or (references.isdisjoint(entry.reference) and candidates.isdisjoint(entry.candidate))
    ]


def _keys(name: str, trace: Trace | None) -> tuple[str, ...]:
    """Return the keys that a row's name on the page stands for: a tensor of that name, or several joined."""
    known = {str(tensor.key) for tensor in trace} if trace is not None else set()
    parts = tuple(name.split(_JOINED))
    return parts if name not in known and known.issuperset(parts) else (name,)
