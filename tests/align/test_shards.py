from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from firstdiff.align import Solution, layout_rule, solve_shards
from firstdiff.errors import UsageError
from firstdiff.trace import ArraySource, Source


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def sources(arrays: list[np.ndarray]) -> list[Source]:
    return [ArraySource(np.ascontiguousarray(array)) for array in arrays]


def solved(references: list[np.ndarray], candidates: list[np.ndarray], **options: object) -> Solution:
    return solve_shards(sources(references), sources(candidates), **options)  # type: ignore[arg-type]


def residual(solution: Solution, references: list[np.ndarray], candidates: list[np.ndarray]) -> float:
    assert solution.alignment is not None
    reference, candidate = solution.alignment.apply(sources(references), sources(candidates))
    return float(np.abs(reference.view().astype(float) - candidate.view().astype(float)).max())


X = normal(8, 32)
Z = normal(2, 16, 8, 12)
PARTS = [normal(8, 32, seed=rank) for rank in range(4)]


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("mirrored", [False, True])
def test_shards_along_any_axis_are_put_together(ranks: int, axis: int, mirrored: bool) -> None:
    sides = [X], np.split(X, ranks, axis)
    references, candidates = sides[::-1] if mirrored else sides
    solution = solved(references, candidates)
    assert str(solution.alignment) == f"{'reference: ' if mirrored else ''}concat(axis={axis})"
    assert solution.cause == "layout.shard"
    assert solution.fits
    assert residual(solution, references, candidates) == 0
    assert layout_rule(solution).may_match


def test_uneven_shards_are_put_together() -> None:
    parts = [X[:, :10], X[:, 10:21], X[:, 21:]]
    solution = solved([X], parts)
    assert str(solution.alignment) == "concat(axis=1)"
    assert residual(solution, [X], parts) == 0


def test_shards_in_another_layout_are_put_together_and_turned() -> None:
    parts = [part.swapaxes(1, 2) for part in np.split(Z, 4, 2)]
    solution = solved([Z.reshape(2, 16, 96)], parts)
    assert str(solution.alignment) == "concat(axis=1) | a b c d -> a c (b d)"
    assert solution.forced
    assert residual(solution, [Z.reshape(2, 16, 96)], parts) == 0


def test_every_copy_is_compared() -> None:
    solution = solved([X], [X, X, X])
    assert str(solution.alignment) == "reference: ... -> r=3 ...; candidate: stack()"
    assert solution.notes == ("the 3 copies are equal at all 256 places looked at",)
    assert residual(solution, [X], [X, X, X]) == 0
    assert layout_rule(solution).may_match


def test_a_copy_that_deviates_is_named() -> None:
    off = X.copy()
    off[3, 3] += 0.5
    solution = solved([X], [X, off, X, X])
    assert solution.notes == ("the 4 copies differ: number 1 is up to 0.5 off number 0",)
    assert residual(solution, [X], [X, off, X, X]) == 0.5


def test_copies_of_another_tensor_are_still_copies() -> None:
    solution = solved([X], [PARTS[3]] * 3)
    assert str(solution.alignment) == "reference: ... -> r=3 ...; candidate: stack()"
    assert not solution.fits


@pytest.mark.parametrize("mirrored", [False, True])
def test_partial_sums_are_added_up(mirrored: bool) -> None:
    sides = [sum(PARTS)], PARTS
    references, candidates = sides[::-1] if mirrored else sides
    solution = solved(references, candidates)
    assert str(solution.alignment) == f"{'reference: ' if mirrored else ''}sum()"
    assert residual(solution, references, candidates) < 1e-6


def test_partial_sums_in_bf16_agree_within_its_noise() -> None:
    parts = [part.astype(ml_dtypes.bfloat16) for part in PARTS]
    assert str(solved([sum(PARTS)], parts).alignment) == "sum()"


def test_smaller_parts_are_never_added_up_to_agree() -> None:
    experts = normal(4, 6, 5)
    shuffled = [experts[at] for at in (1, 0, 3, 2)]
    solution = solved([experts], shuffled)
    assert "sum" not in str(solution.alignment)
    assert not layout_rule(solution).may_match
    assert "sum" not in str(solved(list(experts), shuffled).alignment)


