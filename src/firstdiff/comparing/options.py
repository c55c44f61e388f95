"""Options of a comparison: one list for the Python call, the command line and the page."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, final

from firstdiff.errors import UsageError
from firstdiff.judge import Rules, load_rules, parse_rules
from firstdiff.pairing import PairingOptions, PairMap, load_map
from firstdiff.trace.order import OrderRule

if TYPE_CHECKING:
    from firstdiff.align import Alignment
    from firstdiff.vocab import Vocabulary

EngineChoice = Literal["auto", "numpy"]
LayoutMode = Literal["auto", "strict"]

EFFORT_S = 2.0


@dataclass(frozen=True, kw_only=True)
class LayoutOptions:
    """The user's options for layouts.

    mode: `strict` lets nothing but identity match
    accepted: causes that may be a match: `transpose`, `rope_interleave`, …
    stated: recipes by the key of the reference
    """

    mode: LayoutMode = "auto"
    accepted: frozenset[str] = frozenset()
    stated: dict[str, Alignment] = field(default_factory=dict)

    @staticmethod
    def of(mode: LayoutMode, accepted: str | Sequence[str], stated: str | Sequence[str]) -> LayoutOptions:
        """Parse the texts of the command line; UsageError says which makes no sense."""
        recipes = dict(_recipe(text) for text in _several(stated))
        names = [name.strip() for part in _several(accepted) for name in part.split(",")]
        return LayoutOptions(mode=mode, accepted=frozenset(filter(None, names)), stated=recipes)

    def unused(self, keys: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"--align names {name!r}, which no pair is" for name in self.stated if name not in set(keys))


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a comparison; `Options.of` parses the user's arguments."""

    rules: Rules = field(default_factory=Rules)
    pairing: PairingOptions = field(default_factory=PairingOptions)
    layout: LayoutOptions = field(default_factory=LayoutOptions)
    allow_missing: bool = False
    allow_extra: bool = False
    allow_partial: bool = False
    strict_functions: bool = False
    isolate: bool = False
    diagnose: bool = True
    effort: float | None = EFFORT_S
    order: OrderRule | None = None
    engine: EngineChoice = "auto"
    threads: int | None = None
    vocab: Vocabulary | None = None

    @staticmethod
    def of(
        *,
        atol: float | None = None,
        rtol: float | None = None,
        tolerances: str | os.PathLike[str] | None = None,
        tolerances_text: str | None = None,
        equal_nan: bool = False,
        allow_missing: bool = False,
        allow_extra: bool = False,
        allow_partial: bool = False,
        strict_functions: bool = False,
        map: str | os.PathLike[str] | PairMap | None = None,
        layer_offset: int | None = None,
        layout: LayoutMode = "auto",
        accept_layout: str | Sequence[str] = (),
        align: str | Sequence[str] = (),
        isolate: bool = False,
        diagnose: bool = True,
        effort: float | Literal["full"] | None = None,
        order: OrderRule | None = None,
        engine: EngineChoice = "auto",
        threads: int | None = None,
        vocab: str | os.PathLike[str] | None = None,
    ) -> Options:
        """Read options as users write them; `firstdiff.compare` explains each.

        tolerances_text: the text of a tolerances file, where there is no file
        effort: None for the default, "full" for no limit
        """
        stated = map if isinstance(map, PairMap) or map is None else load_map(os.fspath(map))
        return Options(
            rules=_rules(atol, rtol, tolerances, tolerances_text, equal_nan=equal_nan),
            pairing=PairingOptions(layer_offset=layer_offset, map=stated),
            layout=LayoutOptions.of(layout, accept_layout, align),
            allow_missing=allow_missing,
            allow_extra=allow_extra,
            allow_partial=allow_partial,
            strict_functions=strict_functions,
            isolate=isolate,
            diagnose=diagnose,
            effort=_effort(effort),
            order=order,
            engine=engine,
            threads=threads,
            vocab=_vocabulary(vocab),
        )

    def settings(self) -> dict[str, Any]:
        """Return what the JSON says about how it was made."""
        return {
            "atol": self.rules.atol,
            "rtol": self.rules.rtol,
            "tolerances": self.rules.table,
            "named_tolerances": [
                {"name": rule.pattern.pattern, "atol": rule.atol, "rtol": rule.rtol, "k": rule.k}
                for rule in self.rules.named
            ],
            "equal_nan": self.rules.equal_nan,
            "allow_missing": self.allow_missing,
            "allow_extra": self.allow_extra,
            "allow_partial": self.allow_partial,
            "strict_functions": self.strict_functions,
            "layout": self.layout.mode,
            "accept_layout": sorted(self.layout.accepted),
            "align": {name: str(recipe) for name, recipe in self.layout.stated.items()},
            "layer_offset": self.pairing.layer_offset,
            "isolate": self.isolate,
            "diagnose": self.diagnose,
            "effort": self.effort,
            "order": self.order,
            "engine": self.engine,
            "vocab": None if self.vocab is None else self.vocab.path,
        }


