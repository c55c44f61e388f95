from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.align.lazy import Lazy
from firstdiff.align.recipe import Pulled, Recipe, lazy
from firstdiff.align.steps import Step
from firstdiff.align.strided import Tiled
from firstdiff.errors import UsageError
from firstdiff.trace import ArraySource, Source

X = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
Y = np.arange(3 * 24 * 2, dtype=np.int32).reshape(3, 24, 2)
HEADS = Y.reshape(3, 3, 8, 2)

ONE: list[tuple[str, np.ndarray, np.ndarray]] = [
    ("b s h d -> s (b h) d", X, X.transpose(1, 0, 2, 3).reshape(3, 8, 5)),
    ("b s h d -> b 1 (s h d)", X, X.reshape(2, 1, 60)),
    ("b s h d -> b s (h r=3) d", X, np.repeat(X, 3, axis=2)),
    ("b s h d -> r=2 b s h d", X, np.stack([X, X])),
    ("... (a=2 b) d -> ... d b a", X, X.reshape(2, 3, 2, 2, 5).transpose(0, 1, 4, 3, 2)),
    ("b s h d -> s (b h) d | a b c -> c b a", X, X.transpose(1, 0, 2, 3).reshape(3, 8, 5).T),
    ("[:, 1:3]", X, X[:, 1:3]),
    ("[1, :, -2:, ...]", X, X[1, :, -2:]),
    ("[..., 4]", X, X[..., 4]),
    ("a b c d -> (a b) (c d) | [1:5, 4:]", X, X.reshape(6, 20)[1:5, 4:]),
    ("chunks(axis=2, order=1 0)", X, np.concatenate([X[:, :, 2:], X[:, :, :2]], 2)),
    ("chunks(axis=-1, order=1 2 0, sizes=1 1 3)", X, np.concatenate([X[..., 1:2], X[..., 2:], X[..., :1]], -1)),
    (
        "ungroup(axis=1, groups=3, parts=4 2 2)",
        Y,
        np.concatenate([HEADS[:, :, part].reshape(3, -1, 2) for part in (slice(4), slice(4, 6), slice(6, 8))], 1),
    ),
    ("ungroup(axis=1, groups=3, parts=4 2 2) | group(axis=1, groups=3, parts=4 2 2)", Y, Y),
    ("rope_half(axis=1, head=8)", Y, np.concatenate([HEADS[:, :, ::2], HEADS[:, :, 1::2]], 2).reshape(Y.shape)),
    (
        "rope_half(axis=1, head=8, rotary=4)",
        Y,
        np.concatenate([HEADS[:, :, 0:4:2], HEADS[:, :, 1:4:2], HEADS[:, :, 4:]], 2).reshape(Y.shape),
    ),
    ("rope_half(axis=1, head=8, rotary=6) | rope_interleave(axis=1, head=8, rotary=6)", Y, Y),
    ("unstack(axis=1) | sum()", X, X.sum(1)),
]

SEVERAL: list[tuple[str, list[np.ndarray], np.ndarray]] = [
    ("concat(axis=1)", [X, X[:, :1] + 1, X + 2], np.concatenate([X, X[:, :1] + 1, X + 2], 1)),
    ("concat(axis=-1)", [X[..., :1], X[..., 1:2]], X[..., :2]),
    ("pick(order=1 0) | concat(axis=0)", [X, X + 1], np.concatenate([X + 1, X])),
    ("stack()", [X, X + 1], np.stack([X, X + 1])),
    ("sum() | a b c d -> d c b a", [X, X + 1, X], (3 * X + 1).T),
    (
        "b s h d -> h d (s b) | concat(axis=1)",
        [X, X + 1],
        np.concatenate([a.transpose(2, 3, 1, 0).reshape(4, 5, 6) for a in (X, X + 1)], 1),
    ),
    (
        "concat(axis=1, by=2) | concat(axis=0)",
        [X, X + 1, X + 2, X + 3],
        np.concatenate([np.concatenate([X, X + 1], 1), np.concatenate([X + 2, X + 3], 1)]),
    ),
    (
        "a b c d -> (a b c d) | (a=8 b) -> b a | concat(axis=0)",
        [X, X + 1],
        np.concatenate([a.reshape(8, 15).T for a in (X, X + 1)]),
    ),
]


