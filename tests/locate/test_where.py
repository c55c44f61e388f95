from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.locate.where import profile_of, where_of
from firstdiff.schema import Tolerance, Where
from firstdiff.trace import ArraySource, Record, Tensor, Trace
from tests.locate.compared import rows_of


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def where(reference: np.ndarray, candidate: np.ndarray, dims: str | None = None) -> Where | None:
    record = Record(name="x", dims=dims)
    sides = [Trace("t", (Tensor(record, ArraySource(values)),)) for values in (reference, candidate)]
    return where_of(rows_of(*sides)[0])


def text(shape: tuple[int, ...], at: Any, dims: str | None = None) -> str:
    """Return the reported location of elements that are off by about a tenth, on top of noise everywhere."""
    reference = noise(*shape)
    candidate = reference * np.float32(1 + 1e-7)
    candidate[at] += np.float32(0.1) * (1 + np.abs(candidate[at]))
    found = where(reference, candidate, dims)
    assert found is not None
    return found.text


@pytest.mark.parametrize(
    ("shape", "at", "said"),
    [
        ((2, 8, 64), np.s_[..., 3], "all of the error is in channel 3 of the last axis"),
        ((2, 8, 16, 16), np.s_[:, 5], "all of the error is in index 5 of axis 1"),
        ((2, 40, 8), np.s_[:, 30:], "all of the error is in indices >= 30 of axis 1"),
        ((2, 40, 8), np.s_[:, :4], "all of the error is in indices < 4 of axis 1"),
        ((4, 10, 8), np.s_[-1], "all of the error is in the last row (3) of the first axis"),
        ((4, 10, 64), np.s_[..., 1::2], "all of the error is in every 2nd channel from 1 on of the last axis"),
        ((4, 10, 64), np.s_[..., ::3], "all of the error is in every 3rd channel from 0 on of the last axis"),
        ((3, 40, 40), np.s_[:, 8:16, 20:30],
         "all of the error is in indices 8 to 15 of axis 1, channels 20 to 29 of the last axis"),
        ((40,), np.s_[[3, 17, 18, 20, 33]], "all of the error is in indices 3, 17, 18, 20 and 33 of its only axis"),
        ((4, 5, 6), np.s_[1, 2, 3], "a single element, at index [1, 2, 3]"),
        ((4, 5, 60), np.s_[1, 2, [3, 40]], "2 elements, the first at index [1, 2, 3]"),
        ((4, 5, 6), np.s_[:], "spread over the whole tensor: 100 % of the elements differ"),
        ((2, 9, 9), np.s_[:, range(9), range(9)], "all of the error is on the diagonal of the last two axes"),
        ((2, 9, 9), np.s_[:, range(8), range(1, 9)],
         "all of the error is on the diagonal 1 above the main one, of the last two axes"),
    ],
)  # fmt: skip
def test_the_place_is_named(shape: tuple[int, ...], at: Any, said: str) -> None:
    assert text(shape, at) == said


def test_what_lies_behind_a_causal_mask_is_named() -> None:
    rows, columns = np.triu_indices(12, 1)
    assert text((2, 12, 12), np.s_[:, rows, columns]).startswith("all of the error is above the diagonal")
    assert text((2, 12, 12), np.s_[:, columns, rows]).startswith("all of the error is below the diagonal")


def test_declared_axes_give_the_words() -> None:
    assert text((2, 40, 8), np.s_[:, 30:], "b s d") == "all of the error is in tokens >= 30 of axis 1"
    assert text((2, 4, 6, 8), np.s_[:, 2], "b heads s d") == "all of the error is in head 2 of axis 1"
    assert text((2, 4, 6), np.s_[:, 2], "b gate d") == "all of the error is in gate 2 of axis 1"


def test_most_of_an_error_in_one_channel_is_still_named() -> None:
    reference = noise(8, 16, 64)
    candidate = reference + np.float32(1e-4)
    candidate[..., 7] += 1
    found = where(reference, candidate)
    assert found is not None
    assert found.text.endswith("of the error is in channel 7 of the last axis")
    (dim,) = found.dims
    assert (dim.dim, dim.indices) == (2, (7,))
    assert 0.95 < dim.share < 1


def test_outlier_channels_do_not_hide_an_error_that_is_everywhere() -> None:
    reference = noise(4, 16, 64)
    reference[..., 9] *= 1000
    found = where(reference, reference * np.float32(1.01))
    assert found is not None
    assert found.text.startswith("spread over the whole tensor")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", ">f4", "complex64", "int32", "bool"])
def test_every_type(dtype: str) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    reference = (np.arange(96).reshape(4, 24) % 2).astype(kind)
    candidate = reference.copy()
    candidate[:, 5] = 1 - candidate[:, 5].astype(np.int64) if dtype != "complex64" else 2j
    found = where(reference, candidate)
    assert found is not None
    assert "channel 5 of the last axis" in found.text


def test_nan_is_placed_by_itself() -> None:
    reference = noise(4, 24)
    candidate = reference + 1
    candidate[2] = np.nan
    found = where(reference, candidate)
    assert found is not None
    assert found.text == "all of what is not finite is in row 2 of the first axis"


@pytest.mark.parametrize("shape", [(0, 4), ()])
def test_nothing_to_place(shape: tuple[int, ...]) -> None:
    found = where(np.zeros(shape), np.ones(shape))
    assert (None if found is None else found.text) == (None if 0 in shape else "a single element, at index []")


@settings(deadline=None, max_examples=40)
@given(
    shape=st.lists(st.integers(1, 7), min_size=1, max_size=4).map(tuple),
    share=st.floats(0, 1),
    window=st.sampled_from([1, 6, 64]),
    seed=st.integers(0, 9),
)
def test_windows_give_the_sums_of_the_whole(shape: tuple[int, ...], share: float, window: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    reference = rng.standard_normal(shape)
    candidate = reference + (rng.random(shape) < share)
    tolerance = Tolerance(rule="stated", atol=0.5, rtol=0.0)
    import firstdiff.locate.where as module

    before, module._WINDOW = module._WINDOW, window
    try:
        found = profile_of((ArraySource(reference), ArraySource(candidate)), None, tolerance)
    finally:
        module._WINDOW = before
    whole = (candidate - reference) / 0.5
    assert found.elements == np.count_nonzero(whole)
    for axis, sums in enumerate(found.axes):
        others = tuple(other for other in range(len(shape)) if other != axis)
        np.testing.assert_allclose(sums, whole.sum(axis=others), atol=1e-9)
    if found.diagonals is not None:
        plane = whole.reshape(-1, *shape[-2:]).sum(axis=0)
        offsets = range(1 - shape[-2], shape[-1])
        np.testing.assert_allclose(found.diagonals, [np.trace(plane, offset) for offset in offsets], atol=1e-9)
