"""The maps shown in docs/pairing.md are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firstdiff import plugins
from firstdiff.pairing import parse_map

PAGE = (Path(__file__).parents[2] / "docs" / "pairing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_map_on_the_page_is_a_map(block: str) -> None:
    assert len(parse_map(block).entries) == block.count("[[")


def test_the_page_shows_every_form() -> None:
    entries = [entry for block in BLOCKS for entry in parse_map(block).entries]
    shapes = {(entry.regex, min(len(entry.reference), 2), min(len(entry.candidate), 2)) for entry in entries}
    assert shapes == {(regex, ours, theirs) for regex in (False, True) for ours, theirs in ((1, 1), (1, 2), (2, 1))} | {
        (False, 1, 0),
        (False, 0, 1),
    }
    assert any(entry.recipe for entry in entries)


def test_the_page_names_every_method() -> None:
    assert [one.name for one in plugins.loaded("pairing") if f"| `{one.name}` |" not in PAGE] == []
