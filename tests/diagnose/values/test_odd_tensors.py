"""Healthy noise raises nothing, what is unknown stays unknown, and no tensor is too odd."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import firstdiff as fd
from tests.diagnose.values.planted import confidence_in, diagnosed, first_cause, noisy, normal

TYPES = [np.float32, np.float16, np.float64, ml_dtypes.bfloat16, np.int64, np.int8, np.bool_, np.complex64]


@given(
    shape=arrays.array_shapes(min_dims=1, max_dims=4, max_side=12), seed=st.integers(0, 99), size=st.floats(1e-6, 1e6)
)
@settings(max_examples=25)
def test_healthy_noise_raises_nothing(shape: tuple[int, ...], seed: int, size: float) -> None:
    values = normal(*shape, seed=seed) * np.float32(size)
    found = fd.compare({"x": values}, {"x": noisy(values, 1e-7, seed)})
    assert (found.verdict, found.diagnosis) == ("match", ())


@given(data=st.data(), dtype=st.sampled_from(TYPES), shape=arrays.array_shapes(min_dims=0, min_side=0, max_side=6))
@settings(max_examples=60)
def test_no_tensor_is_too_odd(data: st.DataObject, dtype: type, shape: tuple[int, ...]) -> None:
    """Whatever differs is told in numbers from 0 to 1, and no test fails on it (`diagnosed` sees to that)."""
    odd = st.sampled_from([0.0, 1.0, -1.0, 2.5, 1e30, -1e30, np.inf, -np.inf, np.nan, 1e-30])
    sides = [
        np.array(data.draw(st.lists(odd, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))).reshape(shape)
        for _ in range(2)
    ]
    with np.errstate(all="ignore"):
        made = [
            side.astype(dtype)
            if np.dtype(dtype).kind != "i"
            else np.nan_to_num(side, posinf=9, neginf=-9).clip(-100, 100).astype(dtype)
            for side in sides
        ]
    for one in diagnosed(*made):
        assert 0 <= one.confidence <= 0.99
        assert one.evidence
        assert one.fix


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (np.float32(2), np.float32(3)),
        (np.ones(1, np.float32), np.full(1, 2, np.float32)),
        (np.array([1.0, 2.0]), np.array([1.0, 5.0])),
    ],
    ids=["0-d", "one element", "two elements"],
)
def test_next_to_nothing_proves_nothing(reference: np.ndarray, candidate: np.ndarray) -> None:
    assert all(one.confidence < 0.5 for one in diagnosed(reference, candidate))


def test_an_empty_tensor_against_some() -> None:
    assert diagnosed(np.zeros((0, 3), np.float32), np.zeros((2, 3), np.float32)) == ()


def test_other_values_are_told_as_unrelated_and_not_surely() -> None:
    found = diagnosed(normal(2, 16, 64), normal(2, 16, 64, seed=4))
    assert found[0].cause == "values.uncorrelated"
    assert found[0].confidence < 0.5


def test_what_is_partly_right_is_not_unrelated() -> None:
    values = normal(2, 16, 64)
    found = diagnosed(values, values + normal(2, 16, 64, seed=4))
    assert confidence_in("values.uncorrelated", found) == 0.0


def test_one_element_off_has_no_known_cause_and_says_what_to_record() -> None:
    values = normal(4, 64)
    candidate = noisy(values)
    candidate[1, 2] = 9
    found = fd.compare({"x": values}, {"x": candidate})
    assert not [one for one in found.diagnosis if one.confidence > 0.5]
    assert any(note.code == "no_cause" and note.key == "x" and "record" in note.text for note in found.notes)


def test_a_constant_reference() -> None:
    found = diagnosed(np.full((4, 8), 2, np.float32), np.full((4, 8), 3, np.float32))
    assert {one.cause for one in found[:2]} == {"offset.constant", "scale.constant"}
    assert max(one.confidence for one in found) < 0.9


def test_a_reference_of_zeros() -> None:
    assert not [one for one in diagnosed(np.zeros((4, 8), np.float32), normal(4, 8)) if one.confidence > 0.9]


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize(("factor", "cause"), [(0, "values.zero"), (4, "scale.constant"), (-1, "sign.flip")])
def test_short_types_are_read_as_they_are(dtype: type, factor: float, cause: str) -> None:
    values = normal(4, 8, 16)
    assert first_cause(values.astype(dtype), (values * factor).astype(dtype)) == cause
