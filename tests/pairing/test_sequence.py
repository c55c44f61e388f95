from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from firstdiff.pairing.sequence import certain_pairs, increasing, unique_in_both

SCORES = st.sampled_from([-np.inf, 1.0, 1.5, 2.0])
TABLES = arrays.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=SCORES)


def every_alignment(scores: np.ndarray) -> list[tuple[float, frozenset[tuple[int, int]]]]:
    """All ways to pair elements without crossing, and what each is worth: the plain definition."""
    rows, columns = scores.shape
    found = []
    for count in range(min(rows, columns) + 1):
        for ours in combinations(range(rows), count):
            for theirs in combinations(range(columns), count):
                pairs = list(zip(ours, theirs, strict=True))
                found.append((sum(scores[pair] for pair in pairs), frozenset(pairs)))
    return found


@given(TABLES)
@settings(max_examples=200)
def test_certain_pairs_are_those_of_every_best_alignment(scores: np.ndarray) -> None:
    alignments = every_alignment(scores)
    best = max(worth for worth, _ in alignments)
    common = frozenset.intersection(*(pairs for worth, pairs in alignments if worth == best))
    assert set(certain_pairs(scores)) == common


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8, unique_by=(lambda t: t[0], lambda t: t[1]))
)
@settings(max_examples=200)
def test_increasing_keeps_the_most_pairs_that_do_not_cross(pairs: list[tuple[int, int]]) -> None:
    found = increasing(pairs)
    assert set(found) <= set(pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in combinations(found, 2))
    longest = max(
        len(some)
        for count in range(len(pairs) + 1)
        for some in combinations(sorted(pairs), count)
        if all(a[1] < b[1] for a, b in combinations(some, 2))
    )
    assert len(found) == longest


@pytest.mark.parametrize(
    ("ours", "theirs", "pairs"),
    [
        ("abc", "abc", [(0, 0), (1, 1), (2, 2)]),
        ("aab", "ab", [(2, 1)]),
        ("xay", "yax", [(0, 2)]),
        ("", "a", []),
    ],
)
def test_what_is_unique_in_both_keeps_its_order(ours: str, theirs: str, pairs: list[tuple[int, int]]) -> None:
    found = unique_in_both(ours, theirs)
    assert len(found) == len(pairs)
    assert all(ours[mine] == theirs[other] for mine, other in found)
