from __future__ import annotations

import sys
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.align import Alignment
from firstdiff.errors import UsageError
from firstdiff.trace import ArraySource, Source
from firstdiff.viewing import (
    Cut,
    ElementQuery,
    common_mappings,
    histograms,
    largest,
    mapped_view,
    overview,
    profile,
    scatter,
    search,
)
from firstdiff.viewing.mapping import held

RNG = np.random.default_rng(0)


def source(values: object) -> Source:
    return ArraySource(np.asarray(values))


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [("1,:", (2, 3), (3,)), ("0:1,1:3", (2, 3), (1, 2)), (":,-1", (2, 3), (2,)), ("", (), ()), ("5:9", (6,), (1,))],
)
def test_a_cut_reads_what_numpy_would(text: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    cut = Cut.parse(text, shape)
    assert cut.shape == expected
    index = tuple(eval(f"np.s_[{text}]")) if "," in text else eval(f"np.s_[{text or '()'}]")
    assert np.array_equal(cut.read(source(array)), array[index])


@pytest.mark.parametrize("text", ["1", "::2,:", "...,0", "x,:", "2,:"])
def test_a_cut_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Cut.parse(text, (2, 3))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 50), st.integers(1, 50), st.integers(0, 2**31))
def test_every_pixel_shows_its_largest_value(rows: int, columns: int, high: int, wide: int, seed: int) -> None:
    values = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    cells = overview((source(values),), Cut.whole(values.shape), high, wide)
    assert cells.shape == (min(rows, high), min(columns, wide))
    assert cells.dtype == np.float32
    down = np.linspace(0, rows, cells.shape[0] + 1).astype(int)
    across = np.linspace(0, columns, cells.shape[1] + 1).astype(int)
    for row, column in np.ndindex(cells.shape):
        under = values[down[row] : down[row + 1], across[column] : across[column + 1]].reshape(-1)
        assert cells[row, column] == under[np.abs(under).argmax()]


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_run_is_what_the_cut_reads(data: st.DataObject, shape: list[int]) -> None:
    values = np.arange(np.prod(shape)).reshape(shape)
    parts: list[int | range] = []
    for length in shape:
        begin = data.draw(st.integers(0, length - 1))
        parts.append(begin if data.draw(st.booleans()) else range(begin, data.draw(st.integers(begin + 1, length))))
    cut = Cut(tuple(parts))
    taken = cut.read(source(values)).reshape(-1)
    follow = np.array_equal(taken, np.arange(taken[0], taken[0] + taken.size))
    assert cut.run_in(values.shape) == (taken[0] if follow else None)


@pytest.mark.parametrize("band", [1, 7, 64])
@pytest.mark.parametrize(("at", "high", "wide"), [("1,:,:", 5, 4), (":,2,:", 2, 30), (":,:,3", 3, 11), ("1,2,:", 1, 3)])
def test_an_overview_is_the_same_in_parts_of_any_size(
    monkeypatch: pytest.MonkeyPatch, band: int, at: str, high: int, wide: int
) -> None:
    ours, theirs = RNG.standard_normal((2, 3, 11, 30)).astype(np.float32)
    sides = source(ours), source(theirs)
    cut = Cut.parse(at, ours.shape)
    expected = overview(sides, cut, high, wide)
    module = sys.modules["firstdiff.viewing.overview"]
    monkeypatch.setattr(module, "_BAND", band)
    monkeypatch.setattr(module, "_CHUNK", max(1, band // 3))
    assert np.array_equal(overview(sides, cut, high, wide), expected)


@pytest.mark.parametrize(("odd", "shown"), [(np.nan, np.nan), (np.inf, np.inf), (-np.inf, -np.inf), (-7.5, -7.5)])
def test_one_cell_is_never_lost_in_an_overview(odd: float, shown: float) -> None:
    values = np.zeros((700, 5000), np.float32)
    values[333, 4321] = odd
    cells = overview((source(values),), Cut.whole(values.shape), 8, 16)
    assert np.array_equal(cells[np.isnan(cells) | (cells != 0)], [np.float32(shown)], equal_nan=True)


def test_an_overview_of_differences_and_of_one_dimension() -> None:
    ours, theirs = np.zeros((3, 4, 50)), np.zeros((3, 4, 50))
    theirs[1, 2, 17] = -3.0
    sides = (source(ours), source(theirs))
    assert overview(sides, Cut.parse("1,:,:", ours.shape), 2, 5).tolist() == [[0] * 5, [0, -3, 0, 0, 0]]
    assert overview(sides, Cut.parse("1,2,:", ours.shape), 9, 5).tolist() == [[0, -3, 0, 0, 0]]
    assert overview(sides, Cut.parse("0,0:0,:", ours.shape), 9, 5).shape == (0, 50)
    with pytest.raises(UsageError, match="one or two dimensions"):
        overview(sides, Cut.whole(ours.shape), 2, 2)


def test_a_large_number_does_not_become_an_infinity() -> None:
    assert overview((source([1e300, -1e300]),), Cut.whole((2,)), 1, 2).tolist() == [
        [float(np.finfo(np.float32).max), -float(np.finfo(np.float32).max)]
    ]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "bool", "int64", "complex64"])
