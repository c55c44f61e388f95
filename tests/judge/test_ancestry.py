from __future__ import annotations

import numpy as np
import pytest

from firstdiff import dtypes
from firstdiff.judge import coarsest_ancestors
from firstdiff.trace import ArraySource, Record, Role, Tensor


def tensor(name: str, dtype: str, role: Role = "output", **fields: object) -> Tensor:
    return Tensor(Record(name=name, role=role, **fields), ArraySource(np.zeros(2).astype(dtypes.from_name(dtype))))  # type: ignore[arg-type]


def names(*tensors: Tensor) -> list[str | None]:
    return [None if found is None else found.name for found in coarsest_ancestors(tensors)]


def test_what_is_named_in_from_is_inherited() -> None:
    chain = (
        tensor("linear", "bfloat16", seq=1),
        tensor("softmax", "float32", seq=2, sources=(1,)),
        tensor("sum", "float32", seq=3, sources=(2,)),
        tensor("other", "float32", seq=4, sources=(9,)),
    )
    assert names(*chain) == ["bfloat16", "bfloat16", "bfloat16", "float32"]


def test_without_from_it_is_what_the_call_was_given() -> None:
    found = names(
        tensor("attn.q", "bfloat16", seq=1),
        tensor("norm", "bfloat16", "input", seq=2, parent="attn", sources=(1,)),
        tensor("norm.pow", "float32", "input", slot="input", seq=3, parent="norm"),
        tensor("norm.pow", "float32", seq=4, parent="norm", sources=(3,)),
        tensor("norm", "float32", seq=5, parent="attn"),
    )
    assert found == ["bfloat16"] * 5


@pytest.mark.parametrize("role", ["param", "buffer"])
def test_weights_bring_no_noise(role: Role) -> None:
    assert names(tensor("w", "float16", role, seq=1), tensor("y", "float32", seq=2, sources=(1,))) == [
        "float16",
        "float32",
    ]


def test_what_the_model_was_given_brings_no_noise() -> None:
    given = tensor("root", "float16", "input", seq=1)
    assert names(given, tensor("conv", "float32", seq=2, sources=(1,))) == ["float16", "float32"]


def test_types_of_one_byte_are_not_computed_in() -> None:
    stored = tensor("x", "float8_e4m3fn", seq=1)
    assert names(stored, tensor("y", "float32", seq=2, sources=(1,))) == ["float8_e4m3fn", "float32"]


def test_whole_numbers_have_none() -> None:
    found = names(tensor("x", "bfloat16", seq=1), tensor("argmax", "int64", seq=2, sources=(1,)))
    assert found == ["bfloat16", None]
