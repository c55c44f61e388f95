from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from firstdiff.align import Alignment, Noise, Solution, layout_rule, solve, solve_stated
from firstdiff.errors import UsageError
from firstdiff.trace import ArraySource
from tests.align.cases import Case, agreement, is_right, random_case, shuffled_case


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def solved(reference: np.ndarray, candidate: np.ndarray, **options: object) -> Solution:
    return solve(ArraySource(reference), ArraySource(np.ascontiguousarray(candidate)), **options)  # type: ignore[arg-type]


def holds(solution: Solution, reference: np.ndarray, candidate: np.ndarray) -> bool:
    return is_right(solution, Case(reference, np.ascontiguousarray(candidate), (), "fp32"))


CASES = range(150)


@pytest.mark.parametrize("first", CASES[::15])
def test_random_layouts_are_found_and_never_wrong(first: int) -> None:
    cases = [random_case(seed) for seed in range(first, first + 15)]
    found = [(case, solved(case.reference, case.candidate)) for case in cases]
    missed = [str(case) for case, solution in found if not is_right(solution, case)]
    wrong = [str(case) for case, solution in found if solution.fits and agreement(solution, case) < 1.0]
    assert not wrong
    assert not missed, f"{len(missed)} of {len(cases)} not found"


@pytest.mark.parametrize("first", CASES[::15])
def test_shuffled_values_have_no_layout(first: int) -> None:
    for case in map(shuffled_case, range(first, first + 15)):
        solution = solved(case.reference, case.candidate)
        assert not solution.fits or agreement(solution, case) == 1.0, str(case)


def test_equal_tensors_need_no_search() -> None:
    x = normal(4, 16, 64)
    solution = solved(x, x, strategies=())
    assert solution.is_identity
    assert solution.fits
    assert (solution.confidence, solution.coverage, solution.cause) == (1.0, 1.0, None)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float64])
def test_rounding_to_another_type_is_no_change_of_layout(dtype: type) -> None:
    x = normal(4, 16, 64)
    assert solved(x, x.astype(dtype)).is_identity
    assert solved(x, x.astype(dtype)).fits


def test_permuted_axes_with_an_extra_one_are_named() -> None:
    x = normal(1, 8, 76, 64)
    reference = np.ascontiguousarray(x[0].transpose(1, 0, 2))
    solution = solved(reference, x)
    assert str(solution.alignment) == "1 a b c -> b a c"
    assert holds(solution, reference, x)
    assert layout_rule(solution).may_match


def test_a_square_transpose_is_no_match_unless_accepted() -> None:
    x = normal(64, 64)
    solution = solved(x, x.T)
    assert (str(solution.alignment), solution.cause) == ("a b -> b a", "layout.transpose")
    assert not layout_rule(solution).may_match
    assert layout_rule(solution, accepted=["transpose"]).may_match


def test_a_lone_shard_is_compared_with_its_own_slice() -> None:
    x = normal(8, 32)
    solution = solved(x, x[:, 8:16])
    assert str(solution.alignment) == "reference: [:, 8:16]"
    assert (solution.reference_coverage, solution.candidate_coverage, solution.cause) == (0.25, 1.0, "layout.shard")
    assert "part 1 of 4 along axis 1" in solution.notes[0]
    assert layout_rule(solution).may_match


def test_tiny_values_in_reverse_are_a_difference() -> None:
    x = (np.random.default_rng(0).random(1000) * 1e-8).astype(np.float32)
    solution = solved(x, x[::-1])
    assert solution.is_identity
    assert not solution.fits


def test_the_rank_that_fits_is_used_and_the_others_are_said() -> None:
    ranks = normal(8, 16, 19, 8)
    solution = solved(ranks[3:4], ranks)
    assert str(solution.alignment) == "[3:4]"
    assert solution.candidate_coverage == 0.125
    assert solution.notes[0].startswith(
        "part 3 of 8 along axis 0 of the candidate is compared; the others agree by 0: 0%"
    )


def test_ranks_that_are_all_equal_are_all_compared() -> None:
    one = normal(1, 16, 19, 8)
    solution = solved(one, np.repeat(one, 8, 0))
    assert str(solution.alignment) == "reference: 1 a b c -> r=8 a b c"
    assert solution.coverage == 1.0


