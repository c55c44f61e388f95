from __future__ import annotations

import inspect
import json
from collections.abc import Callable

import pytest

from firstdiff.diagnose.causes import pages
from firstdiff.diagnose.replayed.norms import NormEps

Run = Callable[..., tuple[int, str, str]]


def test_all_causes_are_listed_with_a_sentence_each(firstdiff: Run) -> None:
    code, out, _ = firstdiff("causes")
    assert code == 0
    rows = {line.split()[0]: line.partition(" ")[2].strip() for line in out.splitlines()}
    assert rows.keys() == {page.code for page in pages()}
    assert rows["norm.eps"] == "A normalisation adds another eps."
    assert all(text.endswith(".") for text in rows.values())


def test_the_page_of_a_cause_is_the_docstring_of_its_hypothesis(firstdiff: Run) -> None:
    code, out, _ = firstdiff("causes", "norm.eps")
    assert code == 0
    assert out == f"norm.eps\n\n{inspect.getdoc(NormEps)}\n"


def test_a_cause_found_in_two_ways_has_both_on_its_page(firstdiff: Run) -> None:
    _, out, _ = firstdiff("causes", "dtype.bf16")
    assert "Weights or inputs of an operation are rounded to bfloat16." in out
    assert len(json.loads(firstdiff("causes", "dtype.bf16", "--format", "json")[1])["texts"]) == 2


def test_json_lists_them_all(firstdiff: Run) -> None:
    said = json.loads(firstdiff("causes", "--format", "json")[1])
    assert [page["code"] for page in said["causes"]] == [page.code for page in pages()]
    assert set(said["causes"][0]) == {"code", "title", "texts"}


@pytest.mark.parametrize("code", ["norm.ep", "eps", ""])
def test_a_cause_that_is_not_known_is_one_sentence(firstdiff: Run, code: str) -> None:
    done, _, err = firstdiff("causes", code)
    assert done == 2
    assert err.startswith(f"firstdiff: no cause is called {code!r}")
    assert "`firstdiff causes` lists them" in err
