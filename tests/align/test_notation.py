from __future__ import annotations

import pytest

from firstdiff.align.notation import bind, parse_pattern, parse_side
from firstdiff.errors import UsageError


@pytest.mark.parametrize(
    "text",
    [
        "b s h d -> s (b h) d",
        "1 a b -> b a",
        "a (b=8 c) -> a b c",
        "... (d two=2) -> ... (two d)",
        "a -> a 1",
        "a -> a r=4",
    ],
)
def test_a_pattern_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_pattern(text)) == text


def test_spaces_do_not_matter() -> None:
    assert parse_pattern("a(b  c)->( c a )b") == parse_pattern("a (b c) -> (c a) b")


def test_sizes_come_from_the_shape() -> None:
    bound = bind(parse_pattern("b s (h=8 d) 1 -> s (b h) d"), (2, 5, 64, 1))
    assert bound.sizes == {"b": 2, "s": 5, "h": 8, "d": 8}
    assert bound.shape == (5, 16, 8)


def test_the_rest_stands_for_any_number_of_axes() -> None:
    pattern = parse_pattern("... (d two=2) -> ... (two d)")
    assert bind(pattern, (3, 4, 6)).shape == (3, 4, 6)
    assert bind(pattern, (6,)).shape == (6,)


def test_a_unit_axis_may_be_written_as_an_empty_group() -> None:
    assert parse_side("a () b") == parse_side("a 1 b")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a b", "one arrow"),
        ("a -> b -> c", "one arrow"),
        ("a b -> b", "axis 'a' of 'a b -> b' is lost on the right"),
        ("a b -> b a c", "axis 'c' of 'a b -> b a c' is new on the right; say how often"),
        ("(a b -> b a", "not closed"),
        ("a) b -> b a", "')' is out of place"),
        ("((a b)) -> a b", "groups do not nest"),
        ("a a -> a", "'a' stands twice"),
        ("a 12 -> a", "'12' in 'a 12' is neither an axis, a group (h d) nor 1"),
        ("a, b -> b a", "',' in 'a, b'"),
        ("a=0 b -> b a", "sizes start at 1"),
        ("a b -> ... a b", "on the right only"),
        ("... a -> a", "'...' of '... a -> a' is lost on the right"),
    ],
)
def test_nonsense_is_named_in_one_sentence(text: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pattern(text)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("a b -> b a", (2, 3, 4), "'a b -> b a' takes 2 axes, but the tensor has 3: [2, 3, 4]"),
        ("... a b -> ... b a", (2,), "'... a b -> ... b a' takes 2 axes, but the tensor has 1: [2]"),
        ("1 a -> a", (2, 3), "axis 0 of [2, 3] is 2, but '1 a -> a' wants 1 there"),
        ("(a b) -> a b", (6,), "axis 0 of [6] is 6, which does not tell a and b of '(a b) -> a b'; write a=8"),
        ("(a=4 b) -> a b", (6,), "axis 0 of [6] is 6, which the 4 that '(a=4 b) -> a b' wants there does not divide"),
        ("a=4 b -> b a", (3, 2), "axis 0 of [3, 2] is 3, but 'a=4 b -> b a' wants 4 there"),
    ],
)
def test_what_does_not_fit_the_shape_is_said(text: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        bind(parse_pattern(text), shape)
    assert str(caught.value) == message