def applied(text: str, arrays: list[np.ndarray]) -> Source:
    return Recipe.parse(text).apply([ArraySource(array) for array in arrays])


@pytest.mark.parametrize(("text", "arrays", "wanted"), [*((t, [a], w) for t, a, w in ONE), *SEVERAL])
def test_a_recipe_does_what_it_says(text: str, arrays: list[np.ndarray], wanted: np.ndarray) -> None:
    made = applied(text, arrays)
    assert isinstance(made, Lazy)
    assert made.shape == wanted.shape
    assert made.dtype == wanted.dtype
    np.testing.assert_array_equal(made.view(), wanted)
    np.testing.assert_array_equal(made.take(np.arange(made.size)), wanted.ravel())
    for length in (1, 7, 50):
        pieces = [made.window(at, min(at + length, made.size)) for at in range(0, made.size, length)]
        np.testing.assert_array_equal(np.concatenate(pieces), wanted.ravel())


@pytest.mark.parametrize("text", [text for text, *_ in [*ONE, *SEVERAL]])
def test_a_recipe_is_written_as_it_was_read(text: str) -> None:
    assert str(Recipe.parse(text)) == text


def test_no_steps_are_the_identity_and_cost_nothing() -> None:
    source = ArraySource(X)
    assert Recipe.parse("identity").apply([source]) is source
    assert str(Recipe.parse("  ")) == "identity"
    assert not Recipe.parse("identity")


@pytest.mark.parametrize(
    ("text", "moves"),
    [
        ("1 a b c -> b a c", ("squeeze", "permute")),
        ("b s (h=4 d) -> b h s d", ("unflatten", "permute")),
        ("b s h d -> (b s) h d 1", ("flatten", "unsqueeze")),
        ("b (h=2 d) -> b (d h)", ("unflatten", "permute", "flatten")),
        ("b h s d -> b (h r=4) s d", ("repeat", "flatten")),
        ("(a b) c -> c (a b)", ("permute",)),
        ("[0:4] | concat(axis=0)", ("crop", "concat")),
        ("rope_half(axis=0, head=4) | chunks(axis=0, order=1 0)", ("rope interleaved -> half", "chunk order")),
    ],
)
def test_steps_have_names(text: str, moves: tuple[str, ...]) -> None:
    assert Recipe.parse(text).moves == moves


