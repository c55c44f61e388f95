"""Invariants of every step of a correct sampler, in either language."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from sampler import Step

TYPICAL_LOGIT = 10.0


@dataclass(frozen=True)
class Check:
    """One invariant, whether it holds, and the numbers that say so."""

    name: str
    ok: bool
    detail: str


def check_logits(logits: np.ndarray, block_size: int, vocab_size: int) -> Iterator[Check]:
    """Check the output of the model."""
    expected = (1, block_size, vocab_size)
    yield Check("logits have the model's shape", logits.shape == expected, f"{logits.shape}, expected {expected}")
    yield Check("logits are float32", logits.dtype == np.float32, str(logits.dtype))
    infinite = int((~np.isfinite(logits)).sum())
    yield Check("logits are finite", infinite == 0, f"{infinite} are not")
    largest = float(np.abs(logits).max())
    yield Check(f"logits are within ±{TYPICAL_LOGIT:g}", largest <= TYPICAL_LOGIT, f"largest {largest:.3g}")
    spread = float(logits.std(axis=-1).mean())
    yield Check("logits are not nearly uniform", spread > 0.1, f"mean deviation over the vocabulary {spread:.3g}")


def check_step(step: Step) -> Iterator[Check]:
    """Check the stages of one denoising step."""
    vocab_size = step.probs.shape[-1]
    yield Check("scores are finite", bool(np.isfinite(step.score).all()), f"largest {step.score.max():.3g}")
    yield Check("scores are positive", bool((step.score > 0).all()), f"smallest {step.score.min():.3g}")
    at_current = np.take_along_axis(step.score, step.ids[..., None], axis=-1)
    error = float(np.abs(at_current - 1).max())
    yield Check("the score of the current character is 1", error < 1e-5, f"largest error {error:.2g}")
    error = float(np.abs(step.transition.sum(axis=-1) - 1).max())
    yield Check("transitions sum to 1", error < 1e-9, f"largest error {error:.2g}")
    yield Check("probabilities are positive", bool((step.probs > 0).all()), f"smallest {step.probs.min():.3g}")
    error = float(np.abs(step.probs.sum(axis=-1) - 1).max())
    yield Check("probabilities sum to 1", error < 1e-3, f"largest error {error:.2g}")
    valid = bool(((step.sampled >= 0) & (step.sampled < vocab_size)).all())
    yield Check("sampled ids are in the vocabulary", valid, f"{step.sampled.min()} to {step.sampled.max()}")


def check_generation(steps: list[Step]) -> Iterator[Check]:
    """Check the schedule and the draws of a whole generation."""
    delta = np.array([step.delta_sigma for step in steps])
    yield Check("delta sigma is positive", bool((delta > 0).all()), f"smallest {delta.min():.3g}")
    decreasing = bool((np.diff(delta[:-1]) < 0).all())
    yield Check("delta sigma decreases until the last step", decreasing, f"{delta[0]:.3g} to {delta[-2]:.3g}")
    last = steps[-1]
    yield Check(
        "the last step removes all noise", last.delta_sigma == last.sigma, f"{delta[-1]:.3g} of {last.sigma:.3g}"
    )
    repeated = sum(np.array_equal(a.gumbel, b.gumbel) for a, b in pairwise(steps))
    yield Check("the generator varies between steps", repeated == 0, f"{repeated} steps repeat the draws before")