def test_ranks_that_share_kv_heads_are_told_from_shards() -> None:
    parts = [Z[:, :, rank // 2 * 2 : rank // 2 * 2 + 2] for rank in range(8)]
    solution = solved([Z], parts)
    assert str(solution.alignment) == "reference: a b (c=4 d) e -> a b (c r=2 d) e; candidate: concat(axis=2)"
    assert layout_rule(solution).may_match
    assert residual(solution, [Z], parts) == 0


def test_experts_without_an_axis_of_their_own_are_stacked() -> None:
    experts = normal(4, 6, 5)
    solution = solved([experts], list(experts))
    assert solution.fits
    assert residual(solution, [experts], list(experts)) == 0
    assert layout_rule(solution).may_match


def test_a_padded_vocabulary_is_cut() -> None:
    table = normal(50, 8)
    parts = np.split(np.pad(table, ((0, 6), (0, 0))), 4, 0)
    solution = solved([table], parts)
    assert str(solution.alignment) == "concat(axis=0) | [0:50]"
    assert solution.candidate_coverage == pytest.approx(50 / 56)


def test_both_sides_may_be_in_parts() -> None:
    solution = solved(np.split(X, 2, 1), np.split(X, 4, 1))
    assert str(solution.alignment) == "reference: concat(axis=1); candidate: concat(axis=1)"
    assert solution.fits


def test_fused_q_k_v_of_each_rank_is_taken_apart() -> None:
    q, k, v = normal(128, 10), normal(32, 10, seed=1), normal(32, 10, seed=2)
    ranks = [np.concatenate([np.split(part, 2)[rank] for part in (q, k, v)]) for rank in range(2)]
    whole = np.concatenate([q, k, v])
    solution = solved([whole], ranks)
    assert str(solution.alignment) == "concat(axis=0) | ungroup(axis=0, groups=2, parts=64 16 16)"
    assert residual(solution, [whole], ranks) == 0


def test_shards_of_other_values_are_compared_where_the_shapes_fit() -> None:
    solution = solved([X], np.split(PARTS[1], 4, 1))
    assert str(solution.alignment) == "concat(axis=1)"
    assert not solution.fits
    assert solution.tried


def test_parts_that_never_make_the_whole_have_no_recipe() -> None:
    solution = solved([X], [normal(3, 7), normal(4, 6)])
    assert solution.alignment is None


@pytest.mark.parametrize(
    ("dims", "parts", "text"),
    [
        (("b s h d", "b s h[tp] d"), np.split(Z, 4, 2), "concat(axis=2)"),
        (
            ("b s h d", "s b h[tp] d"),
            [part.swapaxes(0, 1) for part in np.split(Z, 4, 2)],
            "concat(axis=2) | s b h d -> b s h d",
        ),
        (
            ("b s h d", "b s[sp] h[tp] d"),
            [half for part in np.split(Z, 2, 1) for half in np.split(part, 4, 2)],
            "concat(axis=2, by=4) | concat(axis=1)",
        ),
        (("b s h d", "b s h d [tp:partial]"), [Z * 0.25, Z * 0.75], "sum()"),
        (("b s h d", "b s h[tp:partial] d"), [Z * 0.25, Z * 0.75], "sum()"),
        ((None, "b s h[tp] d"), np.split(Z, 4, 2), "concat(axis=2)"),
    ],
    ids=str,
)
def test_dims_say_how_ranks_are_joined(dims: tuple[str | None, str], parts: list[np.ndarray], text: str) -> None:
    solution = solved([Z], parts, dims=dims, strategies=())
    assert str(solution.alignment) == text
    assert solution.declared
    assert solution.fits
    assert residual(solution, [Z], parts) < 1e-6


def test_dims_that_do_not_fit_the_values_are_said() -> None:
    solution = solved([Z], np.split(Z, 4, 2), dims=("b s h d", "b s[tp] h d"))
    assert str(solution.alignment) == "concat(axis=2)"
    assert not solution.declared
    assert solution.notes == ("dims say b s h d and b s[tp] h d, which does not fit the values",)


def test_dims_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match=r"\[tp:shared\]"):
        solved([Z], np.split(Z, 4, 2), dims=("b s h d", "b s h[tp:shared] d"))
