"""Recognise weights as frameworks initialise them, before a checkpoint is loaded."""

from __future__ import annotations

import numpy as np

from firstdiff.dtypes import doubles

# what most transformers fill a weight with
_USUAL_STD = 0.02
_SIGMAS = 5.0
_LEAST, _SAMPLE = 256, 1 << 16
_EDGE = 0.05
_LEAST_OUTPUTS, _SIGMAS_OF_SPREAD = 96, 4.0


def fresh_words(weight: np.ndarray | None) -> str | None:
    """Describe the initialisation of a weight that looks freshly initialised; None if it does not."""
    if weight is None or weight.size < 2:
        return None
    values = doubles(weight.reshape(-1)[:: max(1, weight.size // _SAMPLE)])
    spread, top = float(values.std()), float(np.abs(values).max())
    if spread == 0:
        return f"nothing but {values[0]:g}"
    if (
        values.size < _LEAST
        or not np.isfinite(spread)
        or abs(float(values.mean())) > _SIGMAS * spread / values.size**0.5
    ):
        return None
    tails = float(np.mean((values / spread) ** 4))
    if _near(spread, _USUAL_STD, 0.5, values.size) and _near(tails, 3.0, 8.0 / 3.0, values.size):
        return f"normal, with a standard deviation of {_USUAL_STD:g}"
    bound = float(np.prod(weight.shape[1:])) ** -0.5
    if (1.0 - _EDGE) * bound <= top <= (1.0 + 1e-6) * bound and _near(tails, 1.8, 0.3, values.size):
        return f"uniform, up to 1 / sqrt(fan_in) = {bound:.3g}"
    return None


def fresh_outputs(inputs: np.ndarray, outputs: np.ndarray, right: np.ndarray) -> str | None:
    """Describe the random weights that would give outputs of this size; None if none would, or the outputs are too few.

    inputs, outputs, right: [tokens, numbers]; `right` are the outputs as they should be

    Outputs of a token have the standard deviation of the random weights times the norm of its input.
    """
    count = outputs.shape[1]
    lengths = np.linalg.norm(inputs, axis=1)
    if count < _LEAST_OUTPUTS or not len(inputs) or not lengths.all():
        return None
    slack = _SIGMAS_OF_SPREAD / (2.0 * count) ** 0.5
    for name, spread in ((f"{_USUAL_STD:g}", _USUAL_STD), ("1 / sqrt(3 fan_in)", (3.0 * inputs.shape[1]) ** -0.5)):
        found, wanted = (side.std(axis=1) / (spread * lengths) for side in (outputs, right))
        centred = np.abs(outputs.mean(axis=1)) <= _SIGMAS * outputs.std(axis=1) / count**0.5
        if centred.all() and (np.abs(found - 1.0) <= slack).all() and (np.abs(wanted - 1.0) > 2.0 * slack).any():
            return f"random weights with a standard deviation of {name}"
    return None


def _near(found: float, wanted: float, relative_variance: float, count: int) -> bool:
    """True if a statistic of `count` draws is the wanted one within sampling error."""
    return bool(abs(found / wanted - 1.0) <= _SIGMAS * (relative_variance / count) ** 0.5)
