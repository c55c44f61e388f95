"""A scripted agent goes through the loop of docs/agents.md: read the next task, look, change a constant, validate."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.event_loop import in_own_loop
from tests.workflows.scratch import PROGRAM, changed, scratch_project

pytest.importorskip("mcp")

Run = Callable[..., Any]
ROOT = Path(__file__).parents[2]
# two bugs: the second shows only once the first is gone
BROKEN = changed("2.0 * x", "2.5 * x", changed("x / 1.5", "x / 1.2"))
SOURCES = {"encoder.norm": r"x / ([\d.]+)", "head.logits": r"([\d.]+) \* x for x in mixed"}


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, firstdiff: Run) -> Path:
    """A project with golden data and a port whose two constants are wrong; the current folder."""
    folder = scratch_project(tmp_path / "port", port=BROKEN)
    monkeypatch.chdir(folder)
    code, _, err = firstdiff("golden")
    assert code == 0, err
    return folder


def scale_constant(port: Path, key: str, ratio: float) -> None:
    """Change the constant behind a tensor by what the slices say: candidate / reference."""
    program = (port / "port.py").read_text(encoding="utf-8")
    found = re.search(SOURCES[key], program)
    assert found is not None
    constant = float(found[1])
    right = constant * ratio if key == "encoder.norm" else constant / ratio
    start, stop = found.span(1)
    (port / "port.py").write_text(f"{program[:start]}{right:.6g}{program[stop:]}", encoding="utf-8")


def test_an_agent_repairs_a_port_with_commands(firstdiff: Run, port: Path) -> None:
    fixed: list[str] = []
    code, out, _ = firstdiff("validate", "--format", "json")
    while code != 0:
        assert len(fixed) < 4, out
        run = json.loads(out)
        run = run["runs"][0] if "runs" in run else run
        task = json.loads(firstdiff("plan", "--next", "--format", "json").out)["task"]
        assert task["cause"] == "scale.constant"
        values = []
        for side in (run["golden"], run["candidate"]):
            told = firstdiff("inspect", side, task["tensor"], "--slice", "0,:", "--format", "json").out
            values.append(json.loads(told)["tensors"][0]["slice"]["values"])
        scale_constant(port, task["tensor"], values[1][1] / values[0][1])
        fixed.append(task["tensor"])
        # the task names the command that tells whether its stage passes
        assert task["check"] == f"firstdiff validate --component {task['component']}"
        assert firstdiff(*task["check"].split()[1:]).code == 0
        code, out, _ = firstdiff("validate", "--format", "json")
    assert fixed == ["encoder.norm", "head.logits"]
    assert json.loads(firstdiff("plan", "--next", "--format", "json").out) == {"task": None}


def test_an_agent_repairs_a_port_with_tools(port: Path) -> None:
    """The same over stdio, with the SDK's own client and `firstdiff mcp` as a process of its own."""
    fixed = in_own_loop(_repair_with_tools(port))
    assert fixed == ["encoder.norm", "head.logits"]
    assert (port / "port.py").read_text(encoding="utf-8") == PROGRAM.replace("2.0 * x", "2 * x")


async def _repair_with_tools(port: Path) -> list[str]:
    from mcp import Client, StdioServerParameters

    words = ["-m", "firstdiff", "mcp", "--project", str(port)]
    server = StdioServerParameters(command=sys.executable, args=words, cwd=str(port), env=dict(os.environ))
    fixed: list[str] = []
    async with Client(server) as client:

        async def call(tool: str, **arguments: Any) -> Any:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content
            return result.structured_content

        (run,) = (await call("validate"))["runs"]
        while not (task := await call("plan_next"))["done"]:
            assert len(fixed) < 4, task
            key = task["tensor"]
            assert key == run["first"]
            assert task["cause"] == "scale.constant"
            values = [
                (await call("tensor_slice", trace=side, name=key, slice="0,:"))["values"]
                for side in (run["golden"], run["candidate"])
            ]
            scale_constant(port, key, values[1][1] / values[0][1])
            fixed.append(key)
            assert (await call("validate", component=task["component"]))["passed"]
            answer = await call("validate")
            (run,) = answer["runs"]
        assert answer["passed"]
    return fixed


def test_the_skill_is_one_page_of_commands_that_exist() -> None:
    from firstdiff.cli.main import COMMANDS

    text = (ROOT / "skills" / "firstdiff" / "SKILL.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 80
    assert text.startswith("---\nname: firstdiff\ndescription: ")
    used = set(re.findall(r"(?:^|`)firstdiff (\w+)", text, re.MULTILINE))
    assert used >= {"compare", "inspect", "explain", "diagnose", "check", "mcp"}
    assert used <= set(COMMANDS)