@pytest.mark.parametrize(
    ("text", "shapes", "coverage"),
    [("a b -> b a", [(4, 8)], 1.0), ("[:, 0:2]", [(4, 8)], 0.25), ("concat(axis=0) | [0:6]", [(4, 8), (4, 8)], 0.75)],
)
def test_coverage_is_the_share_that_is_left(text: str, shapes: list[tuple[int, ...]], coverage: float) -> None:
    assert Recipe.parse(text).coverage(shapes) == coverage


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("transpose", "'transpose' is no step of a recipe"),
        ("fold(axis=1)", "there is no step 'fold'"),
        ("ropehalf(axis=0, head=8)", "did you mean rope_half"),
        ("concat(axs=1)", "needs one number for axis, as axis=2"),
        ("concat(axis=1 2)", "needs one number for axis"),
        ("concat(axis=a)", "should be a name and numbers"),
        ("concat(axis=0, axis=1)", "should be a name and numbers"),
        ("stack(axis=0)", "has 'axis', which that step does not take"),
        ("chunks(axis=0)", "needs numbers for order"),
        ("chunks(axis=0, order=1 1)", "must name every chunk from 0 to 1 once"),
        ("chunks(axis=0, order=1 0, sizes=3)", "needs one size above 0 for each of its 2 chunks"),
        ("ungroup(axis=0, groups=0, parts=1 1)", "at least one group"),
        ("rope_half(axis=0, head=8, rotary=3)", "an even number of rotary elements"),
        ("[1:2:3]", "'1:2:3' in '[1:2:3]' is no range"),
        ("[..., ...]", "has ... twice"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(text: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        Recipe.parse(text)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "arrays", "part"),
    [
        ("a b -> b a", [X], "takes 2 axes, but the tensor has 4"),
        ("[:, 0:9]", [X], "reaches outside axis 1 of [2, 3, 4, 5], which has 3 elements"),
        ("[2]", [X], "reaches outside axis 0"),
        ("[0, 0, 0, 0, 0]", [X], "names 5 axes, but the tensor has 4"),
        ("concat(axis=4)", [X, X], "names axis 4, but the tensor has 4 axes"),
        ("concat(axis=1)", [X, Y], "another axis differs too"),
        ("stack()", [X, X[:1]], "needs tensors of one shape"),
        ("concat(axis=0, by=2)", [X, X, X], "takes 2 tensors at a time, which 3 cannot be divided into"),
        ("concat(axis=0, by=2)", [X, X, X, X], "leaves 2 tensors where one is wanted"),
        ("[0:1]", [X, X], "leaves 2 tensors where one is wanted"),
        ("pick(order=0 0) | concat(axis=0)", [X, X], "must name each of the 2 tensors once"),
        ("chunks(axis=3, order=1 0)", [X], "cuts an axis of 5 into 2 equal chunks"),
        ("chunks(axis=3, order=1 0, sizes=2 2)", [X], "add up to 4, but that axis of [2, 3, 4, 5] is 5"),
        ("ungroup(axis=0, groups=2, parts=1 1)", [X], "is for an axis of 4, but that axis of [2, 3, 4, 5] is 2"),
        ("rope_half(axis=3, head=4)", [X], "needs whole heads, but that axis of [2, 3, 4, 5] is 5"),
    ],
)
def test_a_recipe_that_does_not_fit_says_where(text: str, arrays: list[np.ndarray], part: str) -> None:
    with pytest.raises(UsageError) as caught:
        applied(text, arrays)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    "dtype",
    ["float64", "float16", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, "bool", "complex64", ">f4", ">i8", "uint8"],
    ids=str,
)
@pytest.mark.parametrize(
    "text", ["a b c -> c (b a)", "[1:3, :, 1:]", "chunks(axis=0, order=1 0)", "a b c -> b c a | c (a=3 b) d -> b c a d"]
)
def test_every_type_keeps_its_values(dtype: object, text: str) -> None:
    array = (np.arange(4 * 6 * 3) % 7).reshape(4, 6, 3).astype(dtype)
    plain = applied(text, [array.astype(np.complex128)]).view()
    made = applied(text, [array])
    assert made.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(made.window(0, made.size).astype(np.complex128), plain.ravel())
    np.testing.assert_array_equal(made.take(np.arange(made.size)).astype(np.complex128), plain.ravel())


def test_shards_of_different_types_are_joined_in_one_that_holds_both() -> None:
    parts = [X.astype(ml_dtypes.bfloat16), X.astype(np.float16)]
    made = applied("concat(axis=0)", parts)
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made.window(0, made.size), np.concatenate([X, X]).ravel())


def test_partial_sums_of_bf16_are_rounded_once() -> None:
    parts = [np.full(3, value, ml_dtypes.bfloat16) for value in (256.0, 1.0, 1.0)]
    made = applied("sum()", parts)
    assert made.dtype == ml_dtypes.bfloat16
    assert made.view().astype(float).tolist() == [258.0] * 3


@pytest.mark.parametrize("text", ["a b -> b a", "[0:0]", "concat(axis=0)", "chunks(axis=1, order=1 0)"])
def test_an_empty_tensor_stays_empty(text: str) -> None:
    made = applied(text, [np.empty((4 if text == "[0:0]" else 0, 6), np.float32)])
    assert made.size == 0
    assert made.window(0, 0).shape == (0,)
    assert made.view().shape == made.shape


def test_a_number_can_be_given_axes() -> None:
    made = applied("-> 1 r=3", [np.float32(7)])
    assert made.view().tolist() == [[7.0, 7.0, 7.0]]


def test_nothing_is_copied_by_views_of_what_is_mapped() -> None:
    made = applied("a b c d -> d (c b) a | [:, 3:9]", [X])
    assert isinstance(made, Tiled)
    assert all(np.shares_memory(tile.array, X) for tile in made.tiles)


