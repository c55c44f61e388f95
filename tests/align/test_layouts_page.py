"""Every recipe and every dims of the page on layouts does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from firstdiff.align import Alignment, Recipe
from firstdiff.align.dims import Dims
from firstdiff.trace import ArraySource

PAGE = (Path(__file__).parents[2] / "docs" / "layouts.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(?P<recipe>[^`]+)` \| (?P<takes>(?:\[[\d, ]+\] ?)+) \| (?P<gives>\[[\d, ]+\]) \|", re.MULTILINE)
ROWS = [(row["recipe"].replace(r"\|", "|"), row["takes"], row["gives"]) for row in ROW.finditer(PAGE)]
DIMS = re.findall(r"^\| `([^`]+)` \| [^|]+ \|$", PAGE[PAGE.index("| dims | says |") :], re.MULTILINE)
SIDES = re.findall(r"`(reference: [^`]+)`", PAGE)


def shape(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", text))


def test_the_page_has_its_tables() -> None:
    assert len(ROWS) == 21
    assert len(DIMS) == 6
    assert len(SIDES) == 2


@pytest.mark.parametrize(("recipe", "takes", "gives"), ROWS)
def test_a_recipe_of_the_page_gives_what_it_says(recipe: str, takes: str, gives: str) -> None:
    shapes = [shape(text) for text in re.findall(r"\[[^\]]+\]", takes)]
    parsed = Recipe.parse(recipe)
    assert str(parsed) == recipe
    made = parsed.apply([ArraySource(np.zeros(each)) for each in shapes])
    assert made.shape == shape(gives)
    assert made.view().shape == shape(gives)


@pytest.mark.parametrize("text", DIMS)
def test_dims_of_the_page_parse(text: str) -> None:
    assert Dims.parse(text).names


@pytest.mark.parametrize("text", SIDES)
def test_recipes_of_both_sides_parse(text: str) -> None:
    assert str(Alignment.parse(text)) == text


def test_every_cause_the_solver_names_is_on_the_page() -> None:
    sources = (Path(__file__).parents[2] / "src" / "firstdiff" / "align").rglob("*.py")
    named = {code for file in sources for code in re.findall(r'"(layout\.\w+)"', file.read_text(encoding="utf-8"))}
    assert {code for code in named if f"`{code}`" not in PAGE} == set()
