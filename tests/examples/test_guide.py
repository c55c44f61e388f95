"""The guide to web inference: the commands of docs/web-inference.md, with the trained model, in Chromium."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import hatch_build
import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page

import firstdiff as fd
from tests.examples.conftest import EXAMPLE, Run
from tests.examples.pages import (
    WEB,
    generate,
    load,
    open_context,
    open_debugger,
    open_demo,
    planted,
    press,
    python_generation,
    serve,
)
from tests.examples.verdicts import Generation, Judge

pytestmark = pytest.mark.xdist_group("examples")

GUIDE = Path(__file__).parents[2] / "docs" / "web-inference.md"
SEEDS = range(20)
# packages are installed once for all tests, and the test's own server stands for Python's
ELSEWHERE = ("npm ci", "python -m http.server 8000 --directory dist")


def commands() -> list[list[str]]:
    """Return the lines of each block of commands."""
    blocks = re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [block.splitlines() for block in blocks]


def follow(block: list[str], folder: Path) -> str:
    """Run the lines of a block in a copy of the example; return what they print."""
    printed = ""
    for line in (line for line in block if line not in ELSEWHERE):
        program, _, rest = line.partition(" ")
        if program == "cd":
            folder = folder / rest
            continue
        start = {"python": [sys.executable], "firstdiff": [sys.executable, "-m", "firstdiff"], "npm": ["npm"]}[program]
        ran = subprocess.run([*start, *rest.split()], check=False, cwd=folder, capture_output=True, encoding="utf-8")
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
        printed += ran.stdout
    return printed


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example after sections 1 and 2."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    hatch_build.install_packages(WEB)
    folder = tmp_path_factory.mktemp("guide") / "examples" / "diffusion_text"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "public", "__pycache__"))
    (folder.parents[1] / "clients").symlink_to(EXAMPLE.parents[1] / "clients")
    (folder / "web" / "node_modules").symlink_to(WEB / "node_modules")
    write, build, *_ = commands()
    follow(write, folder)
    follow(build, folder)
    return folder


@pytest.fixture(scope="module")
def context(browser: Browser, example: Path) -> Iterator[BrowserContext]:
    with serve(example / "web" / "dist", {}) as address, open_context(browser, address) as context:
        yield context


@pytest.fixture(scope="module")
def debugger(context: BrowserContext) -> Page:
    page = open_debugger(context)
    load(page)
    page.get_by_label("Seed").fill("0")
    return page


@pytest.fixture(scope="module")
def python_trace(example: Path) -> Path:
    """Python's run, recorded as section 6 says."""
    record, _ = commands()[2]
    follow([record], example)
    return example / "python.trace"


def save_trace(page: Page, target: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("button", name="Save Trace").click()
    download.value.save_as(target)
    return target


def test_every_stage_equals_pythons_and_the_text_improves(debugger: Page) -> None:
    load(debugger)
    assert press(debugger, "Test Single Inference").startswith("The logits equal Python's")
    assert press(debugger, "Test One Denoising Step") == "Every stage of the step equals Python's."
    verdict = press(debugger, "Run Full Generation")
    assert verdict.startswith("Improving: ")
    assert verdict.endswith("The text equals Python's at every step.")
    assert debugger.locator("#log").get_by_text("FAILED").count() == 0


@pytest.mark.usefixtures("python_trace")
def test_both_runs_as_traces_match_and_keep_the_rules(debugger: Page, example: Path) -> None:
    load(debugger)
    press(debugger, "Run Full Generation")
    save_trace(debugger, example / "browser.trace.zip")
    (_, compare), check = commands()[2:]
    assert follow([compare], example).count("MATCH: ") == 1
    follow(check, example)


@pytest.fixture(scope="module")
def python_generations() -> list[Generation]:
    """Python's generations of twenty seeds."""
    return [python_generation(EXAMPLE / "weights", seed, 64) for seed in SEEDS]


def test_no_generation_of_a_healthy_sampler_is_suspected(
    example: Path, python_generations: list[Generation], tmp_path: Path
) -> None:
    report = json.loads((example / "web" / "public" / "model" / "debug_step_output.json").read_text())
    words = (EXAMPLE / "weights" / "words.txt").read_text(encoding="utf-8").split()
    told = Judge.build(tmp_path).verdicts(python_generations, report["bands"], report["quality"], words)
    assert {verdict.kind for verdict in told} == {"improving"}


def smallest_gap(page: Page, seed: int, run_script: Run, folder: Path) -> float:
    """Return how close the two characters were that Python and the browser first chose differently."""
    page.get_by_label("Seed").fill(str(seed))
    load(page)
    press(page, "Run Full Generation")
    save_trace(page, folder / "browser.trace.zip")
    run_script("generate.py", "--seed", seed, "--trace", folder / "python.trace")
    python, browser = fd.open_trace(folder / "python.trace"), fd.open_trace(folder / "browser.trace.zip")
    for key in (key for key in python if key.startswith("sampled")):
        ours, theirs = (trace[key].values()[0] for trace in (python, browser))
        if not np.array_equal(ours, theirs):
            position = int(np.flatnonzero(ours != theirs)[0])
            probs, gumbel = (python[key.replace("sampled", name)].values()[0, position] for name in ("probs", "gumbel"))
            value = np.log(probs) + gumbel
            return float(abs(value[ours[position]] - value[theirs[position]]))
    raise AssertionError("the traces agree, though the texts did not")


def test_the_browser_writes_what_python_writes_but_for_ties(
    context: BrowserContext,
    debugger: Page,
    python_generations: list[Generation],
    run_script: Run,
    tmp_path: Path,
) -> None:
    page = context.new_page()
    open_demo(page)
    different = [seed for seed in SEEDS if generate(page, Seed=seed) != python_generations[seed].last]
    page.close()
    assert len(different) <= 1
    assert all(smallest_gap(debugger, seed, run_script, tmp_path) < 1e-5 for seed in different)


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        ("Sampling: bad cumulative sum", "One character repeated: "),
        ("Sampling: generator does not vary", "Mostly unchanged: "),
        ("Vocabulary: permuted", "Pure noise: "),
        ("Model: sigma passed as int", "Not finite: "),
    ],
)
def test_the_verdict_on_the_text_of_a_faulty_sampler(debugger: Page, fault: str, verdict: str) -> None:
    debugger.get_by_label("Seed").fill("0")
    with planted(debugger, fault):
        assert press(debugger, "Run Full Generation").startswith(verdict)


def test_a_fault_in_the_browser_is_named_by_the_comparison(debugger: Page, python_trace: Path, tmp_path: Path) -> None:
    debugger.get_by_label("Seed").fill("0")
    with planted(debugger, "Stagger: wrong sign"):
        press(debugger, "Run Full Generation")
        found = fd.compare(python_trace, save_trace(debugger, tmp_path / "browser.trace.zip"))
    assert found.first_divergence is not None
    assert found.first_divergence.name == "staggered_score"
    assert found.diagnosis[0].cause == "score.stagger"
