"""Parts shared out to threads: in order, all of them, and none after an error."""

from __future__ import annotations

from threading import Barrier, Event, get_ident

import pytest

from firstdiff.measure.passes import each_part

PARTS = [(start, start + 10) for start in range(0, 200, 10)]


@pytest.mark.parametrize("threads", [0, 1, 2, 5, 100])
def test_parts_come_back_in_their_order(threads: int) -> None:
    assert each_part(PARTS, lambda start, stop: (start, stop), threads=threads) == PARTS
    assert each_part([], lambda start, stop: (start, stop), threads=threads) == []


def test_the_calling_thread_works_beside_others() -> None:
    both = Barrier(2)

    def work(_start: int, _stop: int) -> int:
        both.wait(10)
        return get_ident()

    workers = each_part(PARTS, work, threads=2)
    assert workers.count(get_ident()) == len(PARTS) / 2


@pytest.mark.parametrize("who", ["caller", "helper"])
def test_an_error_ends_the_work_of_all(who: str) -> None:
    caller = get_ident()
    failed = Event()
    begun = []

    def work(start: int, _stop: int) -> None:
        begun.append(start)
        if (get_ident() == caller) == (who == "caller"):
            failed.set()
            raise ValueError(f"at {start}")
        assert failed.wait(10)

    with pytest.raises(ValueError, match="at "):
        each_part(PARTS, work, threads=2)
    assert len(begun) <= 4
