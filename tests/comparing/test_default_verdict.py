"""The default verdict: what is rounding, what is an error, and what a row says about it."""

from __future__ import annotations

import copy
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

import firstdiff as fd
from firstdiff.comparing.rejudge import rejudge
from firstdiff.judge import Rules
from tests.capturing.models import captured
from tests.locate.models import change, model, trace

RANDOM = np.random.default_rng(3)
VALUES = RANDOM.standard_normal((64, 96)).astype(np.float32)
HALF = VALUES.astype(ml_dtypes.bfloat16)


def verdict(reference: np.ndarray, candidate: np.ndarray) -> fd.Pair:
    return fd.compare({"x": reference}, {"x": candidate}).pairs[0]


def test_rounding_to_a_coarser_type_matches_and_says_what_it_could_not_have_seen() -> None:
    pair = verdict(VALUES, HALF)
    assert pair.status == "match"
    assert pair.metrics is not None
    assert pair.metrics.mismatched == 0
    assert pair.systematic is not None
    assert pair.systematic.note is not None
    assert "a scale error below" in pair.systematic.note


def test_a_scale_error_below_every_element_tolerance_is_named_in_words() -> None:
    pair = verdict(VALUES, (VALUES * 1.02).astype(ml_dtypes.bfloat16))
    assert pair.status == "mismatch"
    assert pair.reason is not None
    assert "all values are 2.0 % too large; healthy bf16 runs stay within" in pair.reason
    assert pair.systematic is not None
    assert pair.systematic.failed[0].part == "scale"


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_mask_fillers_of_different_types_are_equal(dtype: type) -> None:
    scores = VALUES.copy()
    scores[:, 70:] = np.finfo(np.float32).min
    other = VALUES.astype(dtype)
    other[:, 70:] = np.finfo(dtype).min
    pair = verdict(scores, other)
    assert pair.status == "match"
    assert pair.systematic is not None
    assert pair.systematic.hidden == 64 * 26


_FILLERS = {"f64": -1.7976931348623157e308, "f32": -3.4028234663852886e38, "f16": -65504.0, "-inf": -np.inf}
_FILLERS |= {"-1e9": -1e9, "-1e4": -1e4}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("filler", _FILLERS.values(), ids=_FILLERS)
@pytest.mark.parametrize("other", _FILLERS.values(), ids=_FILLERS)
def test_masks_of_any_type_and_filler_that_hide_the_same_places_match(filler: float, other: float, dtype: type) -> None:
    """Where nothing is hidden there are zeros, or whole numbers such as distances between tokens."""
    hidden, less = (np.triu(np.ones((24, 24), bool), start) for start in (1, 3))
    for seen in (0.0, -np.abs(np.subtract.outer(np.arange(24.0), np.arange(24.0)))):
        with np.errstate(over="ignore"):
            reference = np.where(hidden, filler, seen).astype(np.float32)
            same, others = (np.where(places, other, seen).astype(dtype) for places in (hidden, less))
        assert verdict(reference, same).status == "match"
        moved = verdict(reference, others)
        assert moved.status == "mismatch"
        assert moved.reason is not None
        assert "a mask hides other places" in moved.reason


def test_an_error_beside_mask_fillers_is_seen() -> None:
    scores, other = VALUES.copy(), (VALUES * 1.05).astype(ml_dtypes.bfloat16)
    scores[:, 70:], other[:, 70:] = -1e9, -1e9
    assert verdict(scores, other).status == "mismatch"


def test_masks_that_hide_other_places_do_not_match() -> None:
    scores, other = VALUES.copy(), VALUES.copy()
    scores[:, 70:], other[:, 71:] = -np.inf, -np.inf
    pair = verdict(scores, other)
    assert pair.status == "mismatch"
    assert pair.reason is not None
    assert "64 only in the reference" in pair.reason


def test_massive_activations_are_no_fillers() -> None:
    reference, candidate = VALUES.copy(), VALUES.copy()
    reference[3, 5], candidate[3, 5] = -4300.0, -9200.0
    assert verdict(reference, candidate).status == "mismatch"


def test_whole_numbers_are_compared_exactly() -> None:
    ids = np.arange(2000, dtype=np.float32)
    wrong = ids.copy()
    wrong[1500] += 1
    pair = verdict(ids, wrong)
    assert pair.status == "mismatch"
    assert pair.tolerance is not None
    assert (pair.tolerance.rule, pair.tolerance.source) == ("exact", "whole numbers")


@pytest.mark.parametrize(("dtype", "vocabulary"), [(np.float16, 2000), (ml_dtypes.bfloat16, 250)])
def test_ids_too_large_for_fractions_in_their_type_are_compared_exactly(dtype: type, vocabulary: int) -> None:
    ids = np.random.default_rng(0).integers(0, vocabulary, (2, 24))
    wrong = ids.copy()
    wrong[1, int(np.argmax(ids[1]))] -= 1
    assert verdict(ids.astype(dtype), wrong.astype(dtype)).status == "mismatch"
    massive = (RANDOM.standard_normal((2, 24)) * 1e4).astype(dtype)
    moved = massive.copy()
    moved[1, 7] *= 1 + 2 * float(ml_dtypes.finfo(dtype).eps)
    assert verdict(massive, moved).status == "match"


def test_whole_numbers_that_a_coarser_type_rounds_are_no_error() -> None:
    ids = np.arange(2000, dtype=np.float32)
    assert verdict(ids, ids.astype(ml_dtypes.bfloat16)).status == "match"


