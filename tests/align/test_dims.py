from __future__ import annotations

import pytest

from firstdiff.align.dims import Dims, Mark, stated_recipe
from firstdiff.errors import UsageError


@pytest.mark.parametrize(
    ("text", "names", "marks"),
    [
        ("b s h d", ["b", "s", "h", "d"], ()),
        ("b s h[tp] d", ["b", "s", "h", "d"], (Mark(2, "tp", "sharded"),)),
        ("t h[tp:partial]", ["t", "h"], (Mark(1, "tp", "partial"),)),
        ("t h [tp:partial]", ["t", "h"], (Mark(-1, "tp", "partial"),)),
        ("1 s[sp] (h d)[tp]", ["s", "h", "d"], (Mark(1, "sp", "sharded"), Mark(2, "tp", "sharded"))),
        ("e[ep,tp:replicated] d", ["e", "d"], (Mark(0, "ep", "sharded"), Mark(0, "tp", "replicated"))),
    ],
)
def test_axes_and_marks_are_read(text: str, names: list[str], marks: tuple[Mark, ...]) -> None:
    dims = Dims.parse(text)
    assert dims.names == names
    assert dims.marks == marks


@pytest.mark.parametrize(
    ("text", "part"),
    [("b [tp]", "stands alone"), ("b[tp:sum]", "[tp:sum] in dims"), ("b[]", "[] in dims"), ("b b", "stands twice")],
)
def test_nonsense_is_named(text: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        Dims.parse(text)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shapes", "whole", "recipe"),
    [
        ("b h[tp]", [(4, 2)] * 4, (4, 8), "concat(axis=1)"),
        ("b h[tp:partial]", [(4, 8)] * 2, (4, 8), "sum()"),
        ("b h [tp:replicated]", [(4, 8)] * 2, (4, 8), "stack()"),
        ("b[dp] h[tp]", [(2, 2)] * 8, (4, 8), "concat(axis=1, by=4) | concat(axis=0)"),
        ("b[dp] h[tp]", [(2, 2)] * 8, None, None),
        ("b h", [(2, 2)] * 8, (4, 8), None),
        ("b h[tp]", [(4, 8)], (4, 8), "identity"),
    ],
)
def test_marks_say_how_to_join(
    text: str, shapes: list[tuple[int, ...]], whole: tuple[int, ...] | None, recipe: str | None
) -> None:
    found = Dims.parse(text).join(shapes, whole)
    assert (None if found is None else str(found)) == recipe


@pytest.mark.parametrize(
    ("reference", "candidate", "shapes", "recipe"),
    [
        ("b s d", "b s d", ((2, 3, 4), (2, 3, 4)), "identity"),
        ("b s d", "s b d", ((2, 3, 4), (3, 2, 4)), "s b d -> b s d"),
        ("b s h d", "s (b h) d", ((2, 3, 4, 5), (3, 8, 5)), "s (b=2 h) d -> b s h d"),
        ("s d", "1 s d", ((3, 4), (1, 3, 4)), "1 s d -> s d"),
        ("b s d", "b t d", ((2, 3, 4), (2, 3, 4)), None),
        ("b s d", "s b d", ((2, 3, 4), (2, 3, 4)), None),
        ("b s", "b s d", ((2, 3), (2, 3, 4)), None),
        ("s d", "b d", ((2, 3, 4), (3, 4)), None),
    ],
)
def test_two_stated_orders_give_a_recipe(
    reference: str, candidate: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], recipe: str | None
) -> None:
    found = stated_recipe(Dims.parse(reference), Dims.parse(candidate), *shapes)
    assert (None if found is None else str(found)) == recipe
