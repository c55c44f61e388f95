from __future__ import annotations

import hashlib
import os
import time

import pytest

from firstdiff.schema import Summary
from firstdiff.store import ABANDONED_AFTER, Given, Outcome, Store, sweep

NOTHING = Summary(match=0, mismatch=0, missing=0, extra=0, failed=0, elements=0, coverage=0.0)


def uploaded(store: Store, age: float = 0.0, *, begun_only: bool = False) -> str:
    upload = store.uploads.begin([("x", 3)]).id
    if not begun_only:
        store.uploads.put(upload, 0, 0, b"abc", hashlib.sha256(b"abc").hexdigest())
        then = time.time() - age
        for path in (store.home.upload(upload, 0), store.home.upload(upload, 0).parent):
            os.utime(path, (then, then))
    return upload


def test_uploads_nobody_came_back_to_go_and_all_others_stay(store: Store) -> None:
    old, used = (uploaded(store, ABANDONED_AFTER + 60) for _ in range(2))
    fresh, empty = uploaded(store, ABANDONED_AFTER - 60), uploaded(store, begun_only=True)
    given = Given(label="x", upload=used)
    store.comparisons.add("look", {"reference": given}, {}, None)
    sweep(store)
    assert set(store.uploads.ids()) == {used, fresh, empty}
    assert {path.name for path in store.home.uploads.iterdir()} == {used, fresh}
    assert old not in store.uploads.ids()


def test_what_was_deleted_half_is_deleted_wholly(store: Store) -> None:
    kept = uploaded(store)
    for folder in (store.home.uploads / "gone", store.home.results("gone") / "000001"):
        folder.mkdir(parents=True)
    sweep(store)
    assert [path.name for path in store.home.uploads.iterdir()] == [kept]
    assert list(store.home.all_results.iterdir()) == []


def test_servers_that_died_are_forgotten(store: Store) -> None:
    alive = store.own()
    (store.home.servers / "dead").touch()
    sweep(store)
    assert [path.name for path in store.home.servers.iterdir()] == [alive.id]
    alive.close()


@pytest.mark.parametrize(("over", "left"), [(True, ["000001"]), (False, ["000001", "000001.part-x"])])
def test_parts_of_results_go_unless_someone_may_be_writing_them(store: Store, over: bool, left: list[str]) -> None:
    owner = store.own()
    comparison = store.comparisons.add("look", {"reference": Given(label="x", path="/x")}, {}, None)
    job = store.comparisons.claim(owner.id)
    assert job is not None
    if over:
        store.comparisons.finish(job, owner.id, Outcome(verdict=None, summary=NOTHING, first=None))
    for name in ("000001", "000001.part-x"):
        (store.home.results(comparison) / name).mkdir(parents=True)
    sweep(store)
    assert sorted(path.name for path in store.home.results(comparison).iterdir()) == left
    owner.close()
