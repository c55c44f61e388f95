from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from firstdiff.align.recipe import Recipe
from firstdiff.align.strided import Slabs, Tiled
from firstdiff.trace import ArraySource, Boxes


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16, np.uint8], ids=str)
@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (2, 0, 1)], ids=str)
@pytest.mark.parametrize("length", [1, 100, 4097, 1 << 20])
def test_a_turned_tensor_comes_out_in_order_whatever_the_window(
    dtype: type, order: tuple[int, int, int], length: int
) -> None:
    array = (np.arange(33 * 130 * 70) % 251).reshape(33, 130, 70).astype(dtype)
    wanted = array.transpose(order)
    turned = Tiled.of(ArraySource(array)).permuted(order, wanted.shape)
    flat = wanted.astype(np.float64).ravel()
    starts = range(0, turned.size, length) if length > 1 else range(0, turned.size, 9_973)
    for start in starts:
        window = turned.window(start, min(start + length, turned.size))
        assert window.dtype == dtype
        np.testing.assert_array_equal(window.astype(np.float64), flat[start : start + length])


def test_narrow_windows_of_long_rows_are_cut_from_one_slab() -> None:
    array = np.arange(100_000 * 8, dtype=np.float32).reshape(100_000, 8)
    slabs = Slabs(Boxes((8, 100_000), (((0, 0), array.T),)), array.dtype)
    first, second = slabs.window(0, 50), slabs.window(200_000, 200_050)
    assert np.shares_memory(first.base, second.base)
    np.testing.assert_array_equal(second, array.T.ravel()[200_000:200_050])


def test_threads_share_slabs_and_get_their_own_windows() -> None:
    array = np.arange(20_000 * 200, dtype=np.int32).reshape(20_000, 200)
    turned = Tiled.of(ArraySource(array)).permuted((1, 0), (200, 20_000))
    with ThreadPoolExecutor(4) as pool:
        windows = list(pool.map(lambda start: turned.window(start, start + 1_000), range(0, turned.size, 1_000)))
    np.testing.assert_array_equal(np.concatenate(windows), array.T.ravel())


def test_a_turned_tensor_of_shards_is_assembled() -> None:
    parts = [np.random.default_rng(n).random((50, 7 + n, 30)) for n in range(3)]
    made = Recipe.parse("concat(axis=1) | a b c -> c b a").apply([ArraySource(part) for part in parts])
    wanted = np.concatenate(parts, 1).T.ravel()
    for start in range(0, made.size, 777):
        np.testing.assert_array_equal(made.window(start, start + 777), wanted[start : start + 777])


@pytest.mark.parametrize(
    ("text", "start", "stop", "in_place"),
    [
        ("concat(axis=0)", 10, 30, True),
        ("concat(axis=0)", 50, 70, False),
        ("concat(axis=1)", 8, 16, True),
        ("concat(axis=1)", 8, 17, False),
        ("concat(axis=1)", 20, 23, True),
        ("stack()", 64, 128, True),
        ("a b -> b a | concat(axis=0)", 0, 8, False),
    ],
)
def test_what_lies_in_a_row_is_not_copied(text: str, start: int, stop: int, in_place: bool) -> None:
    parts = [np.arange(64).reshape(8, 8) + 100 * number for number in range(2)]
    made = Recipe.parse(text).apply([ArraySource(part) for part in parts])
    window = made.window(start, stop)
    np.testing.assert_array_equal(window, made.take(np.arange(start, stop)))
    assert any(np.shares_memory(window, part) for part in parts) is in_place
