"""Values gathered by machine code are those that numpy gathers, and give the same measurement to the last bit."""

from __future__ import annotations

from math import prod

import ml_dtypes
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.align import Recipe
from firstdiff.measure import Allowed, measure_pair, plan, scattered
from firstdiff.measure.kernel_gather import gather
from firstdiff.measure.kernel_places import BLOCK, MOST_AXES
from firstdiff.measure.scattered import Layout, Scattered, layout_of
from firstdiff.trace import ArraySource, Box, Boxes, Source

WINDOW = 3 << 20
DTYPES = [np.dtype(kind) for kind in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]
BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}
COMPILED = {"float32": np.float32, "float64": np.float64, "float16": np.int16, "bfloat16": np.uint16}
LENGTHS = (1, 1, 2, 3, 5, 16, 17, 33, 64, 130, 1000)
GUARD = 64


class InBoxes(Source):
    """A tensor that lies as it is said to."""

    def __init__(self, boxes: Boxes, values: np.ndarray) -> None:
        self.shape, self.dtype = values.shape, values.dtype
        self._boxes, self._values = boxes, values

    def view(self) -> np.ndarray:
        return self._values

    def boxes(self) -> Boxes:
        return self._boxes


@numba.njit
def run(room: np.ndarray, table: np.ndarray, begin: int, end: int, digits: np.ndarray) -> None:
    gather(room, table, begin, end, digits, 0, digits[:0])


def gathered(layout: Layout, begin: int, end: int) -> np.ndarray:
    """The bits of a range; the memory around it must stay as it is."""
    dtype = layout.source.dtype
    bits = np.full(end - begin + 2 * GUARD, 77, BITS[dtype.itemsize])
    room = bits.view(COMPILED[dtype.name])
    run(room[GUARD:-GUARD], layout.table, begin, end, np.empty(MOST_AXES, np.int64))
    assert (bits[:GUARD] == 77).all()
    assert (bits[-GUARD:] == 77).all()
    return bits[GUARD:-GUARD]


def any_bits(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """NaN of every kind included."""
    return rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype).reshape(shape)


