"""The candidate's error beside a control's: the same noise passes, more of it does not, wherever it sits."""

import numpy as np
import pytest

from firstdiff.judge import beside_control
from firstdiff.schema import Controlled
from firstdiff.trace import ArraySource

BF16 = np.dtype("bfloat16")
SHAPE = (64, 32)


def values(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32)


def noisy(seed: int, size: float = 0.004) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=SHAPE)
    return (values() * (1 + size * noise)).astype(np.float32)


def beside(candidate: np.ndarray, control: np.ndarray, reference: np.ndarray | None = None) -> Controlled:
    shown = ArraySource(values() if reference is None else reference)
    found = beside_control((shown, ArraySource(candidate)), (shown, ArraySource(control)), BF16)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(2, 12))
def test_another_healthy_run_costs_what_the_control_does(seed: int) -> None:
    found = beside(noisy(seed), noisy(1))
    assert found.status == "match"
    assert found.text.startswith("this is what bf16 costs here (0.4 % against 0.4 %")


def test_the_sentence_says_how_many_times_the_cost() -> None:
    found = beside(noisy(2, 0.0348), noisy(1))
    assert found.status == "mismatch"
    assert found.text.startswith("8.9 times what bf16 costs here (3.6 % against 0.4 %)")


def test_a_single_row_channel_or_element_is_found_and_named() -> None:
    row, channel, element = noisy(2), noisy(2), noisy(2)
    row[7] *= 1.04
    channel[:, 5] *= 1.04
    element[3, 4] += 0.3
    found = beside(row, noisy(1))
    assert (found.status, found.row_index) == ("mismatch", 7)
    assert found.rms < 1.5
    found = beside(channel, noisy(1))
    assert (found.status, found.channel_index) == ("mismatch", 5)
    assert "channel 5 is off by" in found.text
    found = beside(element, noisy(1))
    assert (found.status, found.element > 5) == ("mismatch", True)


def test_less_error_than_rounding_leaves_is_no_measure() -> None:
    reference = values()
    nearly = (reference * 1.0001).astype(np.float32)
    found = beside(nearly, reference)
    assert found.status == "match"
    assert found.text == "within the rounding of bf16"


@pytest.mark.parametrize(("error", "status"), [(0.09, "match"), (0.15, "inconclusive")])
def test_a_control_that_is_far_off_decides_nothing(error: float, status: str) -> None:
    found = beside(noisy(2, error), noisy(1, error))
    assert found.status == status
    if status == "inconclusive":
        assert "ill-conditioned" in found.text


def test_far_more_than_a_bad_control_is_still_a_mismatch() -> None:
    assert beside(noisy(2, 0.9), noisy(1, 0.15)).status == "mismatch"


def test_few_elements_may_differ_more_from_run_to_run() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        reference = rng.normal(size=(1, 4)) + 3
        candidate, control = (reference * (1 + 0.004 * rng.normal(size=(1, 4))) for _ in range(2))
        assert beside(candidate, control, reference).status == "match"


def test_a_massive_token_that_the_control_happens_to_round_well_is_healthy() -> None:
    reference = values()
    reference[7] *= 40
    runs = [(reference * (1 + 0.004 * np.random.default_rng(seed).normal(size=SHAPE))) for seed in (1, 2)]
    control, candidate = (run.astype(np.float32) for run in runs)
    control[7] = reference[7] + (control[7] - reference[7]) / 5
    assert beside(candidate, control, reference).status == "match"
    candidate[7] *= 1.1
    assert beside(candidate, control, reference).row_index == 7
    assert beside(candidate, control, reference).status == "mismatch"


def test_a_few_rows_of_another_size_do_not_speak_for_all() -> None:
    reference, control, candidate = values(), noisy(1), noisy(2)
    control[:6] += 0.02 * values(5)[:6]
    candidate[:6] += 0.08 * values(6)[:6]
    found = beside(candidate, control, reference)
    assert found.error > 2 * found.control_error
    assert found.status == "match"
    assert beside(1.012 * noisy(2), control, reference).status == "mismatch"
