from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from firstdiff.ops import shaping as of
from tests.ops.oracle import assert_agrees, double, values

X = values(1, 3, 4, 6)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_joining_is_torchs(dim: int) -> None:
    parts = [values(n, 3, 4, 6) for n in range(3)]
    assert_agrees(of.cat(parts, dim=dim), torch.cat([double(part) for part in parts], dim))
    assert_agrees(of.stack(parts, dim=dim), torch.stack([double(part) for part in parts], dim))


def test_an_empty_vector_joins_anything() -> None:
    np.testing.assert_array_equal(of.cat([np.zeros(0), X], dim=1), X)
    assert of.cat([np.zeros(0), np.zeros(0)]).shape == (0,)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_taking_apart_is_torchs(dim: int, count: int) -> None:
    for found, wanted in (
        (of.chunk(X, chunks=count, dim=dim), torch.chunk(double(X), count, dim)),
        (of.split(X, size=count, dim=dim), torch.split(double(X), count, dim)),
        (of.unbind(X, dim=dim), torch.unbind(double(X), dim)),
    ):
        assert len(found) == len(wanted)
        for ours, theirs in zip(found, wanted, strict=True):
            assert_agrees(ours, theirs)


def test_parts_of_given_sizes() -> None:
    found = of.split(X, size=[1, 3, 2], dim=2)
    for ours, theirs in zip(found, torch.split(double(X), [1, 3, 2], 2), strict=True):
        assert_agrees(ours, theirs)


@pytest.mark.parametrize(("shifts", "dims"), [(1, 0), (-2, 1), ([1, 2], [0, 2]), (5, None)])
def test_roll_and_flip_are_torchs(shifts: Any, dims: Any) -> None:
    assert_agrees(of.roll(X, shifts=shifts, dims=dims), torch.roll(double(X), shifts, dims))
    assert_agrees(of.flip(X, dims=[0, 2]), torch.flip(double(X), [0, 2]))


def test_choosing_is_torchs() -> None:
    chosen = np.random.default_rng(1).random(X.shape) < 0.5
    flag = torch.from_numpy(chosen)
    assert_agrees(of.where(chosen, X, 0.5), torch.where(flag, double(X), 0.5))
    assert_agrees(of.masked_fill(X, chosen, value=-np.inf), double(X).masked_fill(flag, -torch.inf))
    for dim in (0, 1, -1):
        index = np.random.default_rng(2).integers(0, X.shape[dim], (2, 3, 5))
        assert_agrees(of.gather(X, index, dim=dim), torch.gather(double(X), dim, torch.from_numpy(index)))
        line = index[0, 0]
        assert_agrees(of.index_select(X, line, dim=dim), torch.index_select(double(X), dim, torch.from_numpy(line)))


@pytest.mark.parametrize("diagonal", [-2, 0, 1])
def test_triangles_are_torchs(diagonal: int) -> None:
    assert_agrees(of.triangle(X, diagonal=diagonal), torch.tril(double(X), diagonal))
    assert_agrees(of.triangle(X, diagonal=diagonal, upper=True), torch.triu(double(X), diagonal))


@pytest.mark.parametrize("dim", [None, 0, 2])
def test_repeating_is_torchs(dim: int | None) -> None:
    assert_agrees(of.repeat_interleave(X, repeats=3, dim=dim), torch.repeat_interleave(double(X), 3, dim))


@pytest.mark.parametrize(
    ("pad", "mode"),
    [
        ([1, 2], "constant"),
        ([1, 2, 0, 3], "constant"),
        ([-1, -2, 2, 0], "constant"),
        ([1, 2], "reflect"),
        ([2, 1], "replicate"),
        ([2, 1], "circular"),
    ],
)
def test_padding_is_torchs(pad: list[int], mode: str) -> None:
    how = {"value": 7.0} if mode == "constant" else {}
    assert_agrees(of.pad(X, pad=pad, mode=mode, **how), functional.pad(double(X), pad, mode, **how))
