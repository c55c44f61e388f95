from __future__ import annotations

import enum
import json
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.capturing.arguments import is_scalar, parts_of_call, parts_of_value, scalar


class Leaf:
    """Stands for a tensor."""


def is_leaf(value: Any) -> bool:
    return isinstance(value, Leaf)


def test_arguments_are_slots_by_position_and_by_name() -> None:
    a, b, c = Leaf(), Leaf(), Leaf()
    parts = parts_of_call((a, 3, [b]), {"mask": c, "eps": 0.5, "none": None}, is_leaf)
    assert parts.tensors == [("0", a), ("2.0", b), ("mask", c)]
    assert parts.scalars == {"1": 3, "eps": 0.5}


def test_a_container_that_holds_itself_ends() -> None:
    loop: list[Any] = [Leaf()]
    loop.append(loop)
    slots = [slot for slot, _ in parts_of_value(loop, is_leaf).tensors]
    assert slots[:2] == ["0", "1.0"]
    assert len(slots) < 20


class Kind(enum.Enum):
    CAUSAL = 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((plain, plain) for plain in (None, True, 3, 0.5, "text")),
        ((1, 2), [1, 2]),
        ([1.5, None], [1.5, None]),
        (torch.Size([2, 3]), [2, 3]),
        (torch.float16, "float16"),
        (torch.device("cpu"), "cpu"),
        (torch.nn.functional.silu, "silu"),
        (torch.relu, "relu"),
        (Kind.CAUSAL, "CAUSAL"),
    ],
)
def test_what_can_be_told_in_a_word(value: Any, expected: Any) -> None:
    assert is_scalar(value)
    assert scalar(value) == expected
    json.dumps(scalar(value))


@pytest.mark.parametrize("value", [object(), "x" * 500, list(range(100)), [[1]], {"a": 1}, torch.ones(1), Leaf])
def test_what_cannot(value: Any) -> None:
    assert not is_scalar(value)


nested = st.recursive(
    st.builds(Leaf) | st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=150)
@given(nested)
def test_slots_have_no_marks_of_keys_in_them(value: Any) -> None:
    parts = parts_of_value(value, is_leaf)
    assert not any(mark in slot for slot, _ in parts.tensors for mark in "@:#")
    assert not any(mark in slot for slot in parts.scalars for mark in "@:#")
