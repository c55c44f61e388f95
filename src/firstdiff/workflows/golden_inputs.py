"""`load_golden`: read the reference's values as inputs for a component that is tested alone."""

from __future__ import annotations

import os
from typing import Any

from firstdiff.errors import UsageError
from firstdiff.readers import open_trace


def load_golden(name: str, otherwise: Any = None) -> Any:
    """Return a tensor of the golden while `firstdiff validate --isolate` runs, else the value given.

    >>> load_golden("mel", otherwise=[1.0])  # FIRSTDIFF_GOLDEN is not set
    [1.0]

    name: the tensor's key, as `firstdiff inspect` lists it
    otherwise: the port's own value; left out, there must be a golden
    """
    folder = os.environ.get("FIRSTDIFF_GOLDEN")
    if folder:
        return open_trace(folder)[name].values().read()
    if otherwise is None:
        raise UsageError(f"there is no golden to take {name!r} from; FIRSTDIFF_GOLDEN, which names it, is not set")
    return otherwise