@final
class Effort:
    """The time that may go into searches that find nothing, and into causes.

    It counts CPU time of the calling thread, so that a busy machine changes no answer.
    """

    def __init__(self, seconds: float | None) -> None:
        self._left = seconds
        self._since: float | None = None

    def has_time(self) -> bool:
        running = 0.0 if self._since is None else time.thread_time() - self._since
        return self._left is None or self._left > running

    def deadline(self) -> float | None:
        """Return the moment of `time.perf_counter` at which a search must stop; None where there is no limit."""
        return None if self._left is None else time.perf_counter() + max(self._left, 0.0)

    def start(self) -> None:
        self._since = time.thread_time()

    def stop(self, *, count: bool = True) -> None:
        """End what `start` began; `count` is False for a search that found something, which costs nothing."""
        if count and self._left is not None and self._since is not None:
            self._left -= time.thread_time() - self._since
        self._since = None


def parse_effort(text: str | None) -> float | Literal["full"] | None:
    """Read `--effort`; UsageError where it is neither seconds nor `full`."""
    if text is None or text == "full":
        return text  # type: ignore[return-value]
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--effort is {text!r}; give seconds, such as 10, or full") from None


def _effort(stated: float | Literal["full"] | None) -> float | None:
    if stated is None:
        return EFFORT_S
    if stated == "full":
        return None
    if not isinstance(stated, int | float) or not stated >= 0:
        raise UsageError(f"an effort of {stated!r} makes no sense; give seconds of 0 or more, or 'full'")
    return float(stated)


def _rules(
    atol: float | None,
    rtol: float | None,
    tolerances: str | os.PathLike[str] | None,
    text: str | None,
    *,
    equal_nan: bool,
) -> Rules:
    torch = tolerances == "torch" or text == "torch"
    named = load_rules(os.fspath(tolerances)) if tolerances is not None and not torch else ()
    if text and not torch:
        named = parse_rules(text)
    return Rules(named=named, atol=atol, rtol=rtol, table="torch" if torch else "default", equal_nan=equal_nan)


def _vocabulary(path: str | os.PathLike[str] | None) -> Vocabulary | None:
    if path is None:
        return None
    from firstdiff.vocab import load_vocabulary

    return load_vocabulary(path)


def _several(texts: str | Sequence[str]) -> Sequence[str]:
    return (texts,) if isinstance(texts, str) else texts


def _recipe(text: str) -> tuple[str, Alignment]:
    from firstdiff.align import Alignment

    name, equals, recipe = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"--align {text!r} has no name; write 'name=b s h d -> s (b h) d'")
    try:
        return name.strip(), Alignment.parse(recipe)
    except UsageError as error:
        raise UsageError(f"--align {text!r}: {error}") from error
