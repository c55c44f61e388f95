"""Embeddings, sorting and index operators against torch, and as modules record them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from firstdiff.ops import NotReplayable
from firstdiff.ops.indexing import argmax, embedding, index_add, one_hot, sort, topk
from tests.ops.captured import assert_reproduced, operation
from tests.ops.oracle import DTYPES, assert_agrees, double, values


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3)], ids=str)
def test_rows_are_torchs(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    rows = np.random.default_rng(1).integers(0, 7, shape)
    weight = values(2, 7, 4, dtype=dtype)
    assert_agrees(embedding(rows, weight), functional.embedding(torch.tensor(rows), double(weight)))


def test_scale_and_offset() -> None:
    weight = values(2, 7, 4)
    np.testing.assert_allclose(embedding(np.array([0, 3]), weight, scale=2.0, offset=2), weight[[2, 5]] * 2)


def test_long_rows_are_shortened_to_max_norm() -> None:
    rows, weight = np.arange(7), values(2, 7, 4)
    wanted = functional.embedding(torch.tensor(rows), double(weight), max_norm=1.5)
    assert_agrees(embedding(rows, weight, max_norm=1.5), wanted, 1e-7)


@pytest.mark.parametrize("row", [-1, 7])
def test_a_row_that_is_not_there_is_an_error_and_not_another_row(row: int) -> None:
    with pytest.raises(ValueError, match=f"row {row} is not among the 7"):
        embedding(np.array([1, row]), values(2, 7, 4))


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


IDS = torch.tensor([[1, 4, 2], [0, 0, 6]])


class ScaledWordEmbedding(nn.Embedding):
    def __init__(self) -> None:
        super().__init__(7, 4)
        self.embed_scale = 2.0

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return super().forward(ids) * self.embed_scale


class PositionalEmbedding(nn.Embedding):
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.weight[: ids.shape[-1]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_come_out_exactly(tmp_path: Path, dtype: torch.dtype) -> None:
    again = assert_reproduced(operation(nn.Embedding(7, 4, padding_idx=0).to(dtype), tmp_path, IDS), "embedding")
    assert again.residual == 0


def test_a_scale_in_an_attribute_is_found(tmp_path: Path) -> None:
    assert_reproduced(operation(ScaledWordEmbedding(), tmp_path, IDS), "embedding", scale=2.0)


def test_positions_are_not_taken_for_rows(tmp_path: Path) -> None:
    assert isinstance(operation(PositionalEmbedding(7, 4), tmp_path, IDS).reproduce(), NotReplayable)