def test_an_overview_of_differences_is_that_of_every_element(dtype: str) -> None:
    ours, theirs = (RNG.integers(0, 5, (6, 9)).astype(np.dtype(getattr(ml_dtypes, dtype, dtype))) for _ in range(2))
    cells = overview((source(ours), source(theirs)), Cut.whole((6, 9)), 6, 9)
    wide = np.complex128 if dtype == "complex64" else np.float64
    apart = theirs.astype(wide) - ours.astype(wide)
    assert np.array_equal(cells, np.abs(apart) if dtype == "complex64" else apart)


def test_differences_that_float32_cannot_hold_and_those_of_what_is_not_finite() -> None:
    ours = np.array([3e38, np.inf, np.nan, np.nan, np.inf, 1], np.float32)
    theirs = np.array([-3e38, np.inf, np.nan, 1, -np.inf, 1], np.float32)
    cells = overview((source(ours), source(theirs)), Cut.whole((6,)), 1, 6)[0]
    most = float(np.finfo(np.float32).max)
    assert np.array_equal(cells, np.float32([-most, 0, 0, np.nan, -np.inf, 0]), equal_nan=True)


def test_histograms_of_several_sides_share_their_bins() -> None:
    first, second = histograms([(source([0.0, 1.0, 1.0]),), (source([3.0, np.nan, 4.0]),)], Cut.whole((3,)), 4)
    assert first.edges == second.edges == (0, 1, 2, 3, 4)
    assert (first.counts, second.counts, second.nan) == ((1, 2, 0, 0), (0, 0, 0, 2), 1)


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (lambda ours: ours, "Identical"),
        (lambda ours: ours + np.float32(1e-4), "this mapping fits"),
        (lambda ours: -ours, "other sign"),
        (lambda ours: ours[::-1].copy(), "Unrelated"),
    ],
)
def test_a_mapping_says_in_words_what_it_found(theirs: Callable[[np.ndarray], np.ndarray], words: str) -> None:
    ours = np.random.default_rng(2).standard_normal((12, 12)).astype(np.float32)
    whole = held(":,:", (0, 1), source(ours))
    assert words in mapped_view(source(ours), source(theirs(ours)), whole, whole).words


def test_the_largest_differences_come_first_and_a_nan_before_all() -> None:
    ours = RNG.standard_normal((7, 11)).astype(np.float32)
    theirs = ours.copy()
    theirs[3, 4] += 2
    theirs[6, 10] -= 5
    theirs[0, 1] = np.nan
    found = largest(source(ours), source(theirs), 10)
    assert [element.index for element in found] == [(0, 1), (6, 10), (3, 4)]
    assert found[1].difference == pytest.approx(-5, rel=1e-6)
    assert found[1].reference == ours[6, 10].item()
    assert found[1].ulp is not None
    assert largest(source(ours), source(ours), 10) == []


def test_the_largest_are_found_across_windows_and_ties_keep_their_order() -> None:
    ours = np.zeros(3_000_000, np.float32)
    theirs = ours.copy()
    theirs[[5, 1_500_000, 2_999_999]] = 1.0
    theirs[2_000_000] = 2.0
    assert [found.flat for found in largest(source(ours), source(theirs), 3)] == [2_000_000, 5, 1_500_000]


def test_whole_numbers_beyond_float64_are_told_apart() -> None:
    ours, theirs = np.array([2**53, 2**62], np.int64), np.array([2**53 + 1, 2**62], np.int64)
    (found,) = largest(source(ours), source(theirs), 5)
    assert (found.index, found.reference, found.candidate, found.difference) == ((0,), 2**53, 2**53 + 1, 1.0)
    (exact,) = search((source(theirs),), ElementQuery("value", low=2**53 + 1))
    assert exact.flat == 0


@pytest.mark.parametrize(
    ("sought", "places"),
    [
        (ElementQuery("value", low=0.1), [1]),
        (ElementQuery("range", low=1.0), [3, 5]),
        (ElementQuery("range", low=-1.0, high=0.05), [0, 4]),
        (ElementQuery("nan"), [2]),
        (ElementQuery("inf"), [5]),
    ],
)
def test_a_search_goes_on_from_where_it_was(sought: ElementQuery, places: list[int]) -> None:
    values = np.array([0.0, 0.1, np.nan, 3.0, -0.5, np.inf], ml_dtypes.bfloat16)
    found, after = [], -1
    while items := search((source(values),), sought, after=after):
        after = items[0].flat
        found.append(after)
    assert found == places


