from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from firstdiff.ops.selecting import argmax, index_add, one_hot, sort, topk
from tests.ops.oracle import assert_agrees, double, values

X = values(1, 3, 5, 4)


def same(found: tuple[np.ndarray, np.ndarray], wanted: tuple[torch.Tensor, torch.Tensor]) -> None:
    assert_agrees(found[0], wanted[0])
    np.testing.assert_array_equal(found[1], wanted[1].numpy())


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("down", [False, True])
def test_order_is_torchs(dim: int, down: bool) -> None:
    same(topk(X, k=2, dim=dim, largest=down), torch.topk(double(X), 2, dim, down))
    same(sort(X, dim=dim, descending=down), torch.sort(double(X), dim, down))


@pytest.mark.parametrize("down", [False, True])
def test_equals_stay_in_order_and_nan_is_the_greatest(down: bool) -> None:
    x = np.array([1.0, 0.0, 1.0, np.nan, 0.0, -np.inf])
    same(sort(x, descending=down), torch.sort(double(x), descending=down, stable=True))


def test_a_lone_number_is_in_order() -> None:
    same(sort(np.array(2.0)), torch.sort(torch.tensor(2.0, dtype=torch.float64)))


@pytest.mark.parametrize(("dim", "keepdim"), [(None, False), (0, True), (-1, False)])
def test_argmax_is_torchs(dim: int | None, keepdim: bool) -> None:
    np.testing.assert_array_equal(argmax(X, dim=dim, keepdim=keepdim), torch.argmax(double(X), dim, keepdim).numpy())


@pytest.mark.parametrize("classes", [-1, 7])
def test_one_hot_is_torchs(classes: int) -> None:
    numbers = np.array([[0, 3], [2, 3]])
    wanted = functional.one_hot(torch.from_numpy(numbers), classes)
    np.testing.assert_array_equal(one_hot(numbers, num_classes=classes), wanted.numpy())


def test_index_add_adds_as_often_as_it_is_told() -> None:
    index, source = np.array([0, 2, 0]), values(2, 3, 3, 4)
    wanted = torch.index_add(double(X), 1, torch.from_numpy(index), double(source), alpha=0.5)
    before = X.copy()
    assert_agrees(index_add(X, index, source, dim=1, alpha=0.5), wanted)
    np.testing.assert_array_equal(X, before)
