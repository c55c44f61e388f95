from __future__ import annotations

import numpy as np
import pytest

from firstdiff.align import Alignment
from firstdiff.errors import UsageError
from firstdiff.trace import ArraySource


@pytest.mark.parametrize(
    "text",
    ["identity", "b s -> s b", "reference: [:, 0:8]", "reference: [:, 0:8]; candidate: b s -> s b"],
)
def test_an_alignment_is_written_as_it_was_read(text: str) -> None:
    assert str(Alignment.parse(text)) == text


def test_a_bare_recipe_is_for_the_candidate() -> None:
    assert Alignment.parse("b s -> s b") == Alignment.parse("candidate: b s -> s b")


def test_two_recipes_for_one_side_are_refused() -> None:
    with pytest.raises(UsageError, match="two recipes for the candidate"):
        Alignment.parse("b s -> s b; candidate: b s -> s b")


def test_both_sides_are_brought_into_one_layout() -> None:
    whole = np.arange(32.0).reshape(4, 8)
    alignment = Alignment.parse("reference: [:, 2:4]; candidate: b s -> s b")
    reference, candidate = alignment.apply([ArraySource(whole)], [ArraySource(whole[:, 2:4].T.copy())])
    np.testing.assert_array_equal(reference.view(), candidate.view())
    assert alignment.coverage([(4, 8)], [(2, 4)]) == (0.25, 1.0)
    assert alignment.moves == ("crop (reference)", "permute")


def test_recipes_that_lead_to_different_shapes_are_refused() -> None:
    with pytest.raises(UsageError, match=r"makes \[3, 2\] of the candidate, but the reference is \[2, 3\]"):
        Alignment.parse("a b -> b a").apply([ArraySource(np.zeros((2, 3)))], [ArraySource(np.zeros((2, 3)))])
