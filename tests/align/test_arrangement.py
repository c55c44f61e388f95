from __future__ import annotations

import numpy as np
import pytest

from firstdiff.align.arrangement import arrangement_of, natural_walks
from firstdiff.align.recipe import Recipe
from firstdiff.align.stride_search import Digit, Walk
from firstdiff.trace import ArraySource

D = Digit


@pytest.mark.parametrize(
    ("walk", "target", "source", "text", "cause", "natural"),
    [
        ((D(24, 1),), (4, 6), (4, 6), "identity", None, True),
        ((D(24, 1),), (4, 1, 6), (1, 4, 6), "1 a b -> a 1 b", None, True),
        ((D(24, 1),), (24,), (4, 6), "a b -> (a b)", "layout.reshape", True),
        ((D(24, 1),), (2, 3, 4), (6, 4), "(a=2 b) c -> a b c", "layout.reshape", True),
        ((D(24, 1),), (6, 4), (4, 6), "a b -> (a b) | (a=6 b) -> a b", "layout.reshape", False),
        ((D(32, 1),), (4, 8), (8, 4), "(a=4 b) c -> a (b c)", "layout.reshape", False),
        ((D(6, 1), D(4, 6)), (6, 4), (4, 6), "a b -> b a", "layout.transpose", True),
        ((D(6, 1), D(4, 6)), (24,), (4, 6), "a b -> (b a)", "layout.transpose", True),
        ((D(5, 6), D(4, 30), D(6, 1)), (5, 24), (4, 5, 6), "a b c -> b (a c)", "layout.transpose", True),
        ((D(10, 8), D(2, 1), D(4, 2)), (10, 8), (10, 8), "a (b=4 c) -> a (c b)", "layout.rope_interleave", False),
        ((D(8, 64), D(2, 1), D(32, 2)), (8, 64), (8, 64), "a (b=32 c) -> a (c b)", "layout.rope_interleave", False),
        (
            (D(8, 64), D(2, 16), D(2, 32), D(16, 1)),
            (8, 64),
            (8, 64),
            "a (b=2 c=2 d) -> a (c b d)",
            "layout.head_order",
            False,
        ),
        ((D(3, 4), D(8, 12), D(4, 1)), (96,), (96,), "(a=8 b=3 c) -> (b a c)", "layout.qkv_order", False),
        ((D(5, 4), D(8, 20), D(4, 1)), (160,), (160,), "(a=8 b=5 c) -> (b a c)", "layout.head_order", False),
        ((D(2, 1), D(1024, 2)), (2048,), (2048,), "(a=1024 b) -> (b a)", "layout.interleave", False),
        ((D(4, 6), D(3, 0), D(6, 1)), (12, 6), (4, 6), "a b -> (a r=3) b", "layout.repeat", True),
    ],
)
def test_a_walk_is_written_as_a_recipe_with_a_name(
    walk: Walk, target: tuple[int, ...], source: tuple[int, ...], text: str, cause: str | None, natural: bool
) -> None:
    found = arrangement_of(walk, target, source)
    assert str(Recipe(found.steps)) == text
    assert (found.cause, found.natural) == (cause, natural)
    array = np.arange(np.prod(source))
    made = Recipe(found.steps).apply([ArraySource(array.reshape(source))])
    strides = np.zeros([digit.size for digit in walk], int)
    for axis, digit in enumerate(walk):
        strides += (np.arange(digit.size) * digit.stride).reshape([-1 if at == axis else 1 for at in range(len(walk))])
    np.testing.assert_array_equal(made.view(), array[strides].reshape(target))


def test_the_plain_order_comes_first() -> None:
    assert list(natural_walks((4, 4, 6), (6, 4, 4))) == [(D(16, 1), D(6, 16)), (D(4, 1), D(4, 4), D(6, 16))]


def test_axes_that_cannot_be_cut_from_the_other_shape_are_left_out() -> None:
    assert list(natural_walks((6, 4), (4, 6))) == [(D(6, 1), D(4, 6))]


def test_axes_that_only_the_target_shows_are_ordered_too() -> None:
    assert (D(5, 24), D(16, 120), D(24, 1)) in list(natural_walks((5, 16, 24), (16, 120)))
