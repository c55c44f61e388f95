"""What every operator is: a function of arrays whose settings are all keywords."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import numpy as np

P = ParamSpec("P")


def operator(function: Callable[P, Any]) -> Callable[P, np.ndarray]:
    """Quiet, for NaN and Inf are results here and no news; and an array comes back also where it is a lone number."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(function(*args, **kwargs))

    return run
