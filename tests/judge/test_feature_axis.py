"""Pictures are judged by their features, which are the second axis; attention and text by their last."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import firstdiff as fd
from firstdiff.trace import ArraySource, Record, Tensor, Trace

RNG = np.random.default_rng(0)
BF16 = np.dtype(ml_dtypes.bfloat16)


def run(array: np.ndarray) -> Trace:
    return Trace("run", (Tensor(Record(name="x"), ArraySource(array)),))


def failed(reference: np.ndarray, candidate: np.ndarray) -> list[str]:
    """Compare a float32 tensor with one computed in bf16, by values alone."""
    (pair,) = fd.compare(run(reference), run(candidate.astype(BF16)), diagnose=False).pairs
    assert pair.systematic is not None
    assert (pair.status == "mismatch") == bool(pair.systematic.failed)
    return [part.part for part in pair.systematic.failed]


def pictures(shape: tuple[int, ...], spread: float = 1.0) -> np.ndarray:
    """Features of other sizes, alike over a picture."""
    sizes = np.exp(spread * RNG.standard_normal((1, shape[1], 1, 1)))
    return (sizes * RNG.standard_normal(shape)).astype(np.float32)


def noisy(reference: np.ndarray, eps: float = 1.0) -> np.ndarray:
    scale = np.sqrt(np.mean(reference.astype(np.float64) ** 2, axis=1, keepdims=True))
    return reference + eps * 2.0**-7 * scale * RNG.standard_normal(reference.shape)


def test_a_feature_that_is_all_but_switched_off_is_no_lost_row() -> None:
    reference = pictures((1, 64, 16, 16))
    reference[:, 5] *= 1e-3
    candidate = noisy(reference)
    assert failed(reference, candidate) == []
    candidate[:, 5] = reference[:, 5] + 0.05 * RNG.standard_normal((16, 16))
    assert failed(reference, candidate) == []


@pytest.mark.parametrize("place", [(0, 7), (0, slice(None), 3), (0, slice(None), 3, 4)])
def test_a_feature_a_line_and_a_place_that_are_lost_are_found(place: tuple[int | slice, ...]) -> None:
    reference = pictures((1, 64, 16, 16), spread=0.5)
    candidate = noisy(reference)
    candidate[place] = 0.0
    assert failed(reference, candidate)


@pytest.mark.parametrize("factor", [1.02, 1.05])
def test_a_factor_on_pictures_is_found(factor: float) -> None:
    reference = pictures((2, 64, 16, 16))
    assert "scale" in failed(reference, factor * noisy(reference, 0.3))


def test_the_only_feature_of_a_picture_may_be_moved_as_one_logit_may() -> None:
    reference = 3 + pictures((1, 1, 24, 24))
    moved = noisy(reference) * 1.015
    assert failed(reference, moved) == []
    assert failed(reference, noisy(reference) * 1.1)
    assert "scale" in failed(reference[0, 0], moved[0, 0]), "a matrix has features"


def test_pooled_features_are_one_row() -> None:
    reference = np.abs(RNG.standard_normal((1, 200, 1, 1))).astype(np.float32)
    assert failed(reference, reference * 1.015) == []
    assert "level" in failed(reference, reference * 1.1)
    many = np.abs(RNG.standard_normal((64, 200, 1, 1))).astype(np.float32)
    assert "scale" in failed(many, many * 1.02)


def test_heads_are_no_pictures() -> None:
    channels = np.exp(RNG.standard_normal((1, 1, 1, 32)))
    reference = (channels * RNG.standard_normal((1, 8, 24, 32))).astype(np.float32)
    candidate = noisy(reference, 0.5)
    candidate[0, 3, 7] = 0.0  # one token of one head
    assert "row" in failed(reference, candidate)


def test_two_logits_may_differ_by_more_than_a_thousand() -> None:
    reference = np.asarray([[1.1, -2.3]], np.float32)
    assert failed(reference, np.asarray([[1.3, -2.4]])) == []
    assert "level" in failed(reference, np.asarray([[2.2, -3.3]]))
    large = RNG.standard_normal((40, 50)).astype(np.float32)
    assert "level" in failed(large, large + 0.1 * RNG.standard_normal(large.shape))
