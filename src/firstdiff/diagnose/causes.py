"""The page of every cause code."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firstdiff import plugins
from firstdiff.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from firstdiff.diagnose.hypothesis import Hypothesis

_OF_LAYOUTS = {
    "layout.fused": "One side holds as one tensor what the other holds as several.",
    "layout.pad": "One side is longer: padded, or cut off.",
    "layout.repeat": "One side repeats what the other holds once.",
    "layout.shard": "One side holds a part of what the other holds whole.",
}
_OF_LAYOUTS_MORE = """

It is stated by the search for layouts, where the values agree in this layout and not as they are.

Bring the candidate into the reference's layout; if it is meant to have its own, allow it with --accept-layout, or state
it with --align."""


@dataclass(frozen=True, slots=True)
class Page:
    """A help page of a cause.

    code: as a diagnosis states it
    title: one sentence
    texts: the whole, one for each way in which it is found
    """

    code: str
    title: str
    texts: tuple[str, ...]


def pages(hypotheses: Iterable[Hypothesis] | None = None) -> tuple[Page, ...]:
    """Return the pages of all codes, by code.

    hypotheses: those of the hook if left out
    """
    table: Iterable[Hypothesis] = plugins.loaded("hypotheses") if hypotheses is None else hypotheses
    texts: dict[str, list[str]] = {}
    for hypothesis in table:
        for code in (hypothesis.code, *hypothesis.also):
            text = inspect.cleandoc(type(hypothesis).__doc__ or "")
            if text not in texts.setdefault(code, []):
                texts[code].append(text)
    found = [Page(code, every[0].partition("\n")[0], tuple(every)) for code, every in texts.items()]
    found += [] if hypotheses is not None else _of_layouts(known=texts)
    return tuple(sorted(found, key=lambda page: page.code))


def page_of(code: str) -> Page:
    """Return the page of one cause; UsageError suggests similar codes."""
    known = {page.code: page for page in pages()}
    if code not in known:
        raise UsageError(f"no cause is called {code!r}{did_you_mean(code, known)}; `firstdiff causes` lists them")
    return known[code]


def _of_layouts(known: Collection[str]) -> Iterator[Page]:
    for code, title in _OF_LAYOUTS.items():
        if code not in known:
            yield Page(code, title, (title + _OF_LAYOUTS_MORE,))
