from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from firstdiff.comparing import compare
from firstdiff.errors import UsageError
from firstdiff.json_text import plain
from firstdiff.schema import Note
from firstdiff.store.results import GoneError, Result, ResultFiles, write_result


def written(folder: Path) -> tuple[Result, object]:
    reference = {"a": np.array([1.0, np.nan, np.inf]), "b": np.arange(6).reshape(2, 3), "c": np.array([1 + 2j])}
    candidate = {"a": np.array([1.5, 1.0, np.inf]), "b": np.arange(6).reshape(2, 3), "c": np.array([2 + 2j])}
    comparison = compare(reference, candidate)
    write_result(
        folder, ResultFiles(comparison, ["a line"], {"reference": ["a tensor"]}, {1: "third"}, {"layers": [0]})
    )
    return Result(folder), comparison


def test_a_result_comes_back_as_it_was(tmp_path: Path) -> None:
    result, comparison = written(tmp_path / "x")
    assert plain(result.comparison()) == plain(comparison)
    assert [result.pair(row).key for row in range(3)] == ["a", "b", "c"]
    assert result.rows_text() == b'{"rows": ["a line"]}'
    assert (result.tensors("reference"), result.tensors("third")) == (["a tensor"], [])
    assert (result.third(1), result.third(0)) == ("third", None)
    assert "pairs" not in result.head()
    assert result.choices() == {"layers": [0]}


def test_notes_of_an_earlier_version_were_plain_sentences(tmp_path: Path) -> None:
    result, _ = written(tmp_path / "x")
    file = tmp_path / "x" / "head.json"
    head = json.loads(file.read_text())
    file.write_text(json.dumps({**head, "notes": ["Rows are in the order of their names"]}))
    assert result.comparison().notes == (Note("other", None, "Rows are in the order of their names"),)
    assert result.head()["notes"] == [{"code": "other", "key": None, "text": "Rows are in the order of their names"}]


@pytest.mark.parametrize("row", [-1, 3])
def test_a_row_beyond_the_last(tmp_path: Path, row: int) -> None:
    result, _ = written(tmp_path / "x")
    with pytest.raises(UsageError, match="the comparison has 3, counted from 0"):
        result.pair(row)


def test_a_result_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    _, comparison = written(tmp_path / "x")

    def lines():
        yield "one"
        raise RuntimeError("the power went")

    with pytest.raises(RuntimeError):
        write_result(tmp_path / "y", ResultFiles(comparison, lines(), {}, {}, {}))
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    with pytest.raises(GoneError, match="run the comparison again"):
        Result(tmp_path / "y").head()
