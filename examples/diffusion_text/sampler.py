"""Sample text by reversing the noise step by step; web/src/sampler.ts is the same code in TypeScript.

Every stage is tapped under the name that the TypeScript sampler uses, so `firstdiff compare` can tell where the two
part ways. All arithmetic after the model is float64. The draws come from firstdiff's shared generator.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import firstdiff as fd
from firstdiff.rng import Rng

# probabilities never reach 0, where their logarithm would be lost
MIN_PROBABILITY = 1e-12

LogScores = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""The model: ids int64 [batch, block_size] and sigma float32 [batch] to log-scores [batch, block_size, vocab_size]."""


@dataclass(frozen=True)
class Schedule:
    """Times, noise levels and the noise that each step removes; the last step removes all that is left."""

    t: np.ndarray
    sigma: np.ndarray
    delta_sigma: np.ndarray


@dataclass(frozen=True)
class Step:
    """One denoising step with everything computed on the way."""

    index: int
    t: float
    sigma: float
    delta_sigma: float
    ids: np.ndarray
    log_score: np.ndarray
    score: np.ndarray
    staggered_score: np.ndarray
    transition: np.ndarray
    probs: np.ndarray
    gumbel: np.ndarray
    sampled: np.ndarray

    @property
    def changed(self) -> float:
        """Return the share of characters that this step changed."""
        return float(np.mean(self.ids != self.sampled))


def noise_schedule(steps: int, sigma_min: float, sigma_max: float) -> Schedule:
    """Return `steps` + 1 times from 1 to 0 and their geometric noise levels."""
    if steps < 1:
        raise ValueError(f"steps is {steps}; at least 1 was expected")
    t = 1 - np.arange(steps + 1) / steps
    sigma = sigma_min ** (1 - t) * sigma_max**t
    return Schedule(t, sigma, np.append(sigma[:-1] - sigma[1:], sigma[-1]))


def exp_scores(log_score: np.ndarray, temperature: float) -> np.ndarray:
    """Return the ratios p_t(y) / p_t(x_t)."""
    return np.exp(log_score.astype(np.float64) / temperature)


def stagger(score: np.ndarray, delta_sigma: float) -> np.ndarray:
    """Return the ratios p_s(y) / p_t(x_t) of the less noisy level s, delta_sigma below t."""
    keep = np.exp(-delta_sigma)
    return (score - (1 - keep) / score.shape[-1] * score.sum(axis=-1, keepdims=True)) / keep


def transition_kernel(ids: np.ndarray, delta_sigma: float, vocab_size: int) -> np.ndarray:
    """Return the probability that each character y becomes x_t when delta_sigma of noise is added."""
    keep = np.exp(-delta_sigma)
    kernel = np.full((*ids.shape, vocab_size), (1 - keep) / vocab_size)
    np.put_along_axis(kernel, ids[..., None], keep + (1 - keep) / vocab_size, axis=-1)
    return kernel


def draw(probs: np.ndarray, gumbel: np.ndarray) -> np.ndarray:
    """Draw one character per position: the largest of log-probability plus Gumbel noise."""
    return np.argmax(np.log(probs) + gumbel, axis=-1).astype(np.int64)


@dataclass(frozen=True)
class Sampler:
    """Generate ids with a model; `fixed` keeps characters of a prefix or suffix at their positions."""

    log_scores: LogScores
    vocab_size: int
    block_size: int
    sigma_min: float
    sigma_max: float

    def generate(
        self,
        seed: int,
        steps: int,
        streams: Sequence[int] = (0,),
        fixed: dict[int, int] | None = None,
        temperature: float = 1.0,
    ) -> Iterator[Step]:
        """Yield the steps of one sample for each stream of the seed, side by side as a batch."""
        schedule = noise_schedule(steps, self.sigma_min, self.sigma_max)
        for name in ("t", "sigma", "delta_sigma"):
            fd.tap(f"schedule.{name}", getattr(schedule, name))
        generators = [Rng(seed, stream) for stream in streams]
        ids = np.stack([rng.integers(0, self.vocab_size, self.block_size) for rng in generators])
        ids = keep_fixed(ids, fixed or {})
        for index in range(steps + 1):
            gumbel = np.stack([rng.gumbel((self.block_size, self.vocab_size)) for rng in generators])
            step = self.denoise(index, schedule, ids, gumbel, fixed, temperature)
            yield step
            ids = step.sampled

    def denoise(
        self,
        index: int,
        schedule: Schedule,
        ids: np.ndarray,
        gumbel: np.ndarray,
        fixed: dict[int, int] | None = None,
        temperature: float = 1.0,
    ) -> Step:
        """Take one denoising step from `ids`."""
        delta_sigma = float(schedule.delta_sigma[index])
        fd.tap("ids", ids, step=index, dims="b s")
        sigma = fd.tap("sigma", np.full(len(ids), schedule.sigma[index], dtype=np.float32), step=index)
        log_score = fd.tap("log_score", self.log_scores(ids, sigma), step=index, dims="b s v")
        score = fd.tap("score", exp_scores(log_score, temperature), step=index, dims="b s v")
        staggered = fd.tap("staggered_score", stagger(score, delta_sigma), step=index, dims="b s v")
        kernel = transition_kernel(ids, delta_sigma, self.vocab_size)
        fd.tap("transition", kernel, step=index, dims="b s v")
        probs = fd.tap("probs", np.maximum(staggered * kernel, MIN_PROBABILITY), step=index, dims="b s v")
        fd.tap("gumbel", gumbel, step=index, dims="b s v")
        sampled = fd.tap("sampled", keep_fixed(draw(probs, gumbel), fixed or {}), step=index, dims="b s")
        return Step(
            index=index,
            t=float(schedule.t[index]),
            sigma=float(schedule.sigma[index]),
            delta_sigma=delta_sigma,
            ids=ids,
            log_score=log_score,
            score=score,
            staggered_score=staggered,
            transition=kernel,
            probs=probs,
            gumbel=gumbel,
            sampled=sampled,
        )


def keep_fixed(ids: np.ndarray, fixed: dict[int, int]) -> np.ndarray:
    """Return the ids with the fixed characters at their positions."""
    kept = ids.copy()
    for position, character in fixed.items():
        kept[:, position] = character
    return kept


def fixed_characters(prefix: str, suffix: str, vocab: list[str], block_size: int) -> dict[int, int]:
    """Return the id at each position that a prefix and a suffix keep."""
    unknown = sorted(set(prefix + suffix) - set(vocab))
    if unknown:
        raise ValueError(f"the vocabulary has no {', '.join(map(repr, unknown))}: leave them out of prefix and suffix")
    if len(prefix) + len(suffix) > block_size:
        raise ValueError(
            f"prefix and suffix have {len(prefix) + len(suffix)} characters, but the model writes {block_size} in all"
        )
    places = [*enumerate(prefix), *enumerate(suffix, block_size - len(suffix))]
    return {position: vocab.index(character) for position, character in places}


def decode(ids: np.ndarray, vocab: list[str]) -> str:
    """Return the text of one row of ids."""
    return "".join(vocab[index] for index in ids)
