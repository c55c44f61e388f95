"""Tensors that are others in another shape, in another order of axes, or in part."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from firstdiff.trace.views import view_of

SOURCE = np.random.default_rng(0).standard_normal((2, 4, 6, 8)).astype(np.float32)
OTHER = np.random.default_rng(1).standard_normal((2, 4, 6, 8)).astype(np.float32)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x.reshape(8, 48),
        lambda x: x.transpose(0, 2, 1, 3),
        lambda x: x.transpose(0, 2, 1, 3).reshape(2, 6, 32),  # heads joined
        lambda x: x.reshape(2, 24, 8).reshape(2, 6, 4, 8).transpose(0, 2, 1, 3),  # heads split
        lambda x: x[:, :, 0],
        lambda x: x[..., 3:5],
        lambda x: x[:, 1:2],
        lambda x: np.repeat(x, 3, axis=1),  # keys that several heads share
        lambda x: np.repeat(x.reshape(2, 24, 8).reshape(2, 6, 4, 8).transpose(0, 2, 1, 3), 2, axis=1).swapaxes(2, 3),
    ],
)
def test_views_are_found_and_repeated(view: Callable[[np.ndarray], np.ndarray]) -> None:
    found = view_of(SOURCE, view(SOURCE))
    assert found is not None
    assert np.array_equal(found(OTHER), view(OTHER))


def test_other_values_are_no_view() -> None:
    assert view_of(SOURCE, OTHER) is None
    assert view_of(SOURCE, OTHER[:, 0]) is None


def test_a_part_that_may_be_two_is_not_chosen() -> None:
    """A candidate may be right in one and wrong in the other."""
    twice = np.concatenate([SOURCE, SOURCE], axis=2)
    assert view_of(twice, SOURCE[:, :, 0]) is None
