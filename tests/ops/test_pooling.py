from __future__ import annotations

from typing import Any

import pytest
from torch.nn import functional

from firstdiff.ops.pooling import adaptive_avg_pool, avg_pool, max_pool
from tests.ops.oracle import assert_agrees, double, values

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
