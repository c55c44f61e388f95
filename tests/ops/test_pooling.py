"""Pooling and interpolation against torch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from firstdiff.ops.pooling import adaptive_avg_pool, avg_pool, interpolate, max_pool
from tests.ops.oracle import assert_agrees, double, seeds, values

AVG = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}
MAX = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
ADAPTIVE = {1: functional.adaptive_avg_pool1d, 2: functional.adaptive_avg_pool2d, 3: functional.adaptive_avg_pool3d}


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(
    "how", [{"kernel_size": 2}, {"kernel_size": 3, "stride": 1}, {"kernel_size": 3, "stride": 2, "padding": 1}], ids=str
)
def test_pooling_is_torchs(axes: int, how: dict[str, Any]) -> None:
    x = values(1, 2, 3, *[7, 6, 5][:axes])
    assert_agrees(avg_pool(x, axes=axes, **how), AVG[axes](double(x), **how))
    assert_agrees(max_pool(x, axes=axes, **how), MAX[axes](double(x), **how))
    wanted = AVG[axes](double(x), count_include_pad=False, **how)
    assert_agrees(avg_pool(x, axes=axes, count_include_pad=False, **how), wanted)


def test_gaps_between_the_elements_of_a_window() -> None:
    x = values(1, 2, 3, 9)
    how = {"kernel_size": 3, "stride": 1, "dilation": 2}
    assert_agrees(max_pool(x, axes=1, **how), functional.max_pool1d(double(x), **how))


@pytest.mark.parametrize(("axes", "size"), [(1, 1), (1, 4), (2, 3), (2, (2, None)), (3, 1), (2, (5, 9))])
def test_adaptive_pooling_is_torchs(axes: int, size: Any) -> None:
    x = values(1, 2, 3, *[7, 6, 5][:axes])
    assert_agrees(adaptive_avg_pool(x, output_size=size, axes=axes), ADAPTIVE[axes](double(x), size))


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
