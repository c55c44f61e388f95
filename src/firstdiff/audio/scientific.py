"""Optional import of scipy."""

from __future__ import annotations

from typing import Any

from firstdiff.errors import UsageError

MISSING = "comparing sound needs scipy, which is not installed: pip install 'firstdiff[audio]'"


def has_scipy() -> bool:
    from importlib.util import find_spec

    return find_spec("scipy") is not None


def fourier() -> Any:
    """`scipy.fft`."""
    try:
        from scipy import fft
    except ImportError as error:
        raise UsageError(MISSING) from error
    return fft


def signal() -> Any:
    """`scipy.signal`, which takes a second to load."""
    try:
        from scipy import signal as found
    except ImportError as error:
        raise UsageError(MISSING) from error
    return found