@st.composite
def lying(draw: st.DrawFn) -> InBoxes:
    """Axes in any order, some backwards, some repeated, some with gaps; cut into boxes, some of them elsewhere."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    dtype = draw(st.sampled_from(DTYPES))
    axes: list[int] = []
    for length in draw(st.lists(st.sampled_from(LENGTHS), max_size=5)):
        axes += [length] if prod(axes) * length <= 1 << 17 else []
    order = draw(st.permutations(range(len(axes))))
    step = [draw(st.sampled_from((1, 1, 1, -1, 2, 0))) for _ in axes]
    stored = [axes[axis] * max(abs(step[axis]), 1) if step[axis] else 1 for axis in order]
    array = any_bits(rng, tuple(stored), dtype).transpose(np.argsort(order))
    for axis, by in enumerate(step):
        array = array[(slice(None),) * axis + (slice(None, None, by or None),)]
    array = np.broadcast_to(array, axes)
    cut: list[Box] = [((0,) * len(axes), array)]
    for _ in range(draw(st.integers(0, 4)) if axes else 0):
        at, part = cut.pop(draw(st.integers(0, len(cut) - 1)))
        axis = draw(st.integers(0, len(axes) - 1))
        middle = draw(st.integers(0, part.shape[axis]))
        low, high = (slice(None),) * axis + (slice(middle),), (slice(None),) * axis + (slice(middle, None),)
        moved = (*at[:axis], at[axis] + middle, *at[axis + 1 :])
        cut += [box for box in ((at, part[low]), (moved, part[high].copy("F"))) if box[1].size]
    return InBoxes(Boxes(tuple(axes), tuple(cut)), np.ascontiguousarray(array).reshape(axes))


@settings(max_examples=300, deadline=None)
@given(lying(), st.data())
def test_any_range_is_gathered_exactly(source: InBoxes, data: st.DataObject) -> None:
    layout = layout_of(source, WINDOW)
    assert layout is not None
    wanted = source.view().reshape(-1).view(BITS[source.dtype.itemsize])
    begin = data.draw(st.integers(0, source.size - 1))
    end = data.draw(st.integers(begin + 1, source.size))
    np.testing.assert_array_equal(gathered(layout, begin, end), wanted[begin:end])
    np.testing.assert_array_equal(gathered(layout, 0, source.size), wanted)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(300, 200), (257, 129), (40, 5, 300), (2000, 3), (3, 2000)], ids=str)
def test_turned_tensors_are_gathered_exactly_in_pieces(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    array = any_bits(np.random.default_rng(0), shape, dtype)
    turned = array.T
    source = InBoxes(Boxes(turned.shape, (((0,) * turned.ndim, turned),)), np.ascontiguousarray(turned))
    layout = layout_of(source, WINDOW)
    assert layout is not None
    wanted = source.view().reshape(-1).view(BITS[dtype.itemsize])
    for begin in range(0, source.size, 7_001):
        end = min(begin + 7_001, source.size)
        np.testing.assert_array_equal(gathered(layout, begin, end), wanted[begin:end])


RECIPES = [
    ("b s h d -> b h s d", (3, 70, 40, 64)),
    ("b s h d -> s (b h) d", (3, 70, 40, 64)),
    ("b s h d -> b s (h r=4) d", (3, 70, 10, 64)),
    ("a b -> (a r=3) b", (700, 300)),
    ("a b -> a (b r=3)", (700, 300)),
    ("[:, 16:48]", (700, 640)),
    ("chunks(axis=1, order=1 0)", (700, 642)),
    ("ungroup(axis=0, groups=8, parts=50 20 20)", (720, 501)),
    ("a b -> b a", (701, 503)),
    ("a b -> b a", (20_011, 17)),
    ("b s h d -> b h d s", (2, 200, 4, 128)),
    ("b s h d -> d h s b", (2, 200, 4, 128)),
    ("a b (d=64 e) -> a b (e d)", (30, 90, 128)),
]


def as_copied(made: Source) -> ArraySource:
    return ArraySource(made.window(0, made.size).copy().reshape(made.shape))


def values(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, np.float32).astype(dtype)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("text", "shape"), RECIPES)
def test_a_recipe_measures_like_the_same_values_in_order(
    monkeypatch: pytest.MonkeyPatch, text: str, shape: tuple[int, ...], threads: int
) -> None:
    monkeypatch.setattr(plan, "WINDOW_BYTES", 5 * BLOCK * 4)
    monkeypatch.setattr(plan, "_LEAST_SHARE", 1)  # lest a piece be longer, and the stretches others
    candidate = values(shape, np.dtype(np.float32))
    candidate.reshape(-1)[[5, 77_777, 77_778]] = np.nan, np.inf, 0.0
    made = Recipe.parse(text).apply([ArraySource(candidate)])
    order = as_copied(made)
    noise = np.random.default_rng(1).standard_normal(made.shape, np.float32)
    reference = ArraySource(order.view() + np.float32(1e-4) * noise)
    through = measure_pair(reference, made, Allowed(1e-4, 0.0), engine="numba", threads=threads)
    straight = measure_pair(reference, order, Allowed(1e-4, 0.0), engine="numba")
    assert repr(through) == repr(straight)
    assert isinstance(window_of(made), Scattered)


def window_of(made: Source) -> np.ndarray | Scattered:
    layout = layout_of(made, WINDOW)
    assert layout is not None
    return layout.side(0, made.size)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("dtypes", [*zip(DTYPES, DTYPES, strict=True), (DTYPES[3], DTYPES[0])], ids=str)
def test_both_sides_may_be_scattered(dtypes: tuple[np.dtype, np.dtype], full: bool) -> None:
    reference = Recipe.parse("a b -> b a").apply([ArraySource(values((500, 300), dtypes[0]))])
    candidate = Recipe.parse("a b c -> b a c").apply([ArraySource(values((20, 300, 25), dtypes[1]))])
    through, straight = (
        measure_pair(*sides, Allowed(1.0, 0.0), full=full, engine="numba")
        for sides in ((reference, candidate), (as_copied(reference), as_copied(candidate)))
    )
    assert through == straight


def test_whole_numbers_are_left_to_numpy() -> None:
    made = Recipe.parse("a b -> b a").apply([ArraySource(np.arange(90_000, dtype=np.int32).reshape(300, 300))])
    assert measure_pair(made, as_copied(made), engine="numba").metrics.mismatched == 0


def test_what_lies_in_a_row_stays_where_it_is() -> None:
    parts = [values((300, 400), np.dtype(np.float32)) for _ in range(2)]
    made = Recipe.parse("concat(axis=0)").apply([ArraySource(part) for part in parts])
    layout = layout_of(made, WINDOW)
    assert layout is not None
    here, across = layout.side(100, 1_000), layout.side(119_000, 121_000)
    assert isinstance(here, np.ndarray)
    assert np.shares_memory(here, parts[0])
    assert isinstance(across, Scattered)
    np.testing.assert_array_equal(across[10:20], made.window(119_010, 119_020))


@pytest.mark.parametrize("length", [16, 17, 500])
def test_pieces_are_whole_rows_and_no_longer_than_a_window(length: int) -> None:
    made = Recipe.parse("a b -> b a").apply([ArraySource(values((length * 1_000, 20), np.dtype(np.float32)))])
    layout = layout_of(made, 20 * BLOCK)
    assert layout is not None or length == 500
    if layout is not None:
        assert layout.piece % (length * 1_000) == 0
        assert BLOCK <= layout.piece <= 20 * BLOCK


ARRAY = values((40, 50), np.dtype(np.float32))


@pytest.mark.parametrize(
    ("axes", "boxes"),
    [
        ((40, 50), ()),
        ((40, 50), (((0, 0), ARRAY.astype(">f4")),)),
        ((40, 50), (((0, 0), ARRAY.astype(np.float64)),)),
        ((40, 50), (((0, 1), ARRAY),)),
        ((40, 50), (((-1, 0), ARRAY),)),
        ((39, 50), (((0, 0), ARRAY),)),
    ],
)
def test_what_is_no_plain_copy_is_left_to_windows(axes: tuple[int, ...], boxes: tuple[Box, ...]) -> None:
    assert layout_of(InBoxes(Boxes((40, 50), (((0, 0), ARRAY),)), ARRAY), WINDOW) is not None
    assert layout_of(InBoxes(Boxes(axes, boxes), ARRAY), WINDOW) is None


def test_sources_that_do_more_than_copy_have_no_boxes() -> None:
    parts = [ArraySource(ARRAY), ArraySource(ARRAY)]
    assert Recipe.parse("sum()").apply(parts).boxes() is None
    mixed = Recipe.parse("concat(axis=1)").apply([parts[0], ArraySource(ARRAY.astype(np.float64))])
    assert layout_of(mixed, WINDOW) is None


def test_crumbs_are_left_to_windows() -> None:
    made = Recipe.parse("a (b e=2) -> e b a").apply([ArraySource(values((10_000, 16), np.dtype(np.float32)))])
    assert layout_of(made, WINDOW) is None
    assert scattered._NEAR < 10_000
