"""Faults before or in a softmax, diagnosed from the probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from tests.diagnose.values.planted import confidence_in, diagnosed, first_cause, noisy, normal, softmax

SCORES = 3 * normal(2, 4, 12, 16)
RIGHT = softmax(SCORES)
HIDDEN = np.triu(np.ones((12, 16), bool), 1)


@pytest.mark.parametrize("axis", [1, 2])
def test_another_axis_is_named(axis: int) -> None:
    found = diagnosed(RIGHT, noisy(softmax(SCORES, axis)))
    assert found[0].cause == "softmax.axis"
    assert f"adds up to 1 along axis {axis}" in found[0].evidence


@pytest.mark.parametrize(("factor", "name"), [(4.0, "4"), (0.25, "1 / 4"), (16**0.5 * 1.1, None), (8**0.5, "sqrt(8)")])
def test_another_scale_of_the_scores_is_found(factor: float, name: str | None) -> None:
    found = diagnosed(RIGHT, noisy(softmax(SCORES * np.float32(factor))))
    assert found[0].cause == "attention.scale"
    assert f"{factor:.4g}" in found[0].evidence
    assert name is None or name in found[0].evidence


def test_a_mask_that_is_missing_is_told() -> None:
    found = diagnosed(softmax(np.where(HIDDEN, -np.inf, SCORES)), noisy(RIGHT))
    assert found[0].cause == "attention.mask"
    assert "a causal mask" in found[0].evidence


def test_a_mask_that_hides_more_is_told() -> None:
    hides = np.arange(16) >= 13
    found = diagnosed(RIGHT, noisy(softmax(np.where(hides, -np.inf, SCORES))))
    assert found[0].cause == "attention.mask"
    assert "places that the reference sees are hidden" in found[0].evidence


def test_probabilities_that_are_scaled_are_not_told_as_scores() -> None:
    assert first_cause(RIGHT, noisy(RIGHT * np.float32(1.5))) == "scale.constant"


def test_scores_themselves_are_no_probabilities() -> None:
    found = diagnosed(SCORES, noisy(SCORES * 4))
    assert confidence_in("attention.scale", found) == 0.0
    assert found[0].cause == "scale.constant"


def test_masks_of_true_and_false() -> None:
    mask = np.tril(np.ones((2, 12, 12), bool))
    assert "turned round" in diagnosed(mask, ~mask)[0].evidence
    moved = diagnosed(mask, np.tril(np.ones((2, 12, 12), bool), 1))
    assert (moved[0].cause, "one place late" in moved[0].evidence) == ("attention.mask", True)
    some = mask.copy()
    some[0, 3, :2] = False
    few = diagnosed(mask, some)
    assert "0 more places are true, or 0, than in the reference and 2 fewer" in few[0].evidence
    assert few[0].confidence < 0.9
