from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firstdiff.errors import UsageError
from firstdiff.schema import Summary
from firstdiff.store import Edits, Given, Job, Outcome, Progress, Store, StoreError, default_home
from firstdiff.store.database import MIGRATIONS, Database
from firstdiff.store.entry import KeyPair, StatedLayout
from firstdiff.store.uploads import UnknownError

HERE = Given(label="here", path="/nowhere/at/all")
NOTHING = Summary(match=0, mismatch=0, missing=0, extra=0, failed=0, elements=0, coverage=0.0)


def add(store: Store, name: str | None = None) -> str:
    return store.comparisons.add("pair", {"reference": HERE, "candidate": HERE}, {"atol": 1.0}, name)


def claimed(store: Store, owner: str) -> Job:
    job = store.comparisons.claim(owner)
    assert job is not None
    return job


def test_comparisons_are_claimed_in_order_and_once(store: Store) -> None:
    ids = [add(store), add(store)]
    assert [claimed(store, "me").id, claimed(store, "other").id] == ids
    assert store.comparisons.claim("me") is None
    assert {entry.state for entry in store.entries()} == {"running"}


def test_a_job_says_all_there_is_to_do(store: Store) -> None:
    comparison = add(store, "mine")
    edits = Edits((KeyPair("a", "b"),), (KeyPair("c", "d"),), (StatedLayout("a", "a b -> b a"),), 3)
    store.comparisons.edit(comparison, edits)
    job = claimed(store, "me")
    assert (job.kind, job.run, job.options, job.edits) == ("pair", 2, {"atol": 1.0}, edits)
    assert job.sides == {"reference": HERE, "candidate": HERE}
    assert store.edits(comparison) == edits


def test_a_run_that_is_no_longer_wanted_changes_nothing(store: Store) -> None:
    comparison = add(store)
    old = claimed(store, "me")
    store.comparisons.rerun(comparison)
    assert not store.comparisons.tell(old, "me", Progress(stage="comparing", done=1, total=2))
    assert not store.comparisons.finish(old, "me", Outcome(verdict="match", summary=NOTHING, first=None))
    store.comparisons.fail(old, "me", "too late")
    assert (store.entry(comparison).state, store.entry(comparison).error) == ("queued", None)
    new = claimed(store, "me")
    assert store.comparisons.is_wanted(new, "me")
    assert not store.comparisons.is_wanted(old, "me")


def test_progress_is_kept_until_the_end(store: Store) -> None:
    comparison = add(store)
    job = claimed(store, "me")
    told = Progress(stage="comparing", done=1, total=2, bytes_per_second=3.5, seconds_left=0.5)
    assert store.comparisons.tell(job, "me", told)
    assert store.entry(comparison).progress == told
    outcome = Outcome(verdict="match", summary=NOTHING, first="First", tensors={"reference": 7})
    assert store.comparisons.finish(job, "me", outcome)
    entry = store.entry(comparison)
    assert (entry.state, entry.progress, entry.verdict, entry.first) == ("done", None, "match", "First")
    assert (entry.reference.tensors, entry.candidate.tensors if entry.candidate else 0) == (7, None)
    assert entry.finished is not None
    assert entry.finished > entry.created


def test_the_disk_that_is_used_counts_every_byte_once(store: Store) -> None:
    upload = store.uploads.begin([("x", 3)]).id
    store.uploads.put(upload, 0, 0, b"abc", hashlib.sha256(b"abc").hexdigest())
    given = Given(label="x", upload=upload)
    ids = [store.comparisons.add("pair", {"reference": given, "candidate": given}, {}, None) for _ in range(2)]
    overviews = store.home.result(ids[0], 1) / "overviews"
    overviews.mkdir(parents=True)
    (overviews / "one.npy").write_bytes(b"12345")
    (overviews.parent / "head.json").write_bytes(b"1234567")
    assert [store.entry(one).bytes for one in ids] == [3 + 12, 3]
    assert store.bytes() == 3 + 12


def test_only_what_a_run_left_behind_is_removed(store: Store) -> None:
    comparison = add(store)
    store.comparisons.finish(claimed(store, "me"), "me", Outcome(verdict="match", summary=NOTHING, first=None))
    for _ in range(2):
        store.comparisons.rerun(comparison)
    second = replace(store.job(comparison), run=2)
    names = ["000001", "000002", "000002.part-x", "000003", "000003.part-y"]
    for name in names:
        (store.home.results(comparison) / name).mkdir(parents=True)
    store.drop_old_results(second)
    assert sorted(path.name for path in store.home.results(comparison).iterdir()) == [
        "000001",
        "000003",
        "000003.part-y",
    ]
    store.comparisons.delete(comparison)
    store.drop_old_results(replace(second, run=3))
    assert list(store.home.results(comparison).iterdir()) == []


def test_on_a_full_disk_deleting_makes_room_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = store.uploads.begin([("x", 3)]).id
    store.uploads.put(upload, 0, 0, b"abc", hashlib.sha256(b"abc").hexdigest())
    given = Given(label="x", upload=upload)
    comparison = store.comparisons.add("look", {"reference": given}, {}, None)
    store.home.result(comparison, 1).mkdir(parents=True)
    data = store.home.results(comparison), store.home.upload(upload, 0)
    change = Database.change

    def full(database: Database, sql: str, values: Sequence[Any] = ()) -> int:
        if sql.startswith("DELETE") and any(path.exists() for path in data):
            raise StoreError("the disk is full")
        return change(database, sql, values)

    monkeypatch.setattr(Database, "change", full)
    store.delete(comparison)
    assert store.entries() == []
    assert store.uploads.ids() == []
    assert store.bytes() == 0


