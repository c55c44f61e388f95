from __future__ import annotations

import time

import numpy as np
import pytest

from firstdiff.align import Alignment, Solution, layout_rule, solve, solve_fused, solve_shards
from firstdiff.trace import ArraySource
from tests.align.cases import random_case


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def source(array: np.ndarray) -> ArraySource:
    return ArraySource(np.ascontiguousarray(array))


def hinted(reference: np.ndarray, candidate: np.ndarray, *recipes: str, search: bool = False) -> Solution:
    hints = [Alignment.parse(recipe) for recipe in recipes]
    return solve(source(reference), source(candidate), hints=hints, strategies=None if search else ())


X = normal(8, 76, 64)


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_a_hint_that_fits_says_what_the_search_would_have_said(first: int) -> None:
    for case in map(random_case, range(first, first + 20)):
        sides = ArraySource(case.reference), ArraySource(case.candidate)
        found = solve(*sides)
        assert found.alignment is not None
        again = solve(*sides, hints=[found.alignment], strategies=())
        assert str(again.alignment) == str(found.alignment), str(case)
        assert (again.fits, again.cause, again.forced, again.coverage) == (
            found.fits,
            found.cause,
            found.forced,
            found.coverage,
        ), str(case)


def test_a_hint_needs_no_search() -> None:
    solution = hinted(X, X.swapaxes(0, 1), "a b c -> (a b) c", "a b c -> b a c")
    assert str(solution.alignment) == "a b c -> b a c"
    assert solution.fits
    assert solution.proven
    assert solution.confidence > 0.9
    assert solution.tried == ()


def test_identity_comes_before_any_hint() -> None:
    square = normal(12, 12, 5)
    assert hinted(square, square, "a b c -> b a c").is_identity


def test_a_hint_for_equal_shapes_is_still_no_match() -> None:
    square = normal(12, 12, 5)
    solution = hinted(square, square.swapaxes(0, 1), "a b c -> b a c")
    assert (solution.cause, solution.fits) == ("layout.transpose", True)
    assert not layout_rule(solution).may_match


def test_hints_that_do_not_apply_leave_the_search_as_it_is() -> None:
    solution = hinted(X, X.swapaxes(0, 1), "[0:99]", "a b -> b a", "concat(axis=0)", search=True)
    assert str(solution.alignment) == "a b c -> b a c"
    assert not solution.proven
    assert solution.fits


def test_unrelated_values_are_measured_through_the_recipe_of_other_rows() -> None:
    solution = hinted(X, normal(76, 8, 64, seed=2), "a b c -> b a c", search=True)
    assert str(solution.alignment) == "a b c -> b a c"
    assert not solution.fits
    assert solution.proven
    assert solution.confidence == 0.0
    assert solution.notes == ("the values fit no layout; this is the recipe of other rows of these shapes",)
    assert layout_rule(solution).may_match


def test_of_several_hints_the_one_with_the_most_similar_values_stands_in() -> None:
    x = normal(6, 6, 64)
    noisy = x.transpose(2, 1, 0) + 0.3 * normal(64, 6, 6, seed=2)
    solution = hinted(x, noisy, "a b c -> b c a", "a b c -> c b a")
    assert str(solution.alignment) == "a b c -> c b a"
    assert not solution.fits


def test_a_wrong_hint_does_not_hide_the_layout_that_still_shows() -> None:
    x = normal(6, 6, 64)
    noisy = x.transpose(2, 1, 0) + 0.2 * normal(64, 6, 6, seed=2)
    solution = hinted(x, noisy, "a b c -> b c a", search=True)
    assert str(solution.alignment) == "a b c -> c b a"
    assert not solution.proven


def test_equal_shapes_with_other_values_stay_identity_whatever_the_hints() -> None:
    solution = hinted(normal(12, 12, 5), normal(12, 12, 5, seed=2), "a b c -> b a c")
    assert solution.is_identity
    assert not solution.proven


def test_equal_shapes_that_are_alike_only_through_a_hint_are_measured_through_it() -> None:
    x = normal(12, 12, 5)
    solution = hinted(x, x.swapaxes(0, 1) + 0.1 * normal(12, 12, 5, seed=2), "a b c -> b a c")
    assert str(solution.alignment) == "a b c -> b a c"
    assert not solution.fits
    assert not layout_rule(solution).may_match


