"""Choose the variant of the kernel: the one that suits this processor is not the only one users have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from firstdiff.measure import engine_c
from firstdiff.measure.library import library

_BEST = library()
# without it every test would hold numpy to itself
assert _BEST is not None, "the kernel was not built: run `python hatch_build.py kernel`"
VARIANTS = sorted({"baseline", _BEST.variant})


@contextmanager
def using(variant: str) -> Iterator[None]:
    """Let the compiled engine call another variant."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_c, "_library", lambda: library(variant))
        yield
