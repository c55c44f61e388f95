from __future__ import annotations

import numpy as np
import pytest
import torch

from firstdiff.ops.normalise import normalise, standardise
from tests.ops.oracle import assert_agrees, double, values

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def test_images_are_normalised_by_channel() -> None:
    x = np.random.default_rng(1).integers(0, 256, (2, 3, 4, 5)).astype(np.uint8)
    mean, std = (torch.tensor(item, dtype=torch.float64).reshape(3, 1, 1) for item in (MEAN, STD))
    assert_agrees(normalise(x, MEAN, STD, rescale=1 / 255), (double(x) / 255 - mean) / std)


def test_one_number_may_do_for_all() -> None:
    x = values(1, 2, 7)
    assert_agrees(normalise(x, 0.5, np.array([2.0])), (double(x) - 0.5) / 2)
    assert_agrees(normalise(x, np.arange(7.0), np.full(7, 2.0), axis=-1), (double(x) - torch.arange(7.0)) / 2)


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("outside", [False, True])
def test_values_are_standardised_by_their_own_statistics(unbiased: bool, outside: bool) -> None:
    x = values(1, 2, 50, scale=4.0)
    std, mean = torch.std_mean(double(x), -1, correction=int(unbiased), keepdim=True)
    width = std + 0.1 if outside else torch.sqrt(std**2 + 0.1)
    assert_agrees(standardise(x, eps=0.1, unbiased=unbiased, eps_outside=outside), (double(x) - mean) / width)
