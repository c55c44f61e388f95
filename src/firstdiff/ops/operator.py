"""The decorator of every operator: a function of arrays with keyword-only settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import numpy as np

P = ParamSpec("P")


def operator(function: Callable[P, Any]) -> Callable[P, np.ndarray]:
    """Silence numpy warnings about NaN and Inf, and return arrays also for scalars."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(function(*args, **kwargs))

    return run
