from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from firstdiff.measure import noise_floor as module
from firstdiff.measure.noise_floor import Figures, beyond_floor, spread_between

floats = st.floats(-1e3, 1e3, width=32)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=20)


@settings(max_examples=100)
@given(st.data(), shapes)
def test_the_figures_are_their_plain_definitions(data: st.DataObject, shape: tuple[int, ...]) -> None:
    r, c = (data.draw(hnp.arrays(np.float32, shape, elements=floats)).astype(np.float64) for _ in range(2))
    found = spread_between(r, c)
    assert found is not None
    rows = r.reshape(-1, r.shape[-1]) if r.ndim > 1 else r.reshape(-1, 1)
    moved = (c - r).reshape(rows.shape)
    close = {"rel": 1e-9, "abs": 1e-12}
    assert found.difference.max_abs == np.abs(moved).max()
    assert found.difference.rms == pytest.approx(math.sqrt(np.square(moved).mean()), **close)
    assert found.values.max_abs == np.abs(rows).max()
    if len(rows) < 16 or rows.shape[1] < 2:
        assert found.difference.channel_rms is None
        return
    assert found.difference.channel_rms == pytest.approx(np.sqrt(np.square(moved).mean(0)).max(), **close)
    weight = np.square(rows).sum(0) + 0.01 * np.square(rows).sum(0).mean()
    if weight.min() > 0:
        assert found.difference.channel_gain == pytest.approx((np.abs((moved * rows).sum(0)) / weight).max(), **close)


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    r, c = rng.standard_normal((100, 7)), rng.standard_normal((100, 7))
    whole = spread_between(r, c)
    monkeypatch.setattr(module, "_BLOCK", 50)
    parts = spread_between(r, c)
    assert whole is not None
    assert parts is not None
    assert parts.difference.channel_gain == pytest.approx(whole.difference.channel_gain)
    assert parts.difference.max_abs == whole.difference.max_abs


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32, np.float64, ml_dtypes.float8_e5m2])
def test_every_floating_type_is_measured(dtype: type) -> None:
    r = np.array([[1, 2], [3, 4]], dtype)
    found = spread_between(r, (r.astype(np.float64) + 1).astype(np.float64))
    assert found is not None
    assert found.difference.max_abs == 1
    assert found.eps == float(ml_dtypes.finfo(dtype).eps)


def test_complex_numbers_are_measured_by_their_parts() -> None:
    found = spread_between(np.array([1 + 1j]), np.array([1 + 3j]))
    assert found is not None
    assert found.difference.max_abs == 2


@pytest.mark.parametrize(("r", "c"), [([1, 2], [1, 3]), ([True], [False])])
def test_exact_types_have_no_spread(r: list[int], c: list[int]) -> None:
    assert spread_between(np.array(r), np.array(c)) is None


def test_other_shapes_have_no_spread() -> None:
    assert spread_between(np.ones(2), np.ones(3)) is None


def test_masked_and_non_finite_elements_are_left_out() -> None:
    least = np.finfo(np.float32).min
    r = np.array([1, np.nan, np.inf, least, -np.inf], np.float32)
    c = np.array([1.5, 7, -np.inf, np.finfo(np.float64).min, 3], np.float64)
    found = spread_between(r, c)
    assert found is not None
    assert found.difference.max_abs == 0.5
    assert found.relative < 1


def test_an_empty_tensor_has_a_spread_of_nothing() -> None:
    found = spread_between(np.ones((0, 3)), np.ones((0, 3)))
    assert found is not None
    assert found.difference == Figures(0.0, 0.0)
    assert found.relative == 0


def test_a_floor_is_never_below_rounding() -> None:
    r = np.full((20, 4), 2.0, np.float32)
    found = spread_between(r, r)
    assert found is not None
    floor = found.to_floor(["repeat"])
    assert floor["max_abs"] == 2.0 * 2**-24
    assert floor["runs"] == 1
    assert not beyond_floor(found.difference, floor)
    one_ulp = spread_between(r, np.nextafter(r, np.float32(9)))
    assert one_ulp is not None
    assert not beyond_floor(one_ulp.difference, floor)


def test_what_exceeds_a_floor_is_named_with_how_much() -> None:
    floor = {"max_abs": 1.0, "rms": 0.1, "channel_rms": 0.5, "channel_gain": 0.01}
    assert beyond_floor(Figures(4.0, 9.0, 1.0, 0.03), floor) == {}
    assert beyond_floor(Figures(5.0, 9.0, 1.0, 0.1), floor) == {"max_abs": 5.0, "channel_gain": 10.0}
    assert beyond_floor(Figures(5.0, 9.0), {"max_abs": 0.0}) == {"max_abs": math.inf}
    assert beyond_floor(Figures(5.0, 9.0), {}) == {}


def test_widening_covers_both() -> None:
    one, two = Figures(1.0, 5.0, None, 0.1), Figures(2.0, 3.0, 0.5, None)
    assert one.widened(two) == Figures(2.0, 5.0, 0.5, 0.1)
