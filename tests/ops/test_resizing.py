from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from firstdiff.ops.resizing import interpolate
from tests.ops.oracle import assert_agrees, double, seeds, values

LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


@settings(max_examples=80)
@given(
    seed=seeds,
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    to=st.integers(1, 11),
    factor=st.sampled_from([None, 0.5, 1.0, 1.7, 2.0, 3.0]),
    mode=st.sampled_from(["nearest", "nearest-exact", "linear", "corners"]),
)
def test_it_is_torchs(seed: int, lengths: list[int], to: int, factor: float | None, mode: str) -> None:
    x = values(seed, 2, 3, *lengths)
    how: dict[str, Any] = {"size": [to] * len(lengths)} if factor is None else {"scale_factor": factor}
    if factor is not None and min(int(n * factor) for n in lengths) == 0:
        how = {"size": to}
    corners = mode == "corners"
    mode = LINEAR[len(lengths)] if mode in ("linear", "corners") else mode
    extra = {"align_corners": corners} if mode in LINEAR.values() else {}
    assert_agrees(
        interpolate(x, mode=mode, **how, **extra), functional.interpolate(double(x), mode=mode, **how, **extra)
    )


def test_what_is_not_given_or_not_known_is_said() -> None:
    with pytest.raises(ValueError, match="neither size nor scale_factor"):
        interpolate(values(1, 1, 1, 4))
    with pytest.raises(ValueError, match="mode is 'bicubic'"):
        interpolate(values(1, 1, 1, 4), size=8, mode="bicubic")
