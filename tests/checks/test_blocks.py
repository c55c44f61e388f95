"""Tensors that are read in many blocks are judged as if they were read at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import firstdiff as fd
from firstdiff.checks import blocks, rows

VALUES = arrays(np.int8, array_shapes(max_dims=3, max_side=6), elements=st.integers(-2, 2))


@pytest.fixture(params=[1, 3, 7])
def small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (blocks, rows):
        monkeypatch.setattr(module, "BLOCK", request.param)


def broken_rows(array: np.ndarray, rule: dict[str, Any]) -> tuple[int, tuple[int, ...] | None]:
    report = fd.check({"x": array}, [{"name": "x", **rule}])
    return (report.failures[0].count, report.failures[0].index) if report.failures else (0, None)


def plainly(array: np.ndarray, axis: int, fails: Any) -> int:
    lines = np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])
    return sum(bool(fails(line)) for line in lines)


RULES = {
    "sum": lambda line: line.sum() != 1,
    "norm": lambda line: abs(np.sqrt((line.astype(float) ** 2).sum()) - 1) > 1e-6,
    "unique": lambda line: len(set(line.tolist())) < len(line),
    "no_constant_rows": lambda line: len(set(line.tolist())) == 1,
    "monotone": lambda line: (np.diff(line.astype(int)) < 0).any(),
}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("check", RULES)
def test_rows_in_pieces_fail_as_whole_rows_do(check: str) -> None:
    @settings(max_examples=40, deadline=None)
    @given(VALUES, st.data())
    def holds(array: np.ndarray, data: st.DataObject) -> None:
        axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
        if check == "no_constant_rows" and array.shape[axis] < 2:
            return
        extra = {"direction": "up"} if check == "monotone" else {}
        count, _ = broken_rows(array.astype(np.float64), {"check": check, "axis": axis, **extra})
        assert count == plainly(array, axis, RULES[check])

    holds()


@pytest.mark.usefixtures("small_blocks")
def test_the_deviation_of_rows_in_pieces_is_that_of_whole_rows() -> None:
    array = np.random.default_rng(1).normal(size=(3, 11)) * 0.01
    (failure,) = fd.check({"x": array}, [{"name": "x", "check": "not_uniform"}]).failures
    assert failure.value == pytest.approx(array.std(axis=-1).mean(), rel=1e-12)
    assert failure.index == (int(array.std(axis=-1).argmin()), 0)


@pytest.mark.usefixtures("small_blocks")
def test_the_first_element_out_of_order_is_named_across_pieces() -> None:
    array = np.array([[1.0, 2, 3, 4, 5], [1, 2, 3, 2.5, 0]])
    rule = {"name": "x", "check": "monotone", "axis": 1, "direction": "up"}
    (failure,) = fd.check({"x": array}, [rule]).failures
    assert (failure.index, failure.value, failure.count) == ((1, 3), 2.5, 1)


def test_long_tensors_are_not_held_in_memory(tmp_path) -> None:
    import tracemalloc

    path = tmp_path / "x.npy"
    np.save(path, np.full((4, 4_000_000), 0.25, np.float32))
    rules = [
        {"name": "x", "check": "finite"},
        {"name": "x", "check": "sum", "axis": 0},
        {"name": "x", "check": "range", "max": 1},
    ]
    tracemalloc.start()
    assert fd.check(path, rules).passed
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6  # the tensor has 64 MB
