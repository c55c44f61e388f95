"""Sums of rows and channels are their plain definitions, whichever engine works them out."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.dtypes import from_name
from firstdiff.measure import PairSums, SumTable, plan, scan_pair
from firstdiff.measure.passes import Engine
from firstdiff.measure.sums import row_plan
from firstdiff.trace import ArraySource
from tests.measure.arrays import Recipe, arrays
from tests.measure.variants import VARIANTS, using

ENGINES: list[Engine] = ["auto", "numpy"]
TYPES = [("float32", "float32"), ("float64", "float32"), ("bfloat16", "float16"), ("float8_e4m3fn", "float32")]
FIGURES = ("count", "r", "rr", "d", "dd", "rd", "max_abs")
shapes = st.sampled_from(
    [(7,), (1, 9), (9, 1), (3, 5), (40, 7), (5, 1030), (3, 2051), (6, 64), (2, 3, 4, 33), (300, 3), (17, 129), (1, 1)]
)


def sums_of(reference: np.ndarray, candidate: np.ndarray, engine: Engine = "auto", threads: int = 1) -> PairSums:
    return scan_pair(ArraySource(reference), ArraySource(candidate), engine=engine, threads=threads).sums


def assert_sums(found: SumTable | None, r: np.ndarray, c: np.ndarray) -> None:
    """`r` and `c` hold, in each row, what an entry is the sum of."""
    assert found is not None
    finite = np.isfinite(r) & np.isfinite(c)
    x, d = np.where(finite, r, 0.0), np.where(finite, c - r, 0.0)
    plain = {"count": finite, "r": x, "rr": x * x, "d": d, "dd": d * d, "rd": x * d}
    for name, values in plain.items():
        slack = 1e-6 * np.abs(values).sum(1) + 1e-300
        if name == "rd":  # in float32 products of tiny numbers are lost beside larger ones
            slack = slack + 1e-10 * np.sqrt((x * x).sum(1) * (d * d).sum(1))
        np.testing.assert_array_less(np.abs(getattr(found, name) - values.sum(1)), slack, err_msg=name)
    np.testing.assert_allclose(found.max_abs, np.abs(d).max(1), rtol=1e-6)


@settings(max_examples=150)
@given(
    st.sampled_from(TYPES),
    shapes,
    st.integers(0, 2**32 - 1),
    st.integers(-6, 4),
    st.sampled_from([0.0, 0.05, 1.0]),
    st.sampled_from([("numpy", ""), *(("auto", variant) for variant in VARIANTS)]),
)
def test_rows_and_channels_are_their_plain_definitions(
    types: tuple[str, str], shape: tuple[int, ...], seed: int, scale: int, special: float, how: tuple[Engine, str]
) -> None:
    recipe = Recipe(seed, math.prod(shape), scale, None, 1e-3, special)
    reference, candidate = (side.reshape(shape) for side in arrays(recipe, *types))
    engine, variant = how
    with np.errstate(all="ignore"), using(variant) if variant else nullcontext():
        found = sums_of(reference, candidate, engine)
        r, c = (side.astype(np.float64).reshape(-1, shape[-1]) for side in (reference, candidate))
        together = found.rows_together
        padding = -len(r) % together
        rows = [np.concatenate([side, np.full((padding, shape[-1]), np.nan)]) for side in (r, c)]
        assert_sums(found.rows, *(side.reshape(-1, together * shape[-1]) for side in rows))
        assert (found.channels is None) == (len(r) == 1 or shape[-1] == 1)
        if found.channels is not None:
            assert_sums(found.channels, r.T, c.T)
    whole = [np.isfinite(side) & (np.rint(side) != side) for side in (r, c)]
    assert (found.reference_whole, found.candidate_whole) == tuple(not broken.any() for broken in whole)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", [(5000, 300), (40_000, 40), (200, 8192), (3, 700_000), (1_500_000, 1)])
def test_large_tensors_sample_their_rows_for_the_channels(shape: tuple[int, int], engine: Engine) -> None:
    rng = np.random.default_rng(0)
    reference = rng.standard_normal(shape, np.float32)
    candidate = reference + np.float32(1e-3) * rng.standard_normal(shape, np.float32)
    found = sums_of(reference, candidate, engine)
    r, c = reference.astype(np.float64), candidate.astype(np.float64)
    together = found.rows_together
    assert found.rows is not None
    if shape[0] % together == 0:
        assert_sums(found.rows, *(side.reshape(-1, together * shape[1]) for side in (r, c)))
    assert found.rows.count.sum() == found.total.count == reference.size
    assert (found.channels is None) == (not 1 < shape[1] <= 65_536)
    if found.channels is not None:
        assert found.channels.count.min() >= 64
        assert_sums(found.channels, *(side[:: found.channel_rows].T for side in (r, c)))


def test_any_number_of_threads_gives_the_same_sums() -> None:
    rng = np.random.default_rng(0)
    reference, noise = rng.standard_normal((2, 3000, 1500), np.float32)
    tables = [sums_of(reference, reference + noise, threads=threads) for threads in (1, 2, 3)]
    for other in tables[1:]:
        assert other.total == tables[0].total
        for first, table in ((tables[0].rows, other.rows), (tables[0].channels, other.channels)):
            assert first is not None
            assert table is not None
            assert all(np.array_equal(getattr(first, name), getattr(table, name)) for name in FIGURES)


def test_windows_that_cut_rows_do_not_change_their_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    reference, noise = rng.standard_normal((2, 50, 100_000), np.float32)
    whole = sums_of(reference, reference + noise)
    monkeypatch.setattr(plan, "WINDOW_BYTES", 1 << 19)
    turned = ArraySource(np.asfortranarray(reference))
    cut = scan_pair(turned, ArraySource(reference + noise)).sums
    assert whole.rows is not None
    assert cut.rows is not None
    for name in FIGURES:
        np.testing.assert_allclose(getattr(cut.rows, name), getattr(whole.rows, name), rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_slope_of_a_millionth_comes_out_exact_to_a_billionth(engine: Engine) -> None:
    rng = np.random.default_rng(0)
    reference = rng.standard_normal((512, 2048))
    candidate = reference * (1 + 1e-6) + 1e-4 * rng.standard_normal(reference.shape)
    total = sums_of(reference.astype(np.float32), candidate.astype(np.float32), engine).total
    r, d = (side.astype(np.float32).astype(np.float64) for side in (reference, candidate))
    d = d - r
    assert total.rd / total.rr == pytest.approx(float((r * d).sum() / (r * r).sum()), abs=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_whole_numbers_are_told_from_others(engine: Engine, dtype: str) -> None:
    whole = np.random.default_rng(0).integers(-100, 100, (60, 70)).astype(np.float32).astype(from_name(dtype))
    broken = whole.copy()
    broken[59, 69] = 0.5
    found = sums_of(whole, broken, engine)
    assert (found.reference_whole, found.candidate_whole) == (True, False)


@pytest.mark.parametrize("types", [("int32", "int32"), ("bool", "bool"), ("complex64", "complex64")])
def test_whole_and_complex_types_have_no_rows(types: tuple[str, str]) -> None:
    reference, candidate = arrays(Recipe(1, 60, 0, None, 1.0, 0.0), *types)
    found = sums_of(reference.reshape(6, 10), candidate.reshape(6, 10))
    assert found.rows is found.channels is None
    assert found.total.count == 60


def test_short_rows_share_an_entry_only_in_large_tensors() -> None:
    assert row_plan((100, 64)).together == 1
    assert row_plan((100, 4)).together == 4
    assert row_plan((100_000, 64)).together == 8
    assert row_plan((5,)).together == 1
    assert row_plan(()).group == 1
