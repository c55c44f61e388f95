from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from firstdiff import plugins
from firstdiff.diagnose import Hypothesis
from firstdiff.diagnose.causes import pages

ROOT = Path(__file__).parents[2]
HYPOTHESES: tuple[Hypothesis, ...] = plugins.loaded("hypotheses")
CODES = {page.code for page in pages()}
NAMED = re.compile(r'(?:cause|code)\s*[:=]\s*"([a-z]+\.[a-z_0-9]+)"|also = \("([a-z.0-9_]+)"')


def test_the_page_in_the_docs_is_fresh() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "write-causes.py"))
    written = (ROOT / "docs" / "causes.md").read_text(encoding="utf-8")
    assert written == script["as_markdown"](), "run python scripts/write-causes.py"


@pytest.mark.parametrize("hypothesis", HYPOTHESES, ids=lambda one: f"{type(one).__module__}.{type(one).__name__}")
def test_every_hypothesis_says_what_it_is_and_how_it_is_tested(hypothesis: Hypothesis) -> None:
    text = type(hypothesis).__doc__ or ""
    assert text.partition("\n")[0].rstrip().endswith(".")
    assert "Tested" in text
    assert re.fullmatch(r"[a-z]+(\.[a-z_0-9]+)?", hypothesis.code)


def test_every_cause_that_the_source_states_has_a_page() -> None:
    stated = {
        one or other
        for path in (ROOT / "src" / "firstdiff" / "diagnose").rglob("*.py")
        for one, other in NAMED.findall(path.read_text(encoding="utf-8"))
    }
    assert len(stated) > 50
    assert stated - CODES == set()


def test_what_a_cause_implies_is_a_cause() -> None:
    implied = re.compile(r"(?:implies=|_IMPLIES = )\(([^)]*)\)")
    for path in (ROOT / "src" / "firstdiff" / "diagnose").rglob("*.py"):
        for names in implied.findall(path.read_text(encoding="utf-8")):
            assert set(re.findall(r'"([a-z.0-9_]+)"', names)) <= CODES, path.name
