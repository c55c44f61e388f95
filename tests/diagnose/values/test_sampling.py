"""Samplers: schedules of noise, steps, times and draws."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.diagnose.pairs import assert_first, assert_not_sure_of, compared, randn
from tests.diagnose.values.planted import confidence_in, diagnosed, first_cause, noisy, normal, uniform

COUNT = 40
LINEAR = np.linspace(1e-4, 0.02, COUNT, dtype=np.float32)
ROOTED = (np.linspace(0.00085**0.5, 0.012**0.5, COUNT) ** 2).astype(np.float32)
KARRAS = (np.linspace(80 ** (1 / 7), 0.002 ** (1 / 7), COUNT) ** 7).astype(np.float32)


@pytest.mark.parametrize(
    ("reference", "candidate", "says"),
    [
        (LINEAR, ROOTED, "even steps of the root from 0.00085 to 0.012, the reference even steps from 0.0001 to 0.02"),
        (KARRAS, np.geomspace(80, 0.002, COUNT, dtype=np.float32), "even factors from 80 to 0.002"),
        (np.cumprod(1 - LINEAR), np.cumprod(1 - ROOTED), "betas in even steps of the root"),
    ],
    ids=["betas", "sigmas", "alphas"],
)
def test_another_schedule_is_named_with_its_kind(reference: np.ndarray, candidate: np.ndarray, says: str) -> None:
    found = diagnosed(reference, noisy(candidate), "scheduler.sigmas")
    assert found[0].cause == "noise.schedule"
    assert found[0].confidence >= 0.9
    assert says in found[0].evidence


def test_a_schedule_with_another_end_is_told_less_surely() -> None:
    found = diagnosed(LINEAR, np.linspace(1e-4, 0.03, COUNT, dtype=np.float32), "betas")
    assert 0.3 < confidence_in("noise.schedule", found) < 0.8


def test_a_schedule_times_a_number_is_a_scale() -> None:
    found = diagnosed(KARRAS, 2 * KARRAS, "sigmas")
    assert found[0].cause == "scale.constant"
    assert not confidence_in("noise.schedule", found)


def test_rising_numbers_of_something_else_are_no_schedule() -> None:
    speeds = 10000.0 ** -np.linspace(0, 1, COUNT)
    found = diagnosed(speeds.astype("f4"), (speeds**1.2).astype("f4"), "rotary.inv_freq")
    assert not confidence_in("noise.schedule", found)


@pytest.mark.parametrize("draw", [normal, uniform, lambda *shape, seed=0: gumbel(*shape, seed=seed)])
def test_another_draw_of_the_same_numbers(draw: Callable[..., np.ndarray]) -> None:
    found = diagnosed(draw(2, 4, 64), draw(2, 4, 64, seed=7), "latents")
    assert found[0].cause == "sampling.draw"
    assert "values.uncorrelated" in found[0].implies


def test_numbers_of_another_size_are_no_draw_of_the_same() -> None:
    found = diagnosed(normal(2, 4, 64), 1.5 * normal(2, 4, 64, seed=7), "latents")
    assert not confidence_in("sampling.draw", found)


def test_what_a_layer_computes_is_no_draw(tmp_path: Path) -> None:
    reference = nn.Sequential(nn.LayerNorm(64, elementwise_affine=False))
    candidate = nn.Sequential(nn.LayerNorm(64, elementwise_affine=False))
    candidate[0].register_forward_hook(lambda *given: randn(*given[2].shape, seed=9))
    assert_not_sure_of(compared(reference, candidate, [randn(2, 9, 64)], tmp_path), "sampling.draw")


def test_tokens_drawn_from_scores_that_agree() -> None:
    logits = 3 * normal(8, 200)
    order = np.argsort(-logits, axis=-1)
    reference = {"logits": logits, "next_token": order[:, 0]}
    found = diagnosed(
        reference, {"logits": noisy(logits), "next_token": np.where(np.arange(8) % 2, order[:, 1], order[:, 3])}
    )
    assert found[0].cause == "sampling.draw"
    assert "the candidate draws, the reference takes the likeliest" in found[0].evidence


def test_numbers_that_do_not_come_from_scores_are_not_drawn_from_them() -> None:
    hidden = normal(1, 12, 64)
    positions = np.arange(12)[None]
    found = diagnosed({"hidden": hidden, "pos": positions}, {"hidden": noisy(hidden), "pos": positions + 1})
    assert not confidence_in("sampling.draw", found)


class Loop(nn.Module):
    """`steps` of x + rate * f(x, t); `ahead` asks f too early, `rule` weighs the two otherwise."""

    def __init__(self, ahead: int = 0, rule: tuple[float, float] = (1.0, -0.2)) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.score, self.step = Score(), Rule(*rule)
        self.ahead = ahead

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for at in range(4):
            x = self.step(x, self.score(x, torch.full((len(x), 1), 0.7 ** (at + self.ahead))))
        return x


class Score(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(17, 16)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.cat([x, time], dim=-1))  # type: ignore[no-any-return]


class Rule(nn.Module):
    def __init__(self, kept: float, added: float) -> None:
        super().__init__()
        self.kept, self.added = kept, added

    def forward(self, x: torch.Tensor, score: torch.Tensor) -> torch.Tensor:
        with torch._C.DisableTorchFunction():  # one kernel
            return self.kept * x + self.added * score


X = [randn(6, 16)]


@pytest.mark.parametrize("bare", [False, True])
def test_a_loop_that_is_a_step_ahead(tmp_path: Path, bare: bool) -> None:
    cause = assert_first(compared(Loop(), Loop(ahead=1), X, tmp_path, bare=bare), "score.stagger")
    assert "1 step later" in cause.evidence


@pytest.mark.parametrize("bare", [False, True])
def test_another_rule_of_a_step(tmp_path: Path, bare: bool) -> None:
    cause = assert_first(compared(Loop(), Loop(rule=(0.95, -0.3)), X, tmp_path, bare=bare), "transition.kernel", 0.8)
    assert "0.95 times" in cause.evidence
    assert "in place of 1 times" in cause.evidence


def test_weights_of_a_sum_that_is_no_loop_are_no_kernel(tmp_path: Path) -> None:
    class Once(Loop):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.step(x, self.score(x, x[:, :1]))  # type: ignore[no-any-return]

    assert_not_sure_of(compared(Once(), Once(rule=(0.95, -0.3)), X, tmp_path), "transition.kernel")


class Noised(nn.Module):
    def __init__(self, left: float) -> None:
        super().__init__()
        self.left = left

    def forward(self, picture: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        with torch._C.DisableTorchFunction():
            return self.left**0.5 * picture + (1 - self.left) ** 0.5 * noise


def test_signal_and_noise_with_the_weights_of_another_time(tmp_path: Path) -> None:
    given = [randn(2, 3, 8, 8), randn(2, 3, 8, 8, seed=5)]
    cause = assert_first(compared(Noised(0.9), Noised(0.4), given, tmp_path), "noise.schedule", 0.8)
    assert "0.6325 times" in cause.evidence


def test_steps_that_are_right_have_no_cause(tmp_path: Path) -> None:
    assert compared(Loop(), Loop(), X, tmp_path).diagnosis == ()


def test_values_of_the_step_before_are_stale() -> None:
    assert first_cause({"a": normal(4, 9), "b": normal(4, 9, seed=3)}, {"a": normal(4, 9), "b": normal(4, 9)}) != (
        "score.stagger"
    )


def test_one_step_too_few() -> None:
    found = diagnosed(np.linspace(1, 0, 9), np.linspace(1, 0, 8), "schedule.t")
    assert found[0].cause == "loop.steps"
    assert "the candidate 8 of them, the reference 9" in found[0].evidence


def gumbel(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).gumbel(size=shape)


def scores(seed: int = 0) -> np.ndarray:
    return np.exp(normal(2, 9, 12, seed=seed).astype(np.float64))


def stagger(score: np.ndarray, keep: float, sign: float = -1.0) -> np.ndarray:
    """Return the ratios of the less noisy level, as samplers of discrete diffusion do."""
    mean = score.mean(axis=-1, keepdims=True)
    return np.asarray((score + sign * (1 - keep) * mean) / keep)


@pytest.mark.parametrize("sign", [1.0, 0.0], ids=["added", "left out"])
def test_a_score_that_is_staggered_by_another_formula(sign: float) -> None:
    score = scores()
    found = diagnosed(
        {"score": score, "staggered": stagger(score, 0.3)}, {"score": score, "staggered": stagger(score, 0.3, sign)}
    )
    assert found[0].cause == "score.stagger"
    assert found[0].confidence >= 0.8
    assert "times its sum (score)" in found[0].evidence


def test_a_sum_that_is_not_kept_is_no_stagger() -> None:
    score = scores()
    shifted = score + 0.1 * score.sum(axis=-1, keepdims=True)
    found = diagnosed({"score": score, "x": score}, {"score": score, "x": shifted})
    assert not confidence_in("score.stagger", found)


def kernel(redraw: float, keep: float, classes: int = 12) -> np.ndarray:
    """Return the probability of each class after a step of uniform noise."""
    ids = np.random.default_rng(3).integers(0, classes, (2, 9))
    made = np.full((2, 9, classes), redraw)
    np.put_along_axis(made, ids[..., None], keep, axis=-1)
    return made


@pytest.mark.parametrize(
    ("redraw", "keep", "says"),
    [
        (0.05, 0.4, "sum to 0.95"),
        (0.6, 1.0, "sum to 7.6"),
        (0.6 / 11, 0.4 + 0.6 / 11, "0.05455 for every other class"),
    ],
    ids=["diagonal without redraws", "not divided", "one class too few"],
)
def test_another_kernel_of_uniform_noise(redraw: float, keep: float, says: str) -> None:
    found = diagnosed(kernel(0.05, 0.45), kernel(redraw, keep), "transition")
    assert found[0].cause == "transition.kernel"
    assert found[0].confidence >= 0.8
    assert says in found[0].evidence


def test_rows_that_do_not_sum_to_one_are_no_kernel() -> None:
    assert not confidence_in("transition.kernel", diagnosed(kernel(0.2, 5.0), kernel(0.3, 6.0), "one_hot"))


def test_ids_that_are_not_drawn_by_the_noise_beside_them() -> None:
    probs = scores() / scores().sum(axis=-1, keepdims=True)
    noise = gumbel(*probs.shape)
    ids = np.argmax(np.log(probs) + noise, axis=-1)
    given = {"probs": probs, "gumbel": noise}
    found = diagnosed({**given, "ids": ids}, {**given, "ids": np.full_like(ids, 11)})
    assert found[0].cause == "sampling.draw"
    assert "takes the largest of log(probs) plus gumbel" in found[0].evidence


def test_one_level_of_noise_is_no_schedule() -> None:
    found = diagnosed(np.array(0.5, np.float32), np.array(0.7, np.float32), "sigma")
    assert not confidence_in("noise.schedule", found)
