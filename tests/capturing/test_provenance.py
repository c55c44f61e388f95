from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.capturing.tensor_recorder import Origin, Provenance, covers, elements_of


def found(provenance: Provenance, tensor: torch.Tensor) -> Origin | None:
    return provenance.find(tensor)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.arange(24.0).reshape(2, 3, 4)


@pytest.fixture
def known(x: torch.Tensor) -> Provenance:
    provenance = Provenance()
    provenance.add(x, 7)
    return provenance


def test_the_same_tensor_is_found(known: Provenance, x: torch.Tensor) -> None:
    origin = known.find(x)
    assert origin is not None
    assert (origin.seq, origin.exact) == (7, True)
    assert known.find(x.detach()) == origin


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.transpose(0, 2),
        lambda x: x.reshape(6, 4),
        lambda x: x[1],
        lambda x: x[..., ::2],
        lambda x: x[0, 0, 0],
        lambda x: x.expand(5, 2, 3, 4),
        lambda x: x.view(torch.int32),
    ],
)
def test_a_view_is_found_as_a_view(known: Provenance, x: torch.Tensor, view: object) -> None:
    origin = known.find(view(x))  # type: ignore[operator]
    assert origin is not None
    assert (origin.seq, origin.exact) == (7, False)


def test_equal_values_in_other_memory_are_not_the_same(known: Provenance, x: torch.Tensor) -> None:
    assert known.find(x.clone()) is None


@pytest.mark.parametrize("write", [lambda x: x.add_(1), lambda x: x[0].zero_(), lambda x: x.view(-1).mul_(2)])
def test_a_tensor_that_was_written_to_is_not_the_same(known: Provenance, x: torch.Tensor, write: object) -> None:
    write(x)  # type: ignore[operator]
    assert known.find(x) is None
    assert known.find(x[0]) is None
    assert known.find(x.data) is None, "an alias with a counter of its own"


def test_memory_that_is_used_again_is_not_the_same() -> None:
    provenance = Provenance()
    matched = 0
    for number in range(2000):
        fresh = torch.full((64,), float(number))
        matched += provenance.find(fresh) is not None
        provenance.add(fresh, number)
        del fresh
    assert matched == 0


def test_what_is_gone_is_forgotten() -> None:
    provenance = Provenance()
    for number in range(3000):
        provenance.add(torch.empty(4), number)
    gc.collect()
    assert sum(map(len, provenance._entries.values())) < 600


def test_a_view_lives_on_when_the_recorded_object_is_gone() -> None:
    provenance = Provenance()
    recorded = torch.arange(6.0).reshape(2, 3)[:, :2]
    provenance.add(recorded, 1)
    view = recorded.t()
    del recorded
    origin = provenance.find(view)
    assert origin is not None
    assert origin.seq == 1


def test_other_parts_of_the_same_memory_are_not_views() -> None:
    whole = torch.arange(24.0).reshape(4, 6)
    left, right = whole.chunk(2, dim=1)
    provenance = Provenance()
    provenance.add(left, 1)
    assert provenance.find(right) is None
    assert provenance.find(whole) is None
    assert provenance.find(left.t()) is not None


def test_the_latest_of_several_is_meant(known: Provenance, x: torch.Tensor) -> None:
    known.add(x, 9)
    known.add(x[0], 11)
    assert known.find(x) == Origin(9, True, None, {})
    assert known.find(x[0]) == Origin(11, True, None, {})
    assert known.find(x[0, 0]) == Origin(11, False, None, {})
    assert known.find(x[1, 0]) == Origin(9, False, None, {})


def test_inference_tensors_are_told_apart_by_their_values() -> None:
    provenance = Provenance()
    with torch.inference_mode():
        x = torch.tensor([1.0, float("nan"), 3.0])
        provenance.add(x, 1, copy=x.clone().numpy())
        assert provenance.find(x) is not None
        assert provenance.find(x[:2]) is not None
        x.add_(1)
        assert provenance.find(x) is None
        unknown = torch.ones(3)
        provenance.add(unknown, 2)
        assert provenance.find(unknown) is None, "without a copy nothing can be said"


@pytest.mark.parametrize(
    "tensor", [torch.empty(0), torch.empty(2, device="meta"), torch.eye(3).to_sparse()], ids=["empty", "meta", "sparse"]
)
def test_tensors_without_memory_have_no_origin(tensor: torch.Tensor) -> None:
    provenance = Provenance()
    provenance.add(tensor, 1)
    assert provenance.find(tensor) is None


def touched(tensor: torch.Tensor, size: int) -> set[int]:
    """The elements of a storage of `size` floats that a tensor covers."""
    base = np.arange(size)
    steps = [step * base.itemsize for step in tensor.stride()]
    view = np.lib.stride_tricks.as_strided(base[tensor.storage_offset() :], tensor.shape, steps)
    return set(view.reshape(-1).tolist())


@st.composite
def strided(draw: st.DrawFn) -> torch.Tensor:
    """A view of one storage of 64 floats: slices, steps, transposes, expansions."""
    view = STORAGE.view(draw(st.sampled_from([(64,), (8, 8), (4, 4, 4), (2, 4, 8)])))
    for axis in range(view.ndim):
        start = draw(st.integers(0, view.shape[axis] - 1))
        stop = draw(st.integers(start + 1, view.shape[axis]))
        view = view[(slice(None),) * axis + (slice(start, stop, draw(st.integers(1, 2))),)]
    view = view.permute(draw(st.permutations(range(view.ndim))))
    return view.expand(2, *view.shape) if draw(st.booleans()) else view


STORAGE = torch.arange(64.0)


@settings(max_examples=300)
@given(strided(), strided())
def test_a_view_covers_only_elements_of_its_origin(outer: torch.Tensor, inner: torch.Tensor) -> None:
    if covers(elements_of(outer), elements_of(inner)):
        assert touched(inner, 64) <= touched(outer, 64)


@settings(max_examples=200)
@given(strided(), st.randoms(use_true_random=False))
def test_reordered_axes_cover_the_same_elements(view: torch.Tensor, random: object) -> None:
    axes = list(range(view.ndim))
    random.shuffle(axes)  # type: ignore[attr-defined]
    assert covers(elements_of(view), elements_of(view.permute(axes)))
