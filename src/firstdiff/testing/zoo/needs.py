"""Check that the packages the zoo needs are installed."""

from __future__ import annotations

from importlib.util import find_spec

from firstdiff.errors import UsageError


def need_torch_and_transformers() -> None:
    """UsageError, with what to install, if one of them is missing."""
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if missing:
        raise UsageError(f"the zoo runs real models and needs {' and '.join(missing)}: pip install torch transformers")
