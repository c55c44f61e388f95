"""README.md shows what the commands print today."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_report_is_what_compare_prints_of_the_demo() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "write-readme.py"))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert script["report"]() in text, "run python scripts/write-readme.py"


def test_the_picture_of_the_page_is_small_enough_to_load() -> None:
    picture = ROOT / "docs" / "images" / "page.png"
    assert "docs/images/page.png" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 200_000
