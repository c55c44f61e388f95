from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.align.recipe import lazy
from firstdiff.align.sampling import SampledPair
from firstdiff.align.stride_search import Budget, Digit, Walk, WalkSearch, divisors, merged, primes
from firstdiff.trace import ArraySource


def walks(reference: np.ndarray, candidate: np.ndarray) -> list[Walk]:
    pairs = SampledPair.of(lazy(ArraySource(reference)), lazy(ArraySource(candidate)))
    return WalkSearch(pairs[0], frozenset(), budget=Budget(100)).walks()


def test_a_transpose_walks_along_the_other_axis() -> None:
    x = np.random.default_rng(0).standard_normal((30, 20))
    assert walks(np.ascontiguousarray(x.T), x) == [(Digit(20, 1), Digit(30, 20))]


def test_unrelated_values_have_no_walk() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 30, 20))
    assert walks(x, y) == []


def test_values_that_repeat_are_walked_in_place() -> None:
    x = np.random.default_rng(0).standard_normal((4, 6))
    assert walks(np.repeat(x, 3, axis=0), x) == [(Digit(4, 6), Digit(3, 0), Digit(6, 1))]


def test_a_damaged_beginning_does_not_hide_the_walk() -> None:
    x = np.random.default_rng(0).standard_normal((8, 30, 20))
    y = np.ascontiguousarray(x.transpose(1, 0, 2))
    y[0] = np.nan
    assert walks(x, y) == [(Digit(8, 20), Digit(30, 160), Digit(20, 1))]


@settings(max_examples=60)
@given(st.lists(st.integers(2, 7), min_size=1, max_size=6), st.data())
def test_any_order_of_axes_is_found(shape: list[int], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    x = np.random.default_rng(0).standard_normal(shape)
    y = np.ascontiguousarray(x.transpose(order))
    strides = [stride // x.itemsize for stride in x.strides]
    assert merged(tuple(Digit(shape[axis], strides[axis]) for axis in order)) in walks(y, x)


@pytest.mark.parametrize(
    ("number", "factors", "all_divisors"),
    [(1, (), (1,)), (12, (2, 3), (1, 2, 3, 4, 6, 12)), (50261, (50261,), (1, 50261)), (49, (7,), (1, 7, 49))],
)
def test_divisors_come_in_order(number: int, factors: tuple[int, ...], all_divisors: tuple[int, ...]) -> None:
    assert primes(number) == factors
    assert divisors(number) == all_divisors
