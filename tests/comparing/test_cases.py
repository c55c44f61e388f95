"""The cases every verdict must get right; each fools at least one tool that people use today."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import firstdiff as fd
from firstdiff.schema import Comparison, Pair

RNG = np.random.default_rng(7)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def one(reference: Any, candidate: Any, **options: Any) -> tuple[Comparison, Pair]:
    comparison = fd.compare({"x": reference}, {"x": candidate}, **options)
    (pair,) = comparison.pairs
    return comparison, pair


def test_1_one_element_of_a_million_off_by_half() -> None:
    reference = noise(1000, 1000)
    candidate = reference.copy()
    candidate[123, 456] += 0.5
    comparison, pair = one(reference, candidate)
    assert (comparison.verdict, pair.metrics.argmax, pair.metrics.mismatched) == ("mismatch", (123, 456), 1)


def test_2_one_weight_row_a_twentieth_larger() -> None:
    weight, inputs = noise(64, 32), noise(10, 32)
    wrong = weight.copy()
    wrong[5] *= 1.05
    comparison = fd.compare({"w": weight, "y": inputs @ weight.T}, {"w": wrong, "y": inputs @ wrong.T})
    assert [pair.status for pair in comparison.pairs] == ["mismatch", "mismatch"]


def test_3_one_channel_three_percent_larger() -> None:
    reference = noise(8, 16, 64)
    candidate = reference.copy()
    candidate[..., 3] *= 1.03
    comparison, pair = one(reference, candidate)
    assert (comparison.verdict, pair.metrics.argmax[-1]) == ("mismatch", 3)


def test_4_a_nan_against_a_number() -> None:
    reference = noise(50)
    candidate = reference.copy()
    candidate[7] = np.nan
    comparison, pair = one(reference, candidate)
    assert comparison.verdict == "mismatch"
    assert (pair.metrics.nan_reference, pair.metrics.nan_candidate, pair.metrics.mismatched) == (0, 1, 1)
    assert (pair.metrics.max_abs, pair.metrics.cosine) == (0, None)


@pytest.mark.parametrize(("left", "right", "verdict"), [(np.inf, -np.inf, "mismatch"), (np.inf, np.inf, "match")])
def test_5_infinities_match_only_their_equals(left: float, right: float, verdict: str) -> None:
    assert one([1.0, left], [1.0, right])[0].verdict == verdict


@pytest.mark.parametrize(("equal_nan", "verdict"), [(False, "mismatch"), (True, "match")])
def test_6_nan_on_both_sides(equal_nan: bool, verdict: str) -> None:
    assert one([1.0, np.nan], [1.0, np.nan], equal_nan=equal_nan)[0].verdict == verdict


@pytest.mark.parametrize("status", ["missing", "extra"])
def test_7_a_tensor_on_one_side_only(status: str) -> None:
    both, lone = {"a": [1.0, 2.0], "b": [3.0, 5.0]}, {"only": [2.0]}
    sides = (lone | both, both) if status == "missing" else (both, lone | both)
    comparison = fd.compare(*sides)
    assert (comparison.verdict, getattr(comparison.summary, status)) == ("mismatch", 1)
    assert fd.compare(*sides, **{f"allow_{status}": True}).verdict == "match"


@pytest.mark.parametrize("options", [{}, {"allow_missing": True, "allow_extra": True}])
def test_8_nothing_paired_is_never_a_pass(options: dict[str, bool]) -> None:
    left = {"apple": noise(3, 4), "pear": noise(5)}
    right = {"zebra": np.arange(100), "lion": np.arange(7.0) * 1e9}
    assert fd.compare(left, right, **options).verdict == "not_compared"
    assert fd.compare({}, {}, **options).verdict == "not_compared"


def test_9_an_empty_pair_matches_and_says_so() -> None:
    comparison, pair = one(np.zeros((0, 4)), np.zeros((0, 4)))
    assert (comparison.verdict, pair.metrics.elements, pair.reason) == ("match", 0, "no elements to compare")


def test_14_all_zeros_against_small_noise() -> None:
    assert one(np.zeros(100, np.float32), noise(100) * 1e-6)[0].verdict == "mismatch"
    assert one(noise(100) * 1e-6, np.zeros(100, np.float32))[0].verdict == "mismatch"


def test_15_only_the_sign_of_zero_differs() -> None:
    assert one(np.array([0.0, 1.0]), np.array([-0.0, 1.0]))[0].verdict == "match"


def test_16_a_later_layer_hides_the_error() -> None:
    reference = {f"layers.{n}": noise(20) for n in range(4)}
    candidate = reference | {"layers.1": noise(20) + 1}
    comparison = fd.compare(reference, candidate)
    assert comparison.verdict == "mismatch"
    assert [pair.recovers_from for pair in comparison.pairs] == [None, None, 1, None]


def test_17_bf16_of_the_same_run() -> None:
    reference = noise(64, 64)
    assert one(reference, reference.astype(ml_dtypes.bfloat16))[0].verdict == "match"
    assert one(reference.astype(ml_dtypes.bfloat16), reference)[0].verdict == "match"


def test_18_one_token_off_by_one() -> None:
    tokens = np.arange(1000)
    wrong = tokens.copy()
    wrong[500] += 1
    comparison, pair = one(tokens, wrong)
    assert (comparison.verdict, pair.metrics.mismatched, pair.metrics.argmax) == ("mismatch", 1, (500,))


def test_19_two_tensors_swapped() -> None:
    a, b = noise(30, 3), noise(31, 3)[:30]
    comparison = fd.compare({"a": a, "b": b}, {"a": b, "b": a})
    assert [pair.status for pair in comparison.pairs] == ["mismatch", "mismatch"]


def test_20_float64_of_the_same_values() -> None:
    reference = noise(100)
    assert one(reference.astype(np.float64), reference)[0].verdict == "match"


def test_21_tiny_values_reversed() -> None:
    reference = noise(100) * np.float32(1e-8)
    assert one(reference, reference[::-1])[0].verdict == "mismatch"


def test_23_everything_unreadable_on_one_side(tmp_path: Path) -> None:
    for side in ("reference", "candidate"):
        (tmp_path / side).mkdir()
        for name in ("a", "b"):
            np.save(tmp_path / side / f"{name}.npy", noise(4))
    for file in (tmp_path / "candidate").iterdir():
        file.write_bytes(b"nonsense")
    comparison = fd.compare(tmp_path / "reference", tmp_path / "candidate")
    assert (comparison.verdict, comparison.summary.failed) == ("not_compared", 2)
    assert comparison.pairs[0].reason == "the candidate does not start as a .npy file does"


def test_10_permuted_with_a_singleton() -> None:
    reference = noise(76, 8, 64)
    comparison, pair = one(reference, reference.transpose(1, 0, 2)[None])
    assert comparison.verdict == "match"
    assert pair.alignment.recipe not in ("", "identity")
    assert one(reference, reference.transpose(1, 0, 2)[None], layout="strict")[0].verdict == "mismatch"


def test_11_a_square_matrix_against_its_transpose() -> None:
    reference = noise(32, 32)
    comparison, pair = one(reference, reference.T)
    assert (comparison.verdict, pair.diagnosis[0].cause) == ("mismatch", "layout.transpose")
    assert one(reference, reference.T, accept_layout=["transpose"])[0].verdict == "match"


def test_12_a_shard_against_the_whole() -> None:
    reference = noise(8, 32)
    comparison, pair = one(reference, reference[:, 8:16])
    assert (comparison.verdict, pair.status, pair.metrics.max_abs) == ("mismatch", "match", 0)
    assert (pair.alignment.coverage, pair.metrics.elements) == (0.25, 64)
    assert one(reference, reference[:, 8:16], allow_missing=True)[0].verdict == "match"
    assert one(reference[:, 8:16], reference, allow_missing=True)[0].verdict == "mismatch"
    assert one(reference[:, 8:16], reference, allow_extra=True)[0].verdict == "match"


def test_a_part_that_is_no_shard_has_to_be_allowed_even_if_parts_are_equal() -> None:
    batch = noise(4, 6, 8)
    for part in (batch[:2], batch[:, :3]):  # half of the texts, half of the tokens
        assert one(batch, part, allow_missing=True, allow_extra=True)[0].verdict == "mismatch"
        assert one(part, batch, allow_missing=True, allow_extra=True)[0].verdict == "mismatch"
        assert one(batch, part, allow_partial=True)[0].verdict == "match"


def test_13_a_scalar_against_a_tensor_of_one_element() -> None:
    assert one(4096, np.array([4096]))[0].verdict == "match"
    assert one(4096, np.array([4097]))[0].verdict == "mismatch"


def test_19_the_swap_is_proposed_and_never_done() -> None:
    a, b = noise(30, 3), noise(31, 3)[:30]
    comparison = fd.compare({"a": a, "b": b}, {"a": b, "b": a})
    assert [pair.pairing.alternatives for pair in comparison.pairs] == [("b",), ("a",)]


def test_22_a_rank_axis() -> None:
    ranks = noise(8, 64, 76, 4)
    comparison, pair = one(ranks[3:4], ranks, allow_extra=True)
    assert (comparison.verdict, pair.status) == ("match", "match")
    assert pair.alignment.coverage == 1 / 8
    assert one(ranks, ranks[3:4], allow_missing=True)[0].verdict == "match"
