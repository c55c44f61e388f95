from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.comparing import Options, compare, compare_traces
from firstdiff.comparing.rejudge import rejudge
from firstdiff.json_text import from_plain, plain
from firstdiff.judge import Rules
from firstdiff.schema import Comparison
from firstdiff.trace import Trace

ODD = [np.nan, np.inf, -np.inf, 0.0]


def sides(seed: int, noise: float) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    reference = {f"t{n}": rng.standard_normal(24).astype("f4") for n in range(4)}
    candidate = {name: (values + noise * rng.standard_normal(24)).astype("f4") for name, values in reference.items()}
    for name in rng.choice(list(reference), 2, replace=False):
        reference[name][rng.integers(24)] = rng.choice(ODD)
        candidate[name][rng.integers(24)] = rng.choice(ODD)
    reference["whole"], candidate["whole"] = np.arange(5), np.arange(5) + (seed % 2)
    return reference, candidate


@settings(max_examples=40)
@given(
    seed=st.integers(0, 1000),
    noise=st.sampled_from([0.0, 1e-6, 1e-3, 0.1]),
    rules=st.sampled_from(
        [
            Rules(),
            Rules(table="torch"),
            Rules(atol=1e-3),
            Rules(rtol=1e-2),
            Rules(atol=1e-5, rtol=1e-3, equal_nan=True),
            Rules(atol=10.0, equal_nan=True),
        ]
    ),
    equal_nan=st.booleans(),
)
def test_judging_again_says_what_comparing_again_says(seed: int, noise: float, rules: Rules, equal_nan: bool) -> None:
    reference, candidate = sides(seed, noise)
    kept = from_plain(Comparison, plain(compare(reference, candidate, equal_nan=equal_nan)))
    judged = rejudge(kept, rules)
    fresh = compare_traces(Trace.from_arrays(reference), Trace.from_arrays(candidate), Options(rules=rules))
    assert [row.status for row in judged.rows] == [pair.status for pair in fresh.pairs]
    assert [row.reason for row in judged.rows] == [pair.reason for pair in fresh.pairs]
    assert [row.required for row in judged.rows] == [pair.required for pair in fresh.pairs]
    assert (judged.verdict, judged.summary) == (fresh.verdict, fresh.summary)
    for row, pair in zip(judged.rows, fresh.pairs, strict=True):
        assert row.tolerance is not None
        assert pair.tolerance is not None
        assert (row.tolerance.atol, row.tolerance.rtol) == (pair.tolerance.atol, pair.tolerance.rtol)
        assert (row.ratio > 1) == (row.status == "mismatch") or row.ratio == 1
    first, expected = judged.first_divergence, fresh.first_divergence
    assert (first and first.pair) == (expected and expected.pair)


def test_rows_that_were_not_measured_stay_as_they_are() -> None:
    kept = compare({"a": [1.0], "only": [1.0], "s": [1.0, 2.0]}, {"a": [1.0], "more": [2.0, 3.0, 4.0], "s": [9.0] * 7})
    judged = rejudge(kept, Rules(atol=100.0))
    assert [row.status for row in judged.rows] == [pair.status for pair in kept.pairs]
    assert judged.verdict == "mismatch"


@pytest.mark.parametrize(("rules", "status"), [(Rules(), "mismatch"), (Rules(atol=100.0), "match")])
def test_a_layout_that_may_not_match_is_no_matter_of_tolerance_unless_values_agree_as_they_lie(
    rules: Rules, status: str
) -> None:
    values = np.random.default_rng(0).standard_normal((6, 6)).astype("f4")
    kept = compare({"x": values}, {"x": values.T})
    assert kept.pairs[0].diagnosis[0].cause == "layout.transpose"
    assert rejudge(kept, rules).rows[0].status == status


@pytest.mark.parametrize("shape", [(6, 4), (6, 6)])
@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("atol", [1e-9, 0.1, 100.0])
@pytest.mark.parametrize(
    "options",
    [{}, {"layout": "strict"}, {"accept_layout": ["transpose"]}, {"align": ["x=a b -> b a"]}],
    ids=["auto", "strict", "accepted", "stated"],
)
def test_another_layout_matches_where_comparing_again_would_let_it(
    shape: tuple[int, int], noise: float, atol: float, options: dict[str, Any]
) -> None:
    values = np.random.default_rng(0).standard_normal(shape).astype("f4")
    sides = {"x": values}, {"x": values.T + np.float32(noise)}
    kept, fresh = compare(*sides, **options), compare(*sides, **options, atol=atol)
    judged = rejudge(kept, Rules(atol=atol))
    measured = [
        (layout.recipe, layout.applied) for layout in (kept.pairs[0].alignment, fresh.pairs[0].alignment) if layout
    ]
    if measured[0] == measured[1]:
        assert judged.rows[0].status == fresh.pairs[0].status
    assert judged.rows[0].status == "mismatch" or fresh.pairs[0].status == "match"


def test_allowed_leftovers_stay_allowed() -> None:
    kept = compare({"only": [1.0], "a": [1.0, 2.0]}, {"a": [1.0, 2.0]}, allow_missing=True)
    assert rejudge(kept, Rules()).verdict == "match"