def test_a_candidate_is_no_zero_where_the_reference_is() -> None:
    pair = verdict(np.zeros((8, 8), np.float32), np.full((8, 8), 1e-3, np.float32))
    assert (pair.status, pair.reason) == ("mismatch", "the reference is all zeros, and the candidate is not")


def test_complex_values_are_judged_by_their_parts() -> None:
    values = (VALUES[:, :48] + 1j * VALUES[:, 48:]).astype(np.complex128) / 3
    assert verdict(values, values.astype(np.complex64)).status == "match"
    assert verdict(values, values * 1.001).status == "mismatch"


def test_stated_tolerances_judge_elements_as_before() -> None:
    scores = VALUES.copy()
    scores[0, 0] = -1e9
    other = (scores * 1.02).astype(np.float32)
    assert fd.compare({"x": scores}, {"x": other}, rtol=0.021).verdict == "match"
    assert fd.compare({"x": scores}, {"x": other}, rtol=0.019).verdict == "mismatch"


def test_the_default_can_be_tried_on_a_comparison_made_with_another_rule() -> None:
    sides = {"x": VALUES}, {"x": (VALUES * 1.02).astype(ml_dtypes.bfloat16)}
    stated = fd.compare(*sides, rtol=0.1)
    assert stated.verdict == "match"
    judged = rejudge(stated, Rules())
    assert judged.verdict == "mismatch"
    assert judged.rows[0].reason == fd.compare(*sides).pairs[0].reason


def test_a_mask_value_that_another_type_rounds_is_still_one() -> None:
    assert verdict(np.float32(-1e4), np.array(-1e4, ml_dtypes.bfloat16)).status == "match"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_another_precision_matches_and_says_how_far_differences_grow(tmp_path: Path, dtype: torch.dtype) -> None:
    sides = trace(model(), tmp_path / "r"), trace(model(shuffled=True, dtype=dtype), tmp_path / "c")
    found = fd.compare(*sides)
    assert found.verdict == "match"
    assert any("introduces an error" in note.text for note in found.notes)


def test_an_error_that_passes_every_limit_is_the_first_divergence(tmp_path: Path) -> None:
    """Three percent of one channel pass as bf16 noise; computed again from its own inputs the layer is found out."""
    made = model(shuffled=True, dtype=torch.bfloat16)
    with torch.no_grad():
        made.layers[1].ln_2.weight[3] *= 1.03
    found = fd.compare(trace(model(dtype=torch.bfloat16), tmp_path / "r"), trace(made, tmp_path / "c"))
    assert found.first_divergence is not None
    assert found.first_divergence.key == "layers.1.ln_2"
    row = found.pairs[found.first_divergence.pair]
    assert row.isolated is not None
    assert row.isolated.status == "mismatch"
    assert rejudge(found, Rules()).rows[row.index].status == "mismatch"


def test_rows_that_there_is_no_time_to_compute_again_are_said(tmp_path: Path) -> None:
    sides = trace(model(), tmp_path / "r"), trace(change(model(shuffled=True), "layers.0.ln_1!eps"), tmp_path / "c")
    found = fd.compare(*sides, effort=0)
    assert any("not computed again, for want of time" in note.text for note in found.notes)


def test_weights_of_another_type_are_the_reference_rounded(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((96, 64)).astype(np.float32)
    wrong = weight.copy()
    wrong[17] *= 1.02
    for name, values in (
        ("r", weight),
        ("good", weight.astype(ml_dtypes.bfloat16)),
        ("bad", wrong.astype(ml_dtypes.bfloat16)),
    ):
        with fd.record(tmp_path / name) as recording:
            recording.tap("layer.weight", values, role="param")
            recording.tap("layer", np.linspace(0, 1, 8, dtype=np.float32))
    assert fd.compare(tmp_path / "r", tmp_path / "good").verdict == "match"
    found = fd.compare(tmp_path / "r", tmp_path / "bad")
    assert found.verdict == "mismatch"
    assert "weights are not the reference's, rounded to bf16" in (found.pairs[0].reason or "")


HALVES = (ml_dtypes.bfloat16, np.float16)


@pytest.mark.parametrize("types", [HALVES, HALVES[::-1]])
def test_two_half_precisions_are_compared_with_each_other(tmp_path: Path, types: tuple[type, type]) -> None:
    """Small values have coarser steps in float16, and neither type's weights are the other's, rounded."""
    rng = np.random.default_rng(0)
    weight = (rng.standard_normal((96, 64)) * np.logspace(-7, 0, 64)).astype(np.float32)
    for path, dtype in zip("rc", types, strict=True):
        with fd.record(tmp_path / path) as recording:
            recording.tap("layer.weight", weight.astype(dtype), role="param")
            recording.tap("layer", np.linspace(0, 1, 8, dtype=np.float32))
    assert fd.compare(tmp_path / "r", tmp_path / "c").verdict == "match"


@pytest.mark.parametrize("types", [(torch.bfloat16, torch.float16), (torch.float16, torch.bfloat16)])
def test_healthy_runs_in_two_half_precisions_match(tmp_path: Path, types: tuple[torch.dtype, torch.dtype]) -> None:
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Embedding(2, 384), torch.nn.Linear(384, 64), torch.nn.LayerNorm(64))
    kinds = torch.zeros(48, dtype=torch.int64)  # each channel is one weight, which two roundings may move alike
    sides = [captured(copy.deepcopy(layers).to(dtype), tmp_path / str(dtype), kinds) for dtype in types]
    assert fd.compare(*sides).verdict == "match"