X = normal(16, 512)
HEADS = X.reshape(16, 8, 64)
QKV = normal(384, 40)
FUSED = QKV.reshape(4, 6, 16, 40)
PLAIN = np.concatenate([FUSED[:, :4].reshape(-1, 40), FUSED[:, 4].reshape(-1, 40), FUSED[:, 5].reshape(-1, 40)])
ROTARY = HEADS.copy()
ROTARY[..., :32] = HEADS[..., :32].reshape(16, 8, 16, 2).swapaxes(2, 3).reshape(16, 8, 32)


@pytest.mark.parametrize(
    ("reference", "candidate", "cause", "text"),
    [
        (
            X,
            HEADS.reshape(16, 8, 32, 2).swapaxes(2, 3).reshape(16, 512),
            "layout.rope_interleave",
            "a (b=8 c=2 d) -> a (b d c)",
        ),
        (
            X,
            HEADS.reshape(16, 8, 2, 32).swapaxes(2, 3).reshape(16, 512),
            "layout.rope_interleave",
            "a (b=8 c=32 d) -> a (b d c)",
        ),
        (X, ROTARY.reshape(16, 512), "layout.rope_interleave", "rope_interleave(axis=1, head=64, rotary=32)"),
        (X, np.roll(X, 256, 1), "layout.chunk_swap", "chunks(axis=1, order=1 0)"),
        (
            X,
            HEADS[:, [2, 0, 3, 1, 7, 6, 5, 4]].reshape(16, 512),
            "layout.head_order",
            "chunks(axis=1, order=1 3 0 2 7 6 5 4)",
        ),
        (X, HEADS.swapaxes(1, 2).reshape(16, 512), "layout.head_order", "a (b=64 c) -> a (c b)"),
        (QKV, np.roll(QKV, 128, 0), "layout.qkv_order", "chunks(axis=0, order=1 2 0)"),
        (
            QKV,
            QKV.reshape(3, 8, 16, 40).swapaxes(0, 1).reshape(384, 40),
            "layout.qkv_order",
            "(a=8 b=3 c) d -> (b a c) d",
        ),
        (PLAIN, QKV, "layout.qkv_order", "ungroup(axis=0, groups=4, parts=64 16 16)"),
        (QKV, PLAIN, "layout.qkv_order", "group(axis=0, groups=4, parts=64 16 16)"),
        (normal(12, 12, 5), normal(12, 12, 5).transpose(1, 0, 2), "layout.transpose", "a b c -> b a c"),
        (normal(8, 6, 5), normal(8, 6, 5).swapaxes(0, 1).reshape(8, 6, 5), "layout.reshape", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_equal_shapes_in_another_order_are_a_mismatch_with_a_name(
    reference: np.ndarray, candidate: np.ndarray, cause: str, text: str | None
) -> None:
    solution = solved(reference, candidate)
    assert solution.cause == cause
    assert holds(solution, reference, candidate)
    assert text is None or str(solution.alignment) == text
    assert not layout_rule(solution).may_match
    assert layout_rule(solution, accepted=[cause.removeprefix("layout.")]).may_match
    assert layout_rule(solution, role="param").may_match


@pytest.mark.parametrize(
    ("reference", "candidate", "text", "coverage"),
    [
        (np.repeat(normal(2, 8, 16, 32), 4, 1), normal(2, 8, 16, 32), "a b c d -> a (b r=4) c d", (1.0, 1.0)),
        (
            normal(2, 8, 16, 32).swapaxes(1, 2),
            np.repeat(normal(2, 8, 16, 32), 4, 1),
            "reference: a b c d -> a (c r=4) b d",
            (1.0, 1.0),
        ),
        (normal(2, 100, 64), np.pad(normal(2, 100, 64), ((0, 0), (0, 28), (0, 0))), "[:, 0:100]", (1.0, 100 / 128)),
        (
            normal(2, 100, 64),
            np.pad(normal(2, 100, 64), ((0, 0), (28, 0), (0, 0))).reshape(256, 64),
            "(a=2 b) c -> a b c | [:, 28:128]",
            (1.0, 100 / 128),
        ),
        (
            normal(2, 100, 64),
            normal(2, 100, 64)[:, 17:59].transpose(2, 0, 1),
            "reference: [:, 17:59]; candidate: a b c -> b c a",
            (0.42, 1.0),
        ),
        (normal(8, 16, 32).sum(0), normal(8, 16, 32), "unstack(axis=0) | sum()", (1.0, 1.0)),
        (
            normal(96, 10),
            normal(96, 10).reshape(3, 32, 10)[:, 8:16].reshape(24, 10),
            "reference: (a=3 b) c -> a b c | [:, 8:16]; candidate: (a=3 b) c -> a b c",
            (0.25, 1.0),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_sizes_that_differ_are_related(
    reference: np.ndarray, candidate: np.ndarray, text: str, coverage: tuple[float, float]
) -> None:
    reference = np.ascontiguousarray(reference)
    solution = solved(reference, candidate)
    assert str(solution.alignment) == text
    assert agreement(solution, Case(reference, np.ascontiguousarray(candidate), (), "fp32")) == 1.0
    assert (solution.reference_coverage, solution.candidate_coverage) == pytest.approx(coverage)
    assert layout_rule(solution).may_match is not text.startswith("reference: (a=3")


def test_what_the_shapes_do_not_show_is_no_match_even_where_they_differ() -> None:
    rotated = HEADS.reshape(16, 8, 32, 2).swapaxes(2, 3).reshape(16, 512)
    solution = solved(np.ascontiguousarray(X.T), rotated)
    assert solution.cause == "layout.rope_interleave"
    assert not layout_rule(solution).may_match


def test_an_extra_axis_does_not_excuse_a_transpose() -> None:
    x = normal(1, 12, 12, 5)
    solution = solved(x[0], x.swapaxes(1, 2))
    assert (str(solution.alignment), solution.cause) == ("1 a b c -> b a c", "layout.transpose")
    assert not layout_rule(solution).may_match


UNRELATED = normal(76, 8, 64, seed=1)


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (UNRELATED, normal(1, 8, 76, 64, seed=2)),
        (UNRELATED, normal(76, 512, seed=2)),
        (normal(8, 32), normal(8, 8, seed=2)),
        (normal(3, 5), normal(7, 11, seed=2)),
        (
            np.eye(500, dtype=np.float32)[np.random.default_rng(0).integers(0, 500, 90)],
            np.eye(500, dtype=np.float32)[np.random.default_rng(1).integers(0, 500, 90)].T,
        ),
        (np.zeros((8, 32), np.float32), np.zeros((8, 8), np.float32)),
        (normal(8, 32), np.float32(0.5)),
    ],
    ids=["permuted", "flattened", "part", "nothing in common", "one-hot", "zeros", "number"],
)
def test_unrelated_values_of_other_shapes_have_no_recipe(reference: np.ndarray, candidate: np.ndarray) -> None:
    solution = solved(reference, candidate)
    assert solution.alignment is None
    assert solution.reason == "shape"
    assert not solution.fits
    ruling = layout_rule(solution)
    assert not ruling.may_match
    assert ruling.reason.startswith("no recipe relates the shapes")


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (normal(64, 64), normal(64, 64, seed=2)),
        (np.zeros((16, 16), np.float32), normal(16, 16)),
        (np.eye(16, dtype=np.float32), np.eye(16, dtype=np.float32)[::-1]),
        (np.eye(16, dtype=np.float32), np.roll(np.eye(16, dtype=np.float32), 1, 0)),
        (np.full((8, 8), 3.0), np.full((8, 8), 4.0)),
        (np.arange(512).reshape(4, 128), np.arange(512).reshape(4, 128) + 1),
        (normal(16, 64), normal(16, 64) * 1.3),
        (normal(16, 64), np.full((16, 64), np.nan, np.float32)),
    ],
    ids=["random", "zeros", "identity matrix", "shifted identity", "constant", "ids", "scaled", "nan"],
)
def test_equal_shapes_with_other_values_stay_identity(reference: np.ndarray, candidate: np.ndarray) -> None:
    solution = solved(reference, candidate)
    if not solution.is_identity:
        aligned = agreement(solution, Case(reference, np.ascontiguousarray(candidate), (), "exact"))
        assert aligned == 1.0, f"{solution.alignment} is made up"
        assert not layout_rule(solution).may_match
    else:
        assert not solution.fits


def test_unrelated_values_whose_shapes_agree_but_for_ones_are_compared_as_they_are() -> None:
    solution = solved(UNRELATED, normal(1, 76, 8, 64, seed=2))
    assert str(solution.alignment) == "1 a b c -> a b c"
    assert not solution.fits


@pytest.mark.parametrize(
    ("reference", "candidate", "text"),
    [
        (np.zeros((4, 6)), np.zeros((6, 4)), "a b -> b a"),
        (np.ones((2, 3, 4)), np.ones((6, 4)), "(a=2 b) c -> a b c"),
        (np.full((3, 4, 5), 7), np.full((60,), 7), "(a=3 b=4 c) -> a b c"),
        (
            (1 + 1e-9 * normal(8, 8)).astype(np.float32),
            (1 + 1e-9 * normal(64, seed=2)).astype(np.float32),
            "(a=8 b) -> a b",
        ),
        (np.eye(16, dtype=np.float32), np.eye(16, dtype=np.float32).ravel(), "(a=16 b) -> a b"),
    ],
    ids=["zeros", "ones", "constant", "nearly constant", "identity matrix"],
)
def test_values_that_cannot_tell_get_the_plain_recipe_and_little_confidence(
    reference: np.ndarray, candidate: np.ndarray, text: str
) -> None:
    solution = solved(reference, candidate)
    assert str(solution.alignment) == text
    assert solution.confidence <= 0.3
    assert solution.forced


def test_recipes_that_fit_equally_well_are_all_listed() -> None:
    solution = solved(np.zeros((4, 4, 6)), np.zeros((6, 4, 4)))
    assert str(solution.alignment) == "a b c -> b c a"
    assert "a b c -> c b a" in map(str, solution.alternatives)
    assert solution.confidence <= 0.1


def test_zeros_against_other_values_of_another_shape_differ_in_value() -> None:
    solution = solved(np.zeros((4, 6), np.float32), np.full((6, 4), 3.0, np.float32))
    assert str(solution.alignment) == "a b -> b a"
    assert not solution.fits


def test_one_hot_rows_are_told_from_their_transpose() -> None:
    hot = np.eye(500, dtype=np.float32)[np.random.default_rng(0).integers(0, 500, 90)]
    solution = solved(hot, hot.T)
    assert str(solution.alignment) == "a b -> b a"
    assert solution.fits
    assert solution.confidence > 0.9


@pytest.mark.parametrize("damage", ["head", "noise", "scale"])
def test_the_layout_of_values_that_differ_is_still_found_where_shapes_call_for_one(damage: str) -> None:
    x = normal(76, 8, 64)
    other = x.copy()
    if damage == "head":
        other[:, 3] = 0
    elif damage == "noise":
        other += 0.2 * normal(76, 8, 64, seed=2)
    else:
        other = other * 1.5 + 1
    solution = solved(x, other.swapaxes(0, 1))
    assert str(solution.alignment) == "a b c -> b a c"
    assert not solution.fits


def test_masks_of_infinity_have_a_layout() -> None:
    mask = np.where(np.tril(np.ones((2, 20, 20))) > 0, 0.0, -np.inf).astype(np.float32)
    mask += np.where(np.isfinite(mask), normal(2, 20, 20), 0)
    solution = solved(mask, mask.transpose(2, 0, 1))
    assert str(solution.alignment) == "a b c -> b c a"
    assert solution.fits


@pytest.mark.parametrize("dtype", ["complex64", "int32", ">f4", ml_dtypes.float8_e4m3fn], ids=str)
def test_every_type_has_a_layout(dtype: object) -> None:
    x = (20 * normal(6, 30, 10)).astype(dtype)
    solution = solved(x, x.transpose(2, 0, 1))
    assert str(solution.alignment) == "a b c -> b c a"
    assert solution.fits


@pytest.mark.parametrize(
    ("reference", "candidate", "fits"), [((0, 4), (0, 4), True), ((0, 4), (4, 0), False), ((0,), (3,), False)]
)
def test_empty_tensors_have_no_layout_to_find(
    reference: tuple[int, ...], candidate: tuple[int, ...], fits: bool
) -> None:
    solution = solved(np.empty(reference), np.empty(candidate))
    assert solution.fits is fits
    assert (solution.alignment is None) is not fits


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_number_is_the_same_in_any_shape(shape: tuple[int, ...]) -> None:
    solution = solved(np.full((), 5), np.full(shape, 5))
    assert solution.fits
    assert holds(solution, np.full((), 5), np.full(shape, 5))


@pytest.mark.parametrize("dims", [("b s h d", "s (b h) d"), ("b s h d", "s (b=2 h) d")])
def test_dims_are_believed_first(dims: tuple[str, str]) -> None:
    x = normal(2, 6, 4, 5)
    candidate = x.swapaxes(0, 1).reshape(6, 8, 5)
    solution = solved(x, candidate, dims=dims, strategies=())
    assert str(solution.alignment) == "s (b=2 h) d -> b s h d"
    assert solution.declared
    assert holds(solution, x, candidate)


def test_dims_that_the_values_contradict_are_said() -> None:
    x = normal(6, 6, 5)
    solution = solved(x, x, dims=("b s d", "s b d"))
    assert solution.is_identity
    assert solution.fits
    assert solution.notes == ("dims say s b d -> b s d, which does not fit the values",)


def test_dims_hold_where_nothing_fits() -> None:
    solution = solved(normal(6, 6, 5), normal(6, 6, 5, seed=2), dims=("b s d", "s b d"))
    assert str(solution.alignment) == "s b d -> b s d"
    assert solution.declared
    assert not solution.fits


def test_stated_noise_replaces_that_of_the_types() -> None:
    x = normal(16, 64)
    loose = Noise(atol=0.5, rtol=0.0)
    assert not solved(x, x + 0.4).fits
    assert solved(x, x + 0.4, noise=loose).fits


def test_a_recipe_of_the_user_is_applied_and_checked() -> None:
    x = ArraySource(normal(8, 8))
    good = solve_stated(Alignment.parse("a b -> b a"), [x], [ArraySource(normal(8, 8).T.copy())])
    assert good.fits
    assert not solve_stated(Alignment.parse("a b -> b a"), [x], [x]).fits
    assert solve_stated(Alignment.parse("[0:4]; reference: [0:4]"), [x], [x]).coverage == 0.5
    with pytest.raises(UsageError, match="makes"):
        solve_stated(Alignment.parse("a b -> (a b)"), [x], [x])


def test_a_solution_is_part_of_the_json() -> None:
    x = normal(8, 32)
    row = solved(x, x[:, 8:16]).as_schema()
    assert row is not None
    assert (row.recipe, row.steps, row.coverage) == ("reference: [:, 8:16]", ("crop (reference)",), 0.25)
    assert (row.reference_coverage, row.candidate_coverage) == (0.25, 1.0)
    assert solved(normal(3, 5), normal(7, 11, seed=2)).as_schema() is None


def test_the_same_pair_always_gets_the_same_answer() -> None:
    case = random_case(11)
    assert solved(case.reference, case.candidate) == solved(case.reference, case.candidate)


def hidden_tokens() -> np.ndarray:
    lengths = np.array([12, 26, 4, 17, 15, 18, 8, 12])
    return np.where(np.arange(26) < lengths[:, None], np.float32(0), np.finfo(np.float32).min)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_mask_repeated_for_every_token_is_the_whole_mask(dtype: type) -> None:
    mask = hidden_tokens()[:, None, None]
    lowest = ml_dtypes.finfo(dtype).min
    repeated = np.where(mask == 0, 0, lowest).astype(dtype).repeat(26, axis=2)
    for sides in ((mask, repeated), (repeated, mask)):
        solution = solved(*sides)
        assert solution.forced
        assert solution.coverage == 1.0
        assert "r=26" in str(solution.alignment)
    assert solved(mask, repeated).fits == (dtype is not np.float16)


def test_two_axes_of_one_may_be_repeated() -> None:
    x = normal(4, 1, 16, 1)
    whole = np.broadcast_to(x, (4, 3, 16, 5))
    assert holds(solved(whole, x), whole, x)
    assert solved(whole, x).coverage == 1.0


def test_what_changes_along_an_axis_is_not_repeated() -> None:
    x = normal(4, 1, 16)
    whole = np.broadcast_to(x, (4, 6, 16)).copy()
    whole[:, 3] += 1
    assert solved(whole, x).coverage < 1.0
