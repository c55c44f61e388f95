from __future__ import annotations

import numpy as np

from firstdiff.capturing.buffers import Buffers

LARGE = 1 << 15


def test_a_copy_is_in_c_order_and_independent() -> None:
    array = np.arange(2.0 * LARGE).reshape(2, LARGE).T
    copied = Buffers().copy(array)
    array[:] = 0
    assert copied.flags.c_contiguous
    assert copied[-1, -1] == 2 * LARGE - 1


def test_memory_that_came_back_is_used_again_for_that_size_and_any_type() -> None:
    buffers = Buffers()
    first = buffers.copy(np.ones(LARGE))
    buffers.give_back(first)
    again = buffers.copy(np.full(2 * LARGE, 7, np.float32))
    assert np.shares_memory(first, again)
    assert (again == 7).all()


def test_memory_in_use_is_never_handed_out() -> None:
    buffers = Buffers()
    held = buffers.copy(np.ones(LARGE))
    other = buffers.copy(np.zeros(LARGE))
    assert not np.shares_memory(held, other)
    assert (held == 1).all()


def test_arrays_of_others_and_copies_given_back_twice_are_left_alone() -> None:
    buffers = Buffers()
    owned = np.ones(LARGE)
    buffers.give_back(owned)
    buffers.give_back(owned[:])
    copied = buffers.copy(owned)
    buffers.give_back(copied)
    buffers.give_back(copied)
    first, second = buffers.copy(owned), buffers.copy(owned)
    assert not np.shares_memory(first, second)
    assert not np.shares_memory(first, owned)


def test_what_is_kept_is_bounded() -> None:
    buffers = Buffers(kept_bytes=LARGE * 8)
    copies = [buffers.copy(np.ones(LARGE)) for _ in range(3)]
    for copied in copies:
        buffers.give_back(copied)
    again = [buffers.copy(np.ones(LARGE)) for _ in range(3)]
    assert sum(np.shares_memory(old, new) for old in copies for new in again) == 1


def test_small_and_empty_arrays() -> None:
    buffers = Buffers()
    assert buffers.copy(np.float32(3.5)[None][0:0]).shape == (0,)
    assert buffers.copy(np.array(3.5)) == 3.5
