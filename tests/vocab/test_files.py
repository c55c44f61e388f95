"""One vocabulary in every form that libraries write it in reads as the same tokens."""

from __future__ import annotations

import json
import pickle
import struct
from collections import OrderedDict
from pathlib import Path

import pytest

from firstdiff.errors import ReadError, RefusedError
from firstdiff.vocab import load_vocabulary

TOKENS = ["<unk>", "the", "▁a", "é", "[x]", "{"]
BY_TOKEN = {token: index for index, token in enumerate(TOKENS)}


def sentencepiece_model(tokens: list[str]) -> bytes:
    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    pieces = [field(1, token.encode()) + b"\x15" + struct.pack("<f", -1.5) + b"\x18\x01" for token in tokens]
    return b"".join(field(1, piece) for piece in pieces) + field(2, b"\x08\x01")


FILES: dict[str, bytes] = {
    "vocab.txt": "\n".join([*TOKENS, ""]).encode(),
    "windows.txt": "\r\n".join([*TOKENS, ""]).encode("utf-8-sig"),
    "list.json": json.dumps(TOKENS).encode(),
    "vocab.json": json.dumps(BY_TOKEN).encode(),
    "shuffled.json": json.dumps(dict(reversed(BY_TOKEN.items()))).encode(),
    "by_id.json": json.dumps(dict(enumerate(TOKENS))).encode(),
    "nested.json": json.dumps({"vocab": BY_TOKEN, "version": 1}).encode(),
    "tokenizer.json": json.dumps(
        {
            "model": {"type": "BPE", "vocab": {t: i for t, i in BY_TOKEN.items() if i < 5}, "merges": ["t h", "th e"]},
            "added_tokens": [{"id": 0, "content": "<unk>"}, {"id": 5, "content": "{"}],
        }
    ).encode(),
    "unigram.json": json.dumps({"model": {"type": "Unigram", "vocab": [[t, -1.0] for t in TOKENS]}}).encode(),
    "spm.vocab": "\n".join(f"{token}\t-{index}" for index, token in enumerate(TOKENS)).encode(),
    "spm.model": sentencepiece_model(TOKENS),
    "dict.pkl": pickle.dumps(BY_TOKEN),
    "old.pickle": pickle.dumps(OrderedDict(BY_TOKEN), protocol=2),
    "list.pkl": pickle.dumps(TOKENS, protocol=4),
    "bytes.pkl": pickle.dumps({token.encode(): index for token, index in BY_TOKEN.items()}),
}


@pytest.mark.parametrize("name", FILES)
def test_every_form_reads_as_the_same_tokens(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    found = load_vocabulary(tmp_path / name)
    assert (list(found.tokens), found.size, found.repeated) == (TOKENS, 6, ())


def test_merges_are_read_in_both_of_their_forms(tmp_path: Path) -> None:
    for merges in (["t h", "th e"], [["t", "h"], ["th", "e"]]):
        (tmp_path / "t.json").write_text(json.dumps({"model": {"vocab": BY_TOKEN, "merges": merges}}))
        assert load_vocabulary(tmp_path / "t.json").merges == ("t h", "th e")


def test_a_folder_of_a_tokenizer_gives_tokens_and_merges(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_bytes(FILES["vocab.json"])
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\nth e\n")
    found = load_vocabulary(tmp_path)
    assert (found.size, found.merges) == (6, ("t h", "th e"))


def test_gaps_and_repeats_are_told(tmp_path: Path) -> None:
    (tmp_path / "v.json").write_text('{"a": 0, "b": 3, "c": 3}')
    found = load_vocabulary(tmp_path / "v.json")
    assert (found.tokens, found.size) == (("a", None, None, "c"), 2)
    assert found.repeated == ("id 3 is both 'b' and 'c'",)
    assert (found.decode(0), found.decode(1), found.decode(99)) == ("'a'", "?", "?")


class Harmful:
    def __reduce__(self) -> tuple[object, ...]:
        return print, ("run",)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("v.txt", b"", "is empty"),
        ("v.json", b"{", "is not valid JSON"),
        ("v.json", b"3", "holds a int, where a list or a dict of tokens is expected"),
        ("v.json", b'{"a": "x"}', "gives 'a' the id 'x', which is no whole number"),
        ("v.json", b'{"a": -1}', "gives 'a' the id '-1'"),
        ("v.json", b"[1]", "has a token that is a int, not a text"),
        ("v.json", b"[]", "holds no tokens"),
        ("v.json", b'{"a": 99999999}', "16,777,216 is the largest"),
        ("v.json", b'{"model": {"vocab": {"a": 0}}, "added_tokens": [1]}', "has an added token without id"),
        ("v.txt", b"\xff\xfe\x00", "is not text in UTF-8"),
        ("v.model", b"\x0a\xff", "ends too early"),
        ("v.model", b"\x0f", "is not a sentencepiece model"),
        ("v.pkl", pickle.dumps({1, 2}), "holds a set, which has no order"),
        ("v.pkl", pickle.dumps(Harmful()), "asks for builtins.print, which firstdiff does not run"),
        ("v.pkl", pickle.dumps({"a": Harmful()}), "asks for builtins.print, which firstdiff does not run"),
        ("v.pkl", b"\x80\x04cut", "pickle"),
    ],
)
def test_files_that_hold_no_vocabulary_are_one_sentence(
    tmp_path: Path, name: str, data: bytes, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ReadError) as error:
        load_vocabulary(tmp_path / name)
    assert says in str(error.value)
    assert str(tmp_path / name) in str(error.value)
    assert capsys.readouterr().out == ""


def test_a_pickle_that_runs_code_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.pkl").write_bytes(pickle.dumps([Harmful()]))
    with pytest.raises(RefusedError):
        load_vocabulary(tmp_path / "v.pkl")


def test_a_folder_without_a_vocabulary_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"holds none of tokenizer\.json"):
        load_vocabulary(tmp_path)
    with pytest.raises(ReadError, match=r"none\.txt: cannot be read"):
        load_vocabulary(tmp_path / "none.txt")
