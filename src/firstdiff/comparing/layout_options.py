"""What the user has to say about layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from firstdiff.errors import UsageError

if TYPE_CHECKING:
    from firstdiff.align import Alignment

LayoutMode = Literal["auto", "strict"]


@dataclass(frozen=True, kw_only=True)
class LayoutOptions:
    """What the user has to say about layouts.

    mode: `strict` lets nothing but identity match
    accepted: causes that may be a match: `transpose`, `rope_interleave`, …
    stated: recipes by the key of the reference
    """

    mode: LayoutMode = "auto"
    accepted: frozenset[str] = frozenset()
    stated: dict[str, Alignment] = field(default_factory=dict)

    @staticmethod
    def of(mode: LayoutMode, accepted: str | Sequence[str], stated: str | Sequence[str]) -> LayoutOptions:
        """From the texts of the command line, or one text alone; UsageError says which makes no sense."""
        recipes = dict(_recipe(text) for text in _several(stated))
        names = [name.strip() for part in _several(accepted) for name in part.split(",")]
        return LayoutOptions(mode=mode, accepted=frozenset(filter(None, names)), stated=recipes)

    def unused(self, keys: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"--align names {name!r}, which no pair is" for name in self.stated if name not in set(keys))


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
