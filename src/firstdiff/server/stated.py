"""What the page states, in the words of the layers below: options, tolerances, edits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from firstdiff.align import Alignment
from firstdiff.comparing import Options
from firstdiff.comparing.layout_options import LayoutOptions
from firstdiff.errors import UsageError
from firstdiff.judge import NamedRule, Rules, parse_rules
from firstdiff.pairing import PairingOptions, PairMap
from firstdiff.pairing.mapfile import MapEntry
from firstdiff.store import Edits

if TYPE_CHECKING:
    from firstdiff.server.wire import JudgeIn

_EDITS = "the pairs set by hand"
_JOINED = " + "


def rules_in(body: JudgeIn) -> Rules:
    """The tolerances of a request."""
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


def options_in(stated: Mapping[str, Any], edits: Edits) -> Options:
    """How to compare, as it was asked for and changed by hand since."""
    tolerances = stated.get("tolerances")
    torch = tolerances == "torch"
    layout = LayoutOptions.of(stated.get("layout", "auto"), stated.get("accept_layout", ()), ())
    recipes = {entry.key: _recipe(entry.key, entry.recipe) for entry in edits.layouts}
    return Options(
        rules=Rules(
            named=parse_rules(tolerances) if tolerances and not torch else (),
            atol=stated.get("atol"),
            rtol=stated.get("rtol"),
            table="torch" if torch else "default",
            equal_nan=bool(stated.get("equal_nan")),
        ),
        pairing=PairingOptions(layer_offset=edits.layer_offset, map=_map(edits)),
        layout=LayoutOptions(mode=layout.mode, accepted=layout.accepted, stated=recipes),
        allow_missing=bool(stated.get("allow_missing")),
        allow_extra=bool(stated.get("allow_extra")),
        isolate=bool(stated.get("isolate")),
    )


def check_edits(edits: Edits) -> None:
    """UsageError where they cannot be: a tensor in two pairs, a recipe that does not parse."""
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


def _map(edits: Edits) -> PairMap | None:
    """Pairs as stated; what was in a dropped pair and is in no other has no partner."""
    entries = [MapEntry(line, _keys(pair.reference), _keys(pair.candidate)) for line, pair in enumerate(edits.pairs, 1)]
    placed = {("reference", pair.reference) for pair in edits.pairs} | {
        ("candidate", pair.candidate) for pair in edits.pairs
    }
    for line, pair in enumerate(edits.dropped, len(entries) + 1):
        if ("reference", pair.reference) not in placed:
            entries.append(MapEntry(line, _keys(pair.reference), ()))
        if ("candidate", pair.candidate) not in placed:
            entries.append(MapEntry(line, (), _keys(pair.candidate)))
        placed |= {("reference", pair.reference), ("candidate", pair.candidate)}
    return PairMap(_EDITS, tuple(entries)) if entries else None


def _keys(name: str) -> tuple[str, ...]:
    return tuple(name.split(_JOINED))
