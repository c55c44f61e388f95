from __future__ import annotations

import errno
import hashlib
import io
import json
import pickle
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.server.conftest import PIECE, Opener, Page, put_piece


def npy(values: object) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(values))
    return file.getvalue()


def zipped(**files: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        for name, data in files.items():
            packed.writestr(name.replace("__", "."), data)
    return file.getvalue()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


LARGE = npy(np.random.default_rng(0).standard_normal(40_000))


def test_many_files_in_folders_become_one_trace(page: Page) -> None:
    files = [("dump/0_query.npy", npy([1.0])), ("dump/0_key.npy", npy([2.0])), ("dump/.DS_Store", b"junk")]
    entry = page.compare(page.upload(*files), page.upload(*files[:2]))
    assert (entry["verdict"], entry["reference"]["label"]) == ("match", "dump")
    rows = page.get(f"/comparisons/{entry['id']}/rows")["rows"]
    assert {row["key"] for row in rows} == {"0_query", "0_key"}
    assert entry["reference"]["bytes"] == sum(len(data) for _, data in files)
    assert page.get(f"/comparisons/{entry['id']}/rows/0")["first_values"]["reference"] == ["1.0"]


def test_one_archive_and_one_plain_file(page: Page) -> None:
    entry = page.compare(page.upload(("run.zip", zipped(x__npy=npy([1.0])))), page.upload(("x.npy", npy([1.0]))))
    assert (entry["verdict"], entry["name"]) == ("match", "run.zip and x.npy")


def test_an_upload_goes_on_where_it_broke_off(open_page: Opener) -> None:
    page = open_page()
    begun = page.post("/uploads", {"files": [{"name": "x.npy", "size": len(LARGE)}]})
    assert put_piece(page.client, begun["id"], 0, 0, LARGE[:PIECE]).json() == {"have": PIECE}
    again = open_page()
    found = again.post(
        "/uploads/find", {"files": [{"name": "x.npy", "size": len(LARGE)}], "head": [digest(LARGE[:PIECE])]}
    )
    assert (found["id"], found["files"][0]["have"]) == (begun["id"], PIECE)
    assert found["files"][0]["chunks"] == [{"start": 0, "size": PIECE, "digest": digest(LARGE[:PIECE])}]
    wrong = put_piece(again.client, begun["id"], 0, 0, LARGE[:PIECE])
    assert (wrong.status_code, wrong.json()["have"]) == (409, PIECE)
    assert "the next piece starts there" in wrong.json()["error"]
    for start in range(PIECE, len(LARGE), PIECE):
        assert put_piece(again.client, begun["id"], 0, start, LARGE[start : start + PIECE]).status_code == 200
    assert again.compare(begun["id"], again.upload(("x.npy", LARGE)))["verdict"] == "match"


def test_a_complete_upload_is_found_only_by_all_its_pieces(page: Page) -> None:
    upload = page.upload(("x.npy", LARGE))
    files = [{"name": "x.npy", "size": len(LARGE)}]
    pieces = [digest(LARGE[start : start + PIECE]) for start in range(0, len(LARGE), PIECE)]
    assert page.post("/uploads/find", {"files": files, "head": pieces[:1]}) is None
    assert page.post("/uploads/find", {"files": files, "head": pieces[:1], "digests": [pieces]})["id"] == upload
    other = [[*pieces[:-1], digest(b"other")]]
    assert page.post("/uploads/find", {"files": files, "head": pieces[:1], "digests": other}) is None


@pytest.mark.parametrize(
    ("name", "size", "head"),
    [("y.npy", len(LARGE), LARGE[:PIECE]), ("x.npy", len(LARGE) + 1, LARGE[:PIECE]), ("x.npy", len(LARGE), b"else")],
)
def test_other_names_sizes_and_contents_are_other_uploads(page: Page, name: str, size: int, head: bytes) -> None:
    begun = page.post("/uploads", {"files": [{"name": "x.npy", "size": len(LARGE)}]})
    put_piece(page.client, begun["id"], 0, 0, LARGE[:PIECE])
    body = {"files": [{"name": name, "size": size}], "head": [digest(head)]}
    assert page.post("/uploads/find", body) is None


def test_a_damaged_piece_is_refused_and_can_be_sent_again(page: Page) -> None:
    begun = page.post("/uploads", {"files": [{"name": "x.npy", "size": 4}]})
    path = f"/uploads/{begun['id']}/files/0"
    headers = {"X-Digest": digest(b"none")}
    says = page.error("PUT", path, 422, params={"offset": 0}, content=b"abcd", headers=headers)
    assert "SHA-256" in says
    assert page.get(f"/uploads/{begun['id']}")["files"][0]["have"] == 0
    assert put_piece(page.client, begun["id"], 0, 0, b"abcd").json() == {"have": 4}


class Bad(NamedTuple):
    request: Callable[[Page, str], str]
    says: str


@pytest.mark.parametrize(
    "bad",
    [
        Bad(lambda page, _: page.error("POST", "/uploads", 400, json={"files": []}), "names no file"),
        Bad(
            lambda page, _: page.error("POST", "/uploads", 400, json={"files": [{"name": "", "size": 1}]}), "cannot be"
        ),
        Bad(lambda page, _: page.error("POST", "/uploads", 422, json={"files": [{"name": "x", "size": -1}]}), "size"),
        Bad(lambda page, _: page.error("GET", "/uploads/none", 404), "there is no upload"),
        Bad(lambda page, up: put_piece(page.client, up, 7, 0, b"x").json()["error"], "there is no file 7"),
        Bad(lambda page, up: put_piece(page.client, up, 0, 0, b"12345").json()["error"], "was said to have 4"),
        Bad(lambda page, up: page.error("PUT", f"/uploads/{up}/files/0", 422, content=b"x"), "offset"),
        Bad(
            lambda page, _: page.error("POST", "/uploads", 507, json={"files": [{"name": "x", "size": 1 << 62}]}),
            "has room for",
        ),
    ],
)
def test_uploads_that_cannot_be(page: Page, bad: Bad) -> None:
    upload = page.post("/uploads", {"files": [{"name": "x", "size": 4}]})["id"]
    assert bad.says in bad.request(page, upload)


def test_an_unfinished_upload_cannot_be_compared(page: Page) -> None:
    upload = page.post("/uploads", {"files": [{"name": "x.npy", "size": 4}]})["id"]
    body = {"reference": {"upload": upload}, "candidate": {"upload": upload}}
    assert "is not complete" in page.error("POST", "/comparisons", 409, json=body)


def test_a_full_disk_is_one_sentence(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = page.post("/uploads", {"files": [{"name": "x", "size": 4}]})["id"]
    real = Path.open

    def full(path: Path, *words: str, **named: object) -> object:
        if "uploads" in path.parts:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, *words, **named)

    monkeypatch.setattr(Path, "open", full)
    answer = put_piece(page.client, upload, 0, 0, b"abcd")
    monkeypatch.undo()
    assert answer.status_code == 507
    assert "is full; delete comparisons or make room" in answer.json()["error"]
    assert put_piece(page.client, upload, 0, 0, b"abcd").json() == {"have": 4}


def test_deleting_a_comparison_deletes_uploads_nobody_else_uses(page: Page) -> None:
    shared, own = page.upload(("x.npy", npy([1.0]))), page.upload(("x.npy", npy([2.0])))
    first, second = page.compare(shared, own), page.compare(shared, shared)
    assert "delete that instead" in page.error("DELETE", f"/uploads/{own}", 400)
    page.client.delete(f"/api/comparisons/{first['id']}")
    uploads = page.context.store.home.uploads
    assert {path.name for path in uploads.iterdir()} == {shared}
    assert page.get(f"/comparisons/{second['id']}")["entry"]["reference"]["present"]
    page.client.delete(f"/api/comparisons/{second['id']}")
    assert list(uploads.iterdir()) == []
    assert page.get("/comparisons")["bytes"] == 0


def test_an_upload_can_be_thrown_away(page: Page) -> None:
    upload = page.upload(("x.npy", npy([1.0])))
    assert page.client.delete(f"/api/uploads/{upload}").status_code == 204
    page.error("GET", f"/uploads/{upload}", 404)


def test_names_never_become_paths(page: Page, tmp_path: Path) -> None:
    hostile = ["../../evil.npy", "/etc/evil.npy", "C:\\evil.npy", "a\\b.npy", "ok.npy"]
    upload = page.upload(*((name, npy([1.0])) for name in hostile))
    entry = page.compare(upload, page.upload(("ok.npy", npy([1.0])), ("b.npy", npy([1.0]))))
    home = page.context.store.home.path
    assert not list(tmp_path.rglob("*evil*"))
    assert {path.name for path in (home / "uploads" / upload).iterdir()} == {f"{n:06d}" for n in range(5)}
    rows = {row["key"]: (row["status"], row["reason"]) for row in page.get(f"/comparisons/{entry['id']}/rows")["rows"]}
    assert rows["ok"][0] == rows["b"][0] == "match"
    assert all(rows[key][0] == "missing" for key in rows if "evil" in key)


def links() -> dict[str, bytes]:
    """Archives with a link to a file of this machine beside a tensor."""
    info = zipfile.ZipInfo("secret.json")
    info.create_system, info.external_attr = 3, 0o120777 << 16
    zipped_file = io.BytesIO()
    with zipfile.ZipFile(zipped_file, "w") as packed:
        packed.writestr(info, "/etc/passwd")
        packed.writestr("x.npy", npy([1.0]))
    tarred = io.BytesIO()
    with tarfile.open(fileobj=tarred, mode="w") as packed:
        for kind, name in ((tarfile.SYMTYPE, "secret.json"), (tarfile.LNKTYPE, "hard.json")):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, "/etc/passwd"
            packed.addfile(link)
        member = tarfile.TarInfo("x.npy")
        member.size = len(npy([1.0]))
        packed.addfile(member, io.BytesIO(npy([1.0])))
    return {"x.zip": zipped_file.getvalue(), "x.tar": tarred.getvalue()}


@pytest.mark.parametrize("name", ["x.zip", "x.tar"])
def test_links_in_archives_lead_nowhere(page: Page, name: str) -> None:
    entry = page.compare(page.upload((name, links()[name])), page.upload(("x.npy", npy([1.0]))))
    rows = page.get(f"/comparisons/{entry['id']}/rows")["rows"]
    assert [row["status"] for row in rows if row["key"] == "x"] == ["match"]
    assert all(row["elements"] is None for row in rows if row["key"] != "x")
    for row in rows:
        assert "root" not in json.dumps(page.get(f"/comparisons/{entry['id']}/rows/{row['index']}"))


def test_uploads_of_the_same_bytes_are_told_of(page: Page) -> None:
    one, other = page.upload(("a.npy", npy([1.0]))), page.upload(("b.npy", npy([1.0])))
    warnings = page.get(f"/comparisons/{page.compare(one, other)['id']}")["comparison"]["warnings"]
    assert "reference and candidate are the same: they can only match" in warnings


def test_uploads_of_one_name_are_not_taken_for_a_file_of_this_machine(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.npy").write_bytes(npy([3.0]))
    monkeypatch.chdir(tmp_path)
    entry = page.compare(page.upload(("x.npy", npy([1.0]))), page.upload(("x.npy", npy([2.0]))))
    assert entry["verdict"] == "mismatch"
    assert page.get(f"/comparisons/{entry['id']}")["comparison"]["warnings"] == []


def test_nothing_on_the_way_is_imported_from_where_the_server_was_started(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("open('touched', 'w'); raise ImportError", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    upload = page.upload(("x.npy", npy([1.0])))
    assert page.compare(upload, upload)["verdict"] == "match"
    assert not (tmp_path / "touched").exists()


def test_two_files_of_one_name_are_neither(page: Page) -> None:
    upload = page.upload(("x.npy", npy([1.0])), ("x.npy", npy([2.0, 3.0])), ("y.npy", npy([1.0])))
    entry = page.compare(upload, page.upload(("y.npy", npy([1.0])), ("z.npy", npy([9.0]))))
    rows = page.get(f"/comparisons/{entry['id']}/rows")["rows"]
    assert [row["status"] for row in rows if row["key"] == "y"] == ["match"]
    detail = next(row for row in rows if row["key"] == "x.npy")
    assert detail["status"] == "missing"


def hostile_pickle() -> bytes:
    class Runs:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return shutil.rmtree, ("/no/such/place",)

    return pickle.dumps(Runs())


def bomb() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("x.npy", bytes(4_000_000))
    return file.getvalue()


def encrypted() -> bytes:
    data = bytearray(zipped(x__npy=npy([1.0])))
    for magic, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(magic) + place] |= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("x.zip", b"this is no archive", "is of no format that firstdiff reads"),
        ("x.zip", b"", "is empty"),
        ("x.zip", zipped(), "holds no tensors"),
        ("x.zip", encrypted(), "is encrypted"),
        ("x.zip", bomb(), "unpack"),
        ("x.zip", zipped(x__npy=npy([1.0]))[:60], "cut off"),
        ("x.pth", hostile_pickle(), "rmtree"),
    ],
    ids=["no archive", "no bytes", "empty", "encrypted", "bomb", "cut off", "hostile pickle"],
)
def test_bad_input_is_one_sentence(
    page: Page, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, says: str
) -> None:
    monkeypatch.setenv("FIRSTDIFF_FREE_UNPACKED", "1000000")
    entry = page.compare(page.upload((name, data)), page.upload(("x.npy", npy([1.0]))))
    said = entry["error"] or _told(page, entry["id"])
    assert says in said
    assert "Traceback" not in said
    assert "\n" not in said


def _told(page: Page, comparison: str) -> str:
    rows = page.get(f"/comparisons/{comparison}/rows")["rows"]
    return " ".join(row["reason"] or "" for row in rows)


def test_what_is_wrong_with_one_file_does_not_hurt_the_others(page: Page) -> None:
    files = [("bad.pth", hostile_pickle()), ("good.npy", npy([1.0]))]
    entry = page.compare(page.upload(*files), page.upload(("bad.npy", npy([1.0])), files[1]))
    rows = {row["key"]: row for row in page.get(f"/comparisons/{entry['id']}/rows")["rows"]}
    assert (rows["bad"]["status"], rows["good"]["status"]) == ("failed", "match")
