"""Nothing passes by omission, whatever may be missing or extra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from firstdiff.comparing import compare
from firstdiff.comparing.rejudge import rejudge
from firstdiff.judge import Rules
from firstdiff.schema import Comparison
from firstdiff.trace import ArraySource, Record, Tensor, Trace

RNG = np.random.default_rng(3)
LENIENT: dict[str, Any] = {"allow_missing": True, "allow_extra": True, "allow_partial": True}


def values(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def omitted(comparison: Comparison) -> list[str]:
    return [note.text for note in comparison.notes if note.code == "omission"]


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_the_last_values_must_be_compared(side: str) -> None:
    whole = {"embed": values(4, 8), "layer.0": values(4, 8), "logits": values(4, 30)}
    short = {name: whole[name] for name in ("embed", "layer.0")}
    sides = (whole, short) if side == "reference" else (short, whole)
    comparison = compare(*sides, **LENIENT)
    assert (comparison.verdict, comparison.summary.mismatch) == ("mismatch", 0)
    assert omitted(comparison) == [f"the last values of the {side} (logits) were not compared, so this is no match"]
    assert rejudge(comparison, Rules(atol=1.0)).verdict == "mismatch"


def test_the_last_values_count_under_any_name_that_holds_them() -> None:
    logits = values(4, 30)
    whole = {"embed": values(4, 8), "head": logits, "result": logits.copy()}
    comparison = compare(whole, {name: whole[name] for name in ("embed", "head")}, **LENIENT)
    assert (comparison.verdict, comparison.summary.missing) == ("match", 1)


def test_a_cache_among_the_results_is_not_what_was_computed_last() -> None:
    keys, logits = values(4, 8), values(4, 30)
    tensors = [("k", "0", keys), ("head", "0", logits), ("root", "logits", logits), ("root", "cache", keys)]
    whole = Trace(
        "whole",
        tuple(Tensor(Record(name=name, role="output", slot=slot), ArraySource(x)) for name, slot, x in tensors),
    )
    assert compare(whole, {"head": logits}, **LENIENT).verdict == "match"
    assert compare(whole, {"k": keys}, **LENIENT).verdict == "mismatch"


def test_a_step_less_is_no_match() -> None:
    def steps(count: int) -> Trace:
        rng = np.random.default_rng(0)
        made = (Tensor(Record(name="logits", step=n), ArraySource(rng.standard_normal(40))) for n in range(count))
        return Trace("steps", tuple(made))

    assert compare(steps(3), steps(2), **LENIENT).verdict == "mismatch"
    assert compare(steps(2), steps(3), **LENIENT).verdict == "mismatch"


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_nan_in_a_tensor_without_a_partner_is_no_match(side: str) -> None:
    both = {"x": values(9)}
    sides = [{"odd": np.array([1.0, np.nan, 2.0])} | both, both]
    comparison = compare(*(sides if side == "reference" else reversed(sides)), **LENIENT)
    assert comparison.verdict == "mismatch"
    assert omitted(comparison) == [f"odd, which only the {side} has, holds NaN"]


@pytest.mark.parametrize("told", [np.zeros((0, 4)), np.full(12, 0.125)], ids=["empty", "constant"])
def test_empty_tensors_and_constants_prove_nothing(told: np.ndarray) -> None:
    comparison = compare({"x": values(9), "scaling": told}, {"y": values(7), "scaling": told}, **LENIENT)
    assert comparison.verdict == "mismatch"
    assert "only empty tensors and constants" in " ".join(omitted(comparison))
    assert compare({"scaling": told}, {"scaling": told}).verdict == "match", "nothing was left out"


@pytest.mark.parametrize("kept", [np.s_[:, :11], np.s_[:, 1:]], ids=["last frame", "first frame"])
def test_a_part_needs_an_option_of_its_own(kept: Any) -> None:
    frames = values(4, 12)
    options = {"allow_missing": True, "allow_extra": True}
    for sides in (({"x": frames}, {"x": frames[kept]}), ({"x": frames[kept]}, {"x": frames})):
        assert compare(*sides, **options).verdict == "mismatch"
        assert compare(*sides, allow_partial=True).verdict == "match"


def test_a_longer_table_of_the_code_is_no_omission() -> None:
    table = values(12, 8)

    def side(name: str, rows: int) -> Trace:
        tensors = (("positions", "buffer", table[:rows]), ("embedded", "output", table[:5] * 2))
        return Trace(name, tuple(Tensor(Record(name=n, role=role), ArraySource(x)) for n, role, x in tensors))

    assert compare(side("ours", 12), side("theirs", 9)).verdict == "match"


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_one_of_two_equal_tensors_is_no_match_for_a_single_one(side: str) -> None:
    """Which of the two it is would be luck, and the other one's own partner may be wrong."""
    same, end = values(6, 8), values(4, 8)
    two, one = {"before": same, "after": same.copy(), "end": end}, {"x": same, "y": values(6, 8), "end": end}
    comparison = compare(*((two, one) if side == "reference" else (one, two)), **LENIENT)
    assert (comparison.verdict, comparison.summary.mismatch) == ("mismatch", 0)
    assert omitted(comparison) == [f"before and after of the {side} hold the same values: x may be either"]
    named = {"before": same, "end": end}
    assert compare(*((two, named) if side == "reference" else (named, two)), **LENIENT).verdict == "match"
