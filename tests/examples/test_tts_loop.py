"""The loop of a port: from all faults at once to none, by the plan's next task alone."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.cli.conftest import Done, firstdiff
from tests.event_loop import in_own_loop
from tests.examples.tts_port import EXAMPLE, Project

__all__ = ["firstdiff"]

pytestmark = pytest.mark.xdist_group("tts-port")

FAULTS = {one["name"]: one for one in tomllib.loads((EXAMPLE / "faults.toml").read_text(encoding="utf-8"))["fault"]}
STORY = list(FAULTS)  # in the order of the pipeline
COMPONENTS = 7


class Port:
    """A project whose port takes its faults from a file, as it would have them in its source."""

    def __init__(self, project: Project) -> None:
        self.folder = project.folder
        program = self.folder / "port" / "target" / "release" / "tts-port"
        program.rename(program.with_name("built"))
        program.write_text('#!/bin/sh\nTTS_FAULT=$(cat port/faults) exec port/target/release/built "$@"\n')
        program.chmod(0o755)
        settings = self.folder / "firstdiff.toml"
        text = settings.read_text(encoding="utf-8")
        assert "port/src/*.rs" in text
        settings.write_text(text.replace("port/src/*.rs", "port/faults"), encoding="utf-8")

    def has(self, faults: Iterable[str]) -> None:
        (self.folder / "port" / "faults").write_text(",".join(faults), encoding="utf-8")

    def fixes(self) -> str:
        return (self.folder / "FIXES.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Port:
    return Port(Project.with_golden(tmp_path_factory))


def test_the_plan_leads_from_all_faults_to_none(
    port: Port, firstdiff: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(port.folder)
    assert firstdiff("plan").code == 0
    for step, fault in enumerate(STORY):
        port.has(STORY[step:])
        assert firstdiff("validate").code == 1
        task = json.loads(firstdiff("plan", "--next", "--format", "json").out)["task"]
        expected = FAULTS[fault]
        assert task["tensor"] == expected["tensor"], task
        # two faults in one tensor fit no single cause: then none may be named, but not a wrong one
        together = any(FAULTS[other]["tensor"] == expected["tensor"] for other in STORY[step + 1 :])
        assert task["cause"] in {expected["cause"], None if together else expected["cause"]}, task
        assert task["component"] == expected["tensor"].partition(".")[0]
        assert task["check"] == f"firstdiff validate --component {task['component']}"
    port.has([])
    done = firstdiff("plan", "--until", "full", "--completion-promise", "SOUNDS RIGHT")
    assert (done.code, done.out) == (0, "SOUNDS RIGHT\n")
    assert firstdiff("plan", "--next").out == "everything passes; there is no next task\n"

    told = re.findall(r"^- (\S+?): .* before, .* now; cause `(\S+)`$", port.fixes(), re.MULTILINE)
    # a tensor is told once, when the last of its faults is mended
    story = list({FAULTS[fault]["tensor"]: FAULTS[fault]["cause"] for fault in STORY}.items())
    assert [one for one in told if one in story] == story
    plan = (port.folder / "PLAN.md").read_text(encoding="utf-8")
    assert "- [ ]" not in plan
    assert plan.count("- [x]") == 2 + COMPONENTS


def test_an_agent_is_led_by_the_same_tasks(port: Port) -> None:
    """Over stdio, with the SDK's own client and `firstdiff mcp` as a process of its own."""
    pytest.importorskip("mcp")
    story = ["mel-window", "adaln-silu", "weight-norm"]
    assert in_own_loop(_tasks_by_mcp(port, story)) == [(FAULTS[one]["tensor"], FAULTS[one]["cause"]) for one in story]


async def _tasks_by_mcp(port: Port, story: list[str]) -> list[tuple[Any, Any]]:
    from mcp import Client, StdioServerParameters

    words = ["-m", "firstdiff", "mcp", "--project", str(port.folder)]
    server = StdioServerParameters(command=sys.executable, args=words, cwd=str(port.folder))
    tasks: list[tuple[Any, Any]] = []
    async with Client(server) as client:

        async def call(tool: str) -> Any:
            result = await client.call_tool(tool, {})
            assert not result.is_error, result.content
            return result.structured_content

        for step in range(len(story)):
            port.has(story[step:])
            assert not (await call("validate"))["passed"]
            task = await call("plan_next")
            tasks.append((task["tensor"], task["cause"]))
        port.has([])
        assert (await call("validate"))["passed"]
        assert (await call("plan_next"))["done"]
    return tasks
