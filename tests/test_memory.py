from __future__ import annotations

import threading

import numpy as np
import pytest

from firstdiff import memory

LARGE = 1 << 15
FLOAT64 = np.dtype(np.float64)


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_kept", [])


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_that_nobody_sees_is_used_again_for_any_type() -> None:
    first = memory.empty((LARGE,), FLOAT64)
    place = address(first)
    del first
    again = memory.empty((2, LARGE), np.dtype(np.float32))
    assert address(again) == place
    assert again.shape == (2, LARGE)
    assert again.flags.c_contiguous


@pytest.mark.parametrize("see", ["part", "view", "transposed", "buffer"])
def test_memory_that_is_seen_in_part_is_not_handed_out(see: str) -> None:
    first = memory.empty((2, LARGE), FLOAT64)
    first[:] = 7
    seen = {"part": first[1, 5:9], "view": first.view(np.uint8), "transposed": first.T, "buffer": first.data}[see]
    before = bytes(seen) if see == "buffer" else seen.copy()
    del first
    memory.empty((2, LARGE), FLOAT64)[:] = 0
    assert (bytes(seen) == before) if see == "buffer" else np.array_equal(seen, before)


def test_two_at_a_time_are_apart() -> None:
    first, second = memory.empty((LARGE,), FLOAT64), memory.empty((LARGE,), FLOAT64)
    assert not np.shares_memory(first, second)


def test_memory_much_too_large_is_left_for_others() -> None:
    large = memory.empty((LARGE * 8,), FLOAT64)
    place = address(large)
    del large
    assert address(memory.empty((LARGE,), FLOAT64)) != place


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_KEPT_BYTES", 2 * LARGE * 8)
    arrays = [memory.empty((LARGE,), FLOAT64) for _ in range(5)]
    assert sum(owner.nbytes for owner in memory._kept) == 2 * LARGE * 8
    assert len({address(array) for array in arrays}) == 5


def test_a_copy_is_in_c_order_and_independent() -> None:
    array = np.arange(2.0 * LARGE).reshape(2, LARGE).T
    copied = memory.copy(array)
    array[:] = 0
    assert copied.flags.c_contiguous
    assert copied[-1, -1] == 2 * LARGE - 1


def test_small_and_empty_arrays() -> None:
    assert memory.empty((0, 3), FLOAT64).shape == (0, 3)
    assert memory.copy(np.array(3.5)) == 3.5


def test_without_counts_memory_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_UNSEEN", None)
    memory.empty((LARGE,), FLOAT64)
    assert not memory._kept


def test_threads_never_share() -> None:
    spoiled = []

    def work(number: int) -> None:
        for _ in range(200):
            array = memory.empty((LARGE,), FLOAT64)
            array[:] = number
            if not (array == number).all():
                spoiled.append(number)
            del array

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not spoiled
