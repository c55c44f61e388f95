"""The mathematics of the diffusion example: scores, one denoising step, generations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from generate import sampler_for, torch_log_scores  # type: ignore[import-not-found]
from invariants import check_generation, check_logits, check_step  # type: ignore[import-not-found]
from model import Config, DiffusionText  # type: ignore[import-not-found]
from sampler import (  # type: ignore[import-not-found]
    decode,
    draw,
    fixed_characters,
    noise_schedule,
    stagger,
    transition_kernel,
)
from words import real_word_share  # type: ignore[import-not-found]

import firstdiff as fd

pytestmark = pytest.mark.xdist_group("examples")

CONFIG = Config(vocab_size=11, block_size=24, layers=2, heads=2, width=16)
VOCAB = list("abcdefghij ")


@pytest.fixture(scope="module")
def model() -> DiffusionText:
    """A model with random weights in every layer, so that its predictions are far from uniform."""
    torch.manual_seed(0)
    model = DiffusionText(CONFIG).eval()
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn_like(value) * 0.3)
    return model


def noisy_ids() -> np.ndarray:
    return np.random.default_rng(0).integers(0, CONFIG.vocab_size, (1, CONFIG.block_size))


@pytest.mark.parametrize("sigma", [0.05, 0.7, 5.0])
def test_removing_all_noise_gives_back_the_predicted_clean_characters(model: DiffusionText, sigma: float) -> None:
    ids = noisy_ids()
    level = np.array([sigma], dtype=np.float32)
    score = np.exp(torch_log_scores(model)(ids, level).astype(np.float64))
    probs = stagger(score, sigma) * transition_kernel(ids, sigma, CONFIG.vocab_size)
    with torch.no_grad():
        clean = torch.softmax(model.predict_clean(torch.from_numpy(ids), torch.from_numpy(level)), -1).numpy()
    assert np.abs(probs - clean).max() < 1e-5


def test_scores_are_the_ratios_of_noisy_probabilities(model: DiffusionText) -> None:
    """By definition: p_t(y) is the sum over clean characters of p(x_0) * p_t(y | x_0), p(x_0) from Bayes' rule."""
    ids, sigma = noisy_ids(), 0.9
    level = np.array([sigma], dtype=np.float32)
    with torch.no_grad():
        clean = torch.softmax(model.predict_clean(torch.from_numpy(ids), torch.from_numpy(level)), -1).double().numpy()
    noising = transition_kernel(np.arange(CONFIG.vocab_size), sigma, CONFIG.vocab_size)
    for position, current in enumerate(ids[0]):
        prior = clean[0, position] / noising[:, current]
        density = prior @ noising
        score = np.exp(torch_log_scores(model)(ids, level)[0, position])
        np.testing.assert_allclose(score, density / density[current], rtol=2e-5)


def test_every_step_keeps_the_invariants(model: DiffusionText) -> None:
    steps = list(sampler_for(model).generate(seed=5, steps=8))
    checks = [check for step in steps for check in check_step(step)]
    checks += [*check_generation(steps), *check_logits(steps[-1].log_score, CONFIG.block_size, CONFIG.vocab_size)]
    assert [check for check in checks if not check.ok] == []


def test_the_schedule_is_geometric_and_ends_by_removing_what_is_left() -> None:
    schedule = noise_schedule(64, 1e-4, 20)
    assert schedule.sigma[[0, -1]] == pytest.approx([20, 1e-4])
    assert schedule.sigma[30] == pytest.approx(20 ** (34 / 64) * 1e-4 ** (30 / 64))
    assert schedule.delta_sigma[:-1].sum() + schedule.delta_sigma[-1] == pytest.approx(20)
    assert schedule.delta_sigma[-1] == schedule.sigma[-1]


def test_draws_follow_the_probabilities() -> None:
    from firstdiff.rng import Rng

    probs = np.array([0.5, 0.3, 0.15, 0.05])
    drawn = draw(np.broadcast_to(probs, (20_000, 4)), Rng(3).gumbel((20_000, 4)))
    assert np.bincount(drawn) / 20_000 == pytest.approx(probs, abs=0.015)


def test_a_batch_draws_each_sample_from_its_own_stream(model: DiffusionText) -> None:
    batch = list(sampler_for(model).generate(seed=1, steps=6, streams=range(3)))[-1].sampled
    alone = list(sampler_for(model).generate(seed=1, steps=6, streams=[2]))[-1].sampled
    assert np.array_equal(batch[2], alone[0])
    assert not np.array_equal(batch[0], batch[1])


def test_prefix_and_suffix_stay(model: DiffusionText) -> None:
    fixed = fixed_characters("a bad", "cab", VOCAB, CONFIG.block_size)
    texts = [decode(step.sampled[0], VOCAB) for step in sampler_for(model).generate(0, 6, fixed=fixed)]
    assert all(text.startswith("a bad") and text.endswith("cab") for text in texts)
    assert len({text[5:-3] for text in texts}) > 1


def test_characters_and_lengths_the_model_lacks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the vocabulary has no '\?', 'Z'"):
        fixed_characters("Z", "?", VOCAB, 24)
    with pytest.raises(ValueError, match="25 characters, but the model writes 24"):
        fixed_characters("a" * 20, "b" * 5, VOCAB, 24)
    with pytest.raises(ValueError, match="steps is 0"):
        noise_schedule(0, 0.1, 1)


def test_every_stage_is_tapped(model: DiffusionText, tmp_path: Path) -> None:
    with fd.record(tmp_path / "run.trace"):
        list(sampler_for(model).generate(0, 2))
    tensors = fd.open_trace(tmp_path / "run.trace").tensors
    stages = ["ids", "sigma", "log_score", "score", "staggered_score", "transition", "probs", "gumbel", "sampled"]
    schedule = ["schedule.t", "schedule.sigma", "schedule.delta_sigma"]
    assert [tensor.record.name for tensor in tensors] == schedule + 3 * stages
    assert [tensor.record.step for tensor in tensors[3:]] == [step for step in range(3) for _ in stages]


def test_only_words_of_three_letters_count() -> None:
    assert real_word_share(["The cat zat on, thE"], {"the", "cat"}) == 3 / 4
    assert real_word_share(["a b!"], {"the"}) == 0