def test_sparse_values_do_not_prove_a_hint() -> None:
    rows = (np.random.default_rng(seed).integers(0, 500, 90) for seed in (0, 1))
    one, other = (np.eye(500, dtype=np.float32)[row] for row in rows)
    assert not hinted(one, other.T, "a b -> b a").fits


Q, K, V = (normal(16, 40, seed=seed) for seed in (1, 2, 3))


def test_fused_parts_are_found_by_hint() -> None:
    fused = source(np.concatenate([Q, K, V]).T)
    parts = [source(Q), source(K), source(V)]
    found = solve_fused([fused], parts)
    assert found.alignment is not None
    again = solve_fused([fused], parts, hints=[found.alignment], strategies=())
    assert (again.alignment, again.fits, again.cause, again.forced) == (found.alignment, True, "layout.fused", True)


def test_fused_parts_in_another_order_are_no_match_even_by_hint() -> None:
    hint = Alignment.parse("pick(order=1 0 2) | concat(axis=0)")
    fused = source(np.concatenate([K, Q, V]))
    solution = solve_fused([fused], [source(Q), source(K), source(V)], hints=[hint], strategies=())
    assert (solution.fits, solution.cause, solution.forced) == (True, "layout.qkv_order", False)


def test_fused_parts_whose_values_differ_are_measured_through_the_hint() -> None:
    hint = Alignment.parse("concat(axis=0) | a b -> b a")
    solution = solve_fused([source(normal(40, 48, seed=9))], [source(Q), source(K), source(V)], hints=[hint])
    assert (solution.alignment, solution.fits, solution.proven) == (hint, False, True)
    assert solution.cause == "layout.fused"


def test_shards_are_found_by_hint() -> None:
    whole = normal(8, 32, 10)
    ranks = [source(part) for part in np.split(whole.swapaxes(0, 1), 4)]
    found = solve_shards([source(whole)], ranks)
    assert found.alignment is not None
    again = solve_shards([source(whole)], ranks, hints=[found.alignment], strategies=())
    assert (again.alignment, again.fits, again.cause, again.forced) == (
        found.alignment,
        True,
        found.cause,
        found.forced,
    )
    other = [source(normal(8, 8, 10, seed=seed)) for seed in range(4)]
    apart = solve_shards([source(whole)], other, hints=[found.alignment])
    assert (apart.alignment, apart.fits, apart.proven) == (found.alignment, False, True)


def test_copies_on_all_ranks_are_found_by_hint() -> None:
    whole = normal(8, 32, 10)
    ranks = [source(whole.swapaxes(0, 1))] * 3
    found = solve_shards([source(whole)], ranks)
    assert found.alignment is not None
    again = solve_shards([source(whole)], ranks, hints=[found.alignment], strategies=())
    assert (again.alignment, again.fits, again.cause, again.forced) == (
        found.alignment,
        True,
        found.cause,
        found.forced,
    )


def test_a_deadline_ends_the_search_and_is_said() -> None:
    sides = source(X), source(X.swapaxes(0, 1))
    late = solve(*sides, deadline=time.perf_counter())
    assert (late.alignment, late.fits, late.complete) == (None, False, False)
    assert solve(*sides, deadline=time.perf_counter() + 60).complete
    assert solve(*sides).complete


def test_identity_and_hints_are_tried_even_after_the_deadline() -> None:
    over = time.perf_counter()
    assert solve(source(X), source(X), deadline=over).fits
    by_hint = solve(source(X), source(X.swapaxes(0, 1)), hints=[Alignment.parse("a b c -> b a c")], deadline=over)
    assert by_hint.fits
    assert by_hint.complete
    apart = solve(source(X), source(normal(8, 76, 64, seed=2)), deadline=over)
    assert (apart.is_identity, apart.fits, apart.complete) == (True, False, False)


def test_a_deadline_holds_for_fused_and_sharded_tensors() -> None:
    over = time.perf_counter()
    fused = solve_fused([source(normal(40, 48, seed=9))], [source(Q), source(K), source(V)], deadline=over)
    assert (fused.fits, fused.complete) == (False, False)
    shards = solve_shards([source(normal(32, 40))], [source(Q), source(K)], deadline=over)
    assert (shards.fits, shards.complete) == (False, False)
