"""The tools, called by the SDK's own client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.event_loop import in_own_loop
from tests.workflows.scratch import scratch_project

pytest.importorskip("mcp")

Run = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    values = np.random.default_rng(0).normal(size=(40, 50)).astype(np.float32)
    np.savez(project / "ref.npz", x=values, y=np.array([1.0, np.nan, np.inf]))
    np.savez(project / "cand.npz", x=values * 1.5, y=np.array([1.0, np.nan, np.inf]))
    (project / "rules.toml").write_text('[[rules]]\nname = "*"\ncheck = "finite"\n')
    np.savez(tmp_path / "secret.npz", x=values)
    return project


def calls(folder: Path, *wanted: tuple[str, dict[str, Any]]) -> list[Any]:
    """Call tools one after the other on one server: results as JSON, errors as text."""
    from mcp import Client

    from firstdiff.cli.mcp import server

    async def run() -> list[Any]:
        found: list[Any] = []
        async with Client(server(folder)) as client:
            for name, arguments in wanted:
                result = await client.call_tool(name, arguments)
                found.append(result.content[0].text if result.is_error else result.structured_content)  # type: ignore[union-attr]
        return found

    return in_own_loop(run())


SIDES = {"reference": "ref.npz", "candidate": "cand.npz"}


def test_compare_names_the_first_divergence_and_its_cause(folder: Path) -> None:
    (found,) = calls(folder, ("compare", SIDES))
    assert (found["verdict"], found["first_divergence"]["key"]) == ("mismatch", "x")
    assert found["first_divergence"]["row"]["causes"][0]["cause"] == "scale.constant"
    assert [row["key"] for row in found["rows"]] == ["x", "y"]
    (short,) = calls(folder, ("compare", {**SIDES, "max_rows": 1}))
    assert (len(short["rows"]), short["rows_left_out"]) == (1, 1)


def test_explain_and_diagnose_answer_for_one_tensor(folder: Path) -> None:
    explained, diagnosed = calls(folder, ("explain", {**SIDES, "name": "x"}), ("diagnose", {**SIDES, "name": "x"}))
    assert (explained["paired_by"], explained["row"]["status"]) == ("exact", "mismatch")
    assert any("Mismatched elements" in sentence for sentence in explained["sentences"])
    assert diagnosed["rows"][0]["causes"][0]["fix"].startswith("divide by 1.5")


def test_runs_that_match_have_no_divergence(folder: Path) -> None:
    np.savez(folder / "same.npz", x=np.ones(3))
    np.savez(folder / "too.npz", x=np.ones(3))
    (found,) = calls(folder, ("first_divergence", {"reference": "same.npz", "candidate": "too.npz"}))
    assert found == {"result": None}


def test_tensors_come_as_lists_statistics_and_slices(folder: Path) -> None:
    listed, figures, part, special = calls(
        folder,
        ("list_tensors", {"trace": "ref.npz", "glob": "x*"}),
        ("tensor_statistics", {"trace": "ref.npz", "name": "y"}),
        ("tensor_slice", {"trace": "ref.npz", "name": "x", "slice": "0,:2"}),
        ("tensor_slice", {"trace": "ref.npz", "name": "y", "slice": ":"}),
    )
    assert listed["tensors"] == [{"key": "x", "shape": [40, 50], "dtype": "float32", "error": None}]
    assert (figures["nan"], figures["inf"], figures["max"]) == (1, 1, 1.0)
    assert (part["shape"], len(part["values"])) == ([2], 2)
    assert special["values"] == [1.0, "nan", "inf"]


def test_rules_fail_with_key_index_and_value(folder: Path) -> None:
    (found,) = calls(folder, ("check_rules", {"trace": "ref.npz", "rules": "rules.toml"}))
    (failure,) = found["failures"]
    assert (found["verdict"], failure["key"], failure["index"], failure["value"]) == ("fail", "y", [1], "nan")


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("compare", {"reference": "../secret.npz", "candidate": "cand.npz"}, "lies outside the project's folder"),
        ("list_tensors", {"trace": "/etc"}, "lies outside the project's folder"),
        ("list_tensors", {"trace": "link.npz"}, "lies outside the project's folder"),
        ("check_rules", {"trace": "ref.npz", "rules": "../rules.toml"}, "lies outside the project's folder"),
        ("tensor_slice", {"trace": "ref.npz", "name": "z", "slice": ":"}, "has no tensor 'z'"),
        ("tensor_slice", {"trace": "ref.npz", "name": "x", "slice": ":"}, "has 2,000 values; ask for 1,024 or fewer"),
        ("tensor_slice", {"trace": "ref.npz", "name": "x", "slice": "a"}, "has a part 'a'"),
        ("tensor_statistics", {"trace": "none.npz", "name": "x"}, "does not exist"),
        ("explain", {**SIDES, "name": "q"}, "neither side has a tensor 'q'"),
        ("explain", SIDES, "explain needs the argument 'name'; it takes reference, candidate, name"),
        ("diagnose", {**SIDES, "key": "x"}, "diagnose has no argument 'key'; it takes reference, candidate, name"),
        ("tensor_slice", {"trace": "ref.npz", "name": "x", "slice": 5}, "tensor_slice: slice is 5: Input should be a"),
        ("validate", {}, "has no firstdiff.toml"),
        ("plan_next", {}, "has no firstdiff.toml"),
    ],
)
def test_a_mistake_is_one_sentence_and_the_server_goes_on(
    folder: Path, tool: str, arguments: dict[str, Any], says: str
) -> None:
    (folder / "link.npz").symlink_to(folder.parent / "secret.npz")
    error, after = calls(folder, (tool, arguments), ("list_tensors", {"trace": "ref.npz"}))
    assert says in error
    assert "\n" not in error
    assert len(after["tensors"]) == 2


def test_tools_that_only_read_say_so_and_none_takes_a_command(folder: Path) -> None:
    from mcp import Client

    from firstdiff.cli.mcp import server

    async def listed() -> list[Any]:
        async with Client(server(folder)) as client:
            return list((await client.list_tools()).tools)

    tools = in_own_loop(listed())
    reading = {tool.name: bool(tool.annotations and tool.annotations.read_only_hint) for tool in tools}
    assert [name for name, reads in reading.items() if not reads] == ["validate"]
    assert all(tool.output_schema and tool.description for tool in tools)
    assert not any("command" in tool.input_schema["properties"] for tool in tools)
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    assert [name for name in reading if f"| `{name}` |" not in page] == []


def test_reading_leaves_no_file_behind(folder: Path) -> None:
    before = sorted(path.name for path in folder.rglob("*"))
    calls(folder, ("compare", SIDES), ("diagnose", SIDES), ("tensor_statistics", {"trace": "ref.npz", "name": "x"}))
    assert sorted(path.name for path in folder.rglob("*")) == before


def test_validate_without_golden_data_says_what_to_run(tmp_path: Path) -> None:
    (error,) = calls(scratch_project(tmp_path / "p"), ("validate", {}))
    assert "firstdiff golden" in error


def test_plan_next_is_what_to_do_first(tmp_path: Path) -> None:
    (task,) = calls(scratch_project(tmp_path / "p"), ("plan_next", {}))
    assert (task["done"], task["check"]) == (False, "firstdiff golden --input short")


def test_a_folder_that_is_not_there_is_bad_usage(firstdiff: Run, tmp_path: Path) -> None:
    code, _, err = firstdiff("mcp", "--project", tmp_path / "none")
    assert (code, "is not a folder" in err) == (2, True)