def test_cancelling_what_is_over_changes_nothing(store: Store) -> None:
    comparison = add(store)
    store.comparisons.fail(claimed(store, "me"), "me", "it broke")
    store.comparisons.cancel(comparison)
    assert (store.entry(comparison).state, store.entry(comparison).error) == ("failed", "it broke")


def test_what_a_dead_server_left_running_is_put_back(store: Store) -> None:
    alive = store.own()
    mine, theirs = add(store), add(store)
    claimed(store, alive.id)
    claimed(store, "a-server-that-died")
    other = store.own()
    assert (store.entry(mine).state, store.entry(theirs).state) == ("running", "queued")
    alive.close()
    store.release_dead(other)
    assert store.entry(mine).state == "queued"
    other.close()
    assert list(store.home.servers.iterdir()) == []


def test_two_servers_share_a_store(tmp_path: Path) -> None:
    one, other = Store(tmp_path), Store(tmp_path)
    comparison = add(one)
    assert other.entry(comparison).state == "queued"
    assert claimed(other, "other").id == comparison
    assert one.comparisons.claim("one") is None
    one.close()
    other.close()


@pytest.mark.parametrize("act", ["cancel", "rerun", "delete", "row"])
def test_a_comparison_that_is_not_there(store: Store, act: str) -> None:
    with pytest.raises(UnknownError, match="there is no comparison 'none'"):
        getattr(store.comparisons, act)("none")


def test_names_are_one_line(store: Store) -> None:
    comparison = add(store, " a\n b ")
    assert store.entry(comparison).name == "a b"
    assert store.entry(add(store)).name == "here and here"
    with pytest.raises(UsageError, match="needs a name"):
        store.comparisons.rename(comparison, "\t")


def test_a_store_of_a_newer_firstdiff_is_left_alone(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / "store.sqlite") as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(StoreError, match="written by a newer firstdiff"):
        Store(tmp_path)


def test_a_store_of_version_1_opens_with_all_that_is_in_it(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "store.sqlite") as connection:
        connection.executescript((Path(__file__).parent / "data" / "version-1.sql").read_text(encoding="utf-8"))
    connection.close()
    store = Store(tmp_path)
    assert store.own().close() is None, "the server that ran the second one is gone"
    waiting, done = store.entries()
    assert (waiting.kind, waiting.state, waiting.name) == ("look", "queued", "ref")
    assert (done.name, done.state, done.verdict, done.first) == (
        "before the fix",
        "done",
        "mismatch",
        "First divergence: x",
    )
    assert (done.summary and done.summary.mismatch, done.reference.tensors) == (2, 3)
    assert done.candidate is not None
    assert (done.candidate.label, done.candidate.bytes, done.candidate.present) == ("dump", 3, True)
    job = store.job(done.id)
    assert (job.run, job.options["atol"]) == (2, 0.5)
    assert job.edits == Edits((KeyPair("a", "b"),), (KeyPair("c", "d"),), (StatedLayout("a", "a b -> b a"),), 3)
    store.close()


def test_steps_are_numbered_and_only_ever_added() -> None:
    first = hashlib.sha256(MIGRATIONS[0].encode()).hexdigest()
    assert first.startswith("a5f7dc0320acdca0"), "a step that was released is never changed; add another one"


def test_a_store_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Database(tmp_path / "x.sqlite").close()
    steps = (*MIGRATIONS, "CREATE TABLE later (a INTEGER); INSERT INTO later VALUES (7)")
    monkeypatch.setattr("firstdiff.store.database.MIGRATIONS", steps)
    for _ in range(2):
        database = Database(tmp_path / "x.sqlite")
        assert [row["a"] for row in database.rows("SELECT a FROM later")] == [7]
        database.close()


def test_a_step_that_fails_leaves_the_store_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Database(tmp_path / "x.sqlite").close()
    monkeypatch.setattr("firstdiff.store.database.MIGRATIONS", (*MIGRATIONS, "CREATE TABLE a (b INTEGER); nonsense"))
    with pytest.raises(StoreError, match="cannot be used"):
        Database(tmp_path / "x.sqlite")
    monkeypatch.undo()
    database = Database(tmp_path / "x.sqlite")
    assert database.rows("SELECT name FROM sqlite_master WHERE name = 'a'") == []
    database.close()


def test_writes_go_ahead_of_reads(store: Store) -> None:
    with sqlite3.connect(store.home.database) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


@pytest.mark.parametrize("home", ["file", "file/below", "/proc/firstdiff"])
def test_a_home_that_cannot_be(tmp_path: Path, home: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="choose another --home"):
        Store(tmp_path / home)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write anywhere: the test needs somebody who may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_a_home_that_may_not_be_written_to() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        Store(home).close()
        Path(folder).chmod(0o755)
        home.chmod(0o555)
        home.joinpath("store.sqlite").chmod(0o444)
        with as_nobody(), pytest.raises(StoreError, match="choose another --home") as wrong:
            Store(home)
        assert "\n" not in str(wrong.value)
        home.chmod(0o755)


def test_a_home_in_which_a_server_cannot_sign_in(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (tmp_path / "servers").write_text("in the way")
    with pytest.raises(StoreError, match="choose another --home"):
        store.own()
    store.close()


def test_the_home_can_be_stated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIRSTDIFF_HOME", str(tmp_path / "mine"))
    assert default_home() == tmp_path / "mine"
    monkeypatch.delenv("FIRSTDIFF_HOME")
    assert "firstdiff" in default_home().parts
