from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]

TOKENS = ["<pad>", "the", "cat", "sat", "on", "a", "mat"]


def saved(folder: Path, name: str, tokens: list[str], merges: list[str] | None = None) -> Path:
    path = folder / f"{name}.json"
    value = (
        tokens
        if merges is None
        else {"model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": merges}}
    )
    path.write_text(json.dumps(value))
    return path


def test_the_same_tokens_in_another_form_match(firstdiff: Run, tmp_path: Path) -> None:
    text = tmp_path / "b.txt"
    text.write_text("\n".join(TOKENS) + "\n")
    code, out, err = firstdiff("vocab", saved(tmp_path, "a", TOKENS), text)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "MATCH: every id stands for the same token on both sides"


def test_an_inserted_token_shifts_all_behind_it(firstdiff: Run, tmp_path: Path) -> None:
    other = saved(tmp_path, "b", [*TOKENS[:2], "[new]", *TOKENS[2:]])
    code, out, _ = firstdiff("vocab", saved(tmp_path, "a", TOKENS), other)
    assert code == 1
    assert "MISMATCH: 6 of 8 ids stand for another token" in out
    assert "  id 2: 'cat' became '[new]'" in out
    assert "only in the candidate: 1 ('[new]')" in out
    assert "5 tokens have another id on each side, most of them by +1" in out


def test_merges_in_another_order_are_a_mismatch(firstdiff: Run, tmp_path: Path) -> None:
    merges = ["t h", "th e", "c a"]
    reference = saved(tmp_path, "a", TOKENS, merges)
    code, out, _ = firstdiff("vocab", reference, saved(tmp_path, "b", TOKENS, [merges[0], merges[2], merges[1]]))
    assert code == 1
    assert "MISMATCH: every id stands for the same token, but merges differ" in out
    assert "2 merges differ, first at rank 1: 'th e' became 'c a'" in out
    assert "the same merges in another order" in out


def test_merges_of_one_side_only_are_said_not_to_be_compared(firstdiff: Run, tmp_path: Path) -> None:
    other = saved(tmp_path, "b", TOKENS[::-1])
    _, out, _ = firstdiff("vocab", saved(tmp_path, "a", TOKENS, ["t h"]), other)
    assert "only the reference has merges, so their order was not compared" in out


def test_the_json_holds_sizes_and_first_differences(firstdiff: Run, tmp_path: Path) -> None:
    code, out, _ = firstdiff(
        "vocab", saved(tmp_path, "a", TOKENS), saved(tmp_path, "b", TOKENS[:-1]), "--format", "json"
    )
    found = json.loads(out)
    assert (code, found["schema"], found["verdict"]) == (1, "firstdiff/vocab/1", "mismatch")
    assert (found["reference"]["size"], found["candidate"]["size"]) == (7, 6)
    assert found["first"] == [{"id": 6, "reference": "mat", "candidate": None}]


@pytest.mark.parametrize("other", ["merges.txt", "none.txt"])
def test_bad_input_is_one_sentence(firstdiff: Run, tmp_path: Path, other: str) -> None:
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\n")
    code, out, err = firstdiff("vocab", saved(tmp_path, "a", TOKENS), tmp_path / other)
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_control_characters_of_tokens_do_not_reach_the_terminal(firstdiff: Run, tmp_path: Path) -> None:
    _, out, _ = firstdiff("vocab", saved(tmp_path, "a", TOKENS), saved(tmp_path, "b", ["\x1b[31m", *TOKENS[1:]]))
    assert "\x1b" not in out
