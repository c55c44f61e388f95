"""A scripted agent goes through the loop of docs/agents.md: validate, look, change a constant, validate again."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.event_loop import in_own_loop
from tests.workflows.scratch import PROGRAM, changed, scratch_project

pytest.importorskip("mcp")

Run = Callable[..., tuple[int, str, str]]
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
    for _ in range(4):
        code, out, _ = firstdiff("validate", "--format", "json")
        report = json.loads(out)
        run = report["runs"][0] if "runs" in report else report
        if code == 0:
            break
        key = run["first"]
        values = []
        for side in (run["golden"], run["candidate"]):
            _, out, _ = firstdiff("inspect", side, key, "--slice", "0,:", "--format", "json")
            values.append(json.loads(out)["tensors"][0]["slice"]["values"])
        scale_constant(port, key, values[1][1] / values[0][1])
        fixed.append(key)
    assert (code, fixed) == (0, ["encoder.norm", "head.logits"])


def test_an_agent_repairs_a_port_with_tools(port: Path) -> None:
    """The same over stdio, with the SDK's own client and `firstdiff mcp` as a process of its own."""
    fixed = in_own_loop(_repair_with_tools(port))
    assert fixed == ["encoder.norm", "head.logits"]
    assert (port / "port.py").read_text(encoding="utf-8") == PROGRAM.replace("2.0 * x", "2 * x")


async def _repair_with_tools(port: Path) -> list[str]:
    from mcp import Client, StdioServerParameters

    words = ["-m", "firstdiff", "mcp", "--project", str(port)]
    server = StdioServerParameters(command=sys.executable, args=words, cwd=str(port))
    fixed: list[str] = []
    async with Client(server) as client:

        async def call(tool: str, **arguments: Any) -> Any:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content
            return result.structured_content

        while not (answer := await call("validate"))["passed"]:
            assert len(fixed) < 4, answer
            (run,) = answer["runs"]
            failing = next(one for one in run["components"] if one["state"] == "fail")
            key = failing["first_failure"]
            assert key == run["first"]
            found = await call("first_divergence", reference=run["golden"], candidate=run["candidate"])
            assert found["result"]["row"]["causes"][0]["cause"] == "scale.constant"
            values = [
                (await call("tensor_slice", trace=side, name=key, slice="0,:"))["values"]
                for side in (run["golden"], run["candidate"])
            ]
            scale_constant(port, key, values[1][1] / values[0][1])
            fixed.append(key)
            assert not (await call("validate", component=failing["name"]))["runs"][0]["error"]
    return fixed


def test_the_skill_is_one_page_of_commands_that_exist() -> None:
    from firstdiff.cli.main import COMMANDS

    text = (ROOT / "skills" / "firstdiff" / "SKILL.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 80
    assert text.startswith("---\nname: firstdiff\ndescription: ")
    used = set(re.findall(r"(?:^|`)firstdiff (\w+)", text, re.MULTILINE))
    assert used >= {"compare", "inspect", "explain", "diagnose", "check", "mcp"}
    assert used <= set(COMMANDS)