@pytest.mark.parametrize(
    "index", [..., 2, (1, slice(None), 3), (..., slice(1, 3)), (slice(None), -1), np.array([0, 2])]
)
def test_a_slice_is_read_as_numpy_would(index: object) -> None:
    made = applied("a b c d -> c (a b) d", [X])
    wanted = X.transpose(2, 0, 1, 3).reshape(4, 6, 5)
    np.testing.assert_array_equal(made.read(index), wanted[index])


def test_a_change_of_the_file_behind_is_noticed() -> None:
    class Changing(Source):
        shape, dtype, version = (2, 3), np.dtype(np.float32), 0

        def view(self) -> np.ndarray:
            return np.zeros(self.shape, self.dtype)

        def stamp(self) -> object:
            return self.version

    source = Changing()
    made = Recipe.parse("a b -> b a").apply([source])
    before = made.stamp()
    source.version = 1
    assert made.stamp() != before


@st.composite
def chains(draw: st.DrawFn) -> tuple[np.ndarray, list[str]]:
    """An array, C or Fortran ordered, and recipes whose steps fit one after the other."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    array = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape, order=draw(st.sampled_from("CF")))
    texts: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        make: Callable[[st.DrawFn, tuple[int, ...]], str] = draw(st.sampled_from([rearrangement, crop, chunks, repeat]))
        texts.append(make(draw, shape))
        shape = Recipe.parse(texts[-1]).shape([shape])
    return array, texts


def rearrangement(draw: st.DrawFn, shape: tuple[int, ...]) -> str:
    left, names = [], []
    for axis, length in enumerate(shape):
        factor = draw(st.sampled_from([n for n in range(1, length + 1) if length % n == 0]))
        names += [f"a{axis}", f"b{axis}"]
        left.append(f"(a{axis}={factor} b{axis})")
    order = draw(st.permutations(names))
    cuts = sorted(draw(st.sets(st.integers(1, len(order) - 1)))) if len(order) > 1 else []
    groups = [order[i:j] for i, j in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    return " ".join(left) + " -> " + " ".join(f"({' '.join(group)})" for group in groups)


def crop(draw: st.DrawFn, shape: tuple[int, ...]) -> str:
    axis = draw(st.integers(0, len(shape) - 1))
    start = draw(st.integers(0, shape[axis] - 1))
    stop = draw(st.integers(start + 1, shape[axis]))
    return "[" + ":, " * axis + f"{start}:{stop}]"


def chunks(draw: st.DrawFn, shape: tuple[int, ...]) -> str:
    axis = draw(st.integers(0, len(shape) - 1))
    count = draw(st.sampled_from([n for n in range(1, shape[axis] + 1) if shape[axis] % n == 0]))
    order = draw(st.permutations(range(count)))
    return f"chunks(axis={axis}, order={' '.join(map(str, order))})"


def repeat(draw: st.DrawFn, shape: tuple[int, ...]) -> str:
    names = [f"a{axis}" for axis in range(len(shape))]
    at = draw(st.integers(0, len(names)))
    right = [*names[:at], f"r={draw(st.integers(1, 3))}", *names[at:]]
    return f"{' '.join(names)} -> {' '.join(right)}" if len(right) <= 6 else "[...]"


@settings(max_examples=250)
@given(chains(), st.data())
def test_views_give_what_the_plain_definitions_give(chain: tuple[np.ndarray, list[str]], data: st.DataObject) -> None:
    array, texts = chain
    recipe = Recipe.parse(" | ".join(texts))
    made = recipe.apply([ArraySource(array)])
    plain: Lazy = lazy(ArraySource(np.ascontiguousarray(array)))
    for step in recipe.steps:
        assert isinstance(step, Step)
        plain = Pulled(step, plain)
    start = data.draw(st.integers(0, made.size))
    stop = data.draw(st.integers(start, made.size))
    np.testing.assert_array_equal(made.window(start, stop), plain.window(start, stop))
    np.testing.assert_array_equal(made.view(), plain.view())