def test_mismatches_are_found_by_what_is_allowed() -> None:
    ours, theirs = np.array([1.0, 100.0, np.nan, 2.0]), np.array([1.2, 101.0, np.nan, np.nan])
    for equal_nan, places in ((False, [0, 2, 3]), (True, [0, 3])):
        sought = ElementQuery("mismatch", atol=0.1, rtol=0.02, equal_nan=equal_nan)
        assert [found.flat for found in search((source(ours), source(theirs)), sought, count=9)] == places


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.data())
def test_a_profile_is_what_numpy_says(shape: list[int], data: st.DataObject) -> None:
    dim = data.draw(st.integers(0, len(shape) - 1))
    ours = np.random.default_rng(1).standard_normal(shape)
    theirs = np.random.default_rng(2).standard_normal(shape)
    found = profile(source(ours), source(theirs), dim)
    rest = tuple(axis for axis in range(len(shape)) if axis != dim)
    assert found.max_abs == pytest.approx(np.abs(theirs - ours).max(axis=rest).tolist())
    assert found.rms == pytest.approx(np.sqrt(((theirs - ours) ** 2).mean(axis=rest)).tolist())


@pytest.mark.parametrize(("shape", "dim"), [((3, 2_000_000), 0), ((2, 3, 600_000), 1), ((3, 2_000_000), 1)])
def test_a_profile_of_large_tensors_goes_piece_by_piece(shape: tuple[int, ...], dim: int) -> None:
    ours, theirs = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    at = tuple(length - 1 for length in shape)
    theirs[at] = 4.0
    found = profile(source(ours), source(theirs), dim)
    assert found.max_abs[at[dim]] == 4.0
    assert sum(found.max_abs) == 4.0


def test_a_histogram_counts_what_is_not_finite_apart() -> None:
    values = np.array([0.0, 1.0, 2.0, 3.0, np.nan, np.inf, -np.inf], np.float32)
    found = histograms([(source(values),)], Cut.whole((7,)), 3)[0]
    assert (found.edges, found.counts, found.nan, found.inf, found.sampled) == ((0, 1, 2, 3), (1, 1, 2), 1, 2, False)
    constant = histograms([(source(np.full(5, 7.0)),)], Cut.whole((5,)), 8)[0]
    assert sum(constant.counts) == 5
    assert histograms([(source(np.zeros(0)),)], Cut.whole((0,)), 8)[0].counts == ()
    assert sum(histograms([(source([-1.7e308, 1.7e308]),)], Cut.whole((2,)), 4)[0].counts) == 2


def test_a_large_tensor_is_sampled_and_that_is_said() -> None:
    values = np.arange(6_000_000, dtype=np.float32).reshape(2, -1)
    assert histograms([(source(values),)], Cut.whole(values.shape), 10)[0].sampled
    pairs, sampled = scatter((source(values), source(values)), Cut.whole(values.shape), 100)
    assert sampled
    assert pairs.shape[0] <= 100
    assert np.array_equal(pairs[:, 0], pairs[:, 1])
    some, left_out = scatter((source(values),) * 3, Cut.parse("0,0:50", values.shape), 100)
    assert (some.shape, left_out) == ((50, 3), False)


def test_a_mapping_by_hand_is_told_in_words() -> None:
    ours = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    theirs = np.ascontiguousarray(ours.transpose(0, 2, 1))
    sides = source(ours), source(theirs)
    right = mapped_view(*sides, held("1,:,:", (1, 2), sides[0]), held("1,:,:", (2, 1), sides[1]))
    assert (right.identical, right.cosine, right.words) == (
        True,
        pytest.approx(1),
        "Identical: every element is the same.",
    )
    assert right.reference == right.candidate
    wrong = mapped_view(*sides, held("1,:,:", (1, 2), sides[0]), held("0,:,:", (2, 1), sides[1]))
    assert not wrong.identical
    assert wrong.words.startswith(("Unrelated", "Alike"))
    with pytest.raises(UsageError, match="every dimension"):
        held("1,:,:", (1,), sides[0])


def test_common_mappings_find_the_order_of_the_axes() -> None:
    ours = RNG.standard_normal((2, 5, 5)).astype(np.float32)
    theirs = ours.transpose(0, 2, 1).copy()
    best, *others = common_mappings(source(ours), source(theirs))
    assert best.fits
    assert best.cosine == pytest.approx(1)
    assert not any(one.fits for one in others)
    aligned = Alignment.parse(best.recipe).apply([source(ours)], [source(theirs)])
    assert np.array_equal(aligned[0].view(), aligned[1].view())


def test_nothing_common_fits_shapes_that_have_nothing_in_common() -> None:
    assert not any(one.fits for one in common_mappings(source(np.ones((2, 3))), source(np.ones((5, 7)))))
