"""The diffusion example is a folder of scripts: tests run them, or import them as they import each other."""

from __future__ import annotations

import io
import random
import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright

from tests.tools import needs
from tests.web.conftest import FLAGS

EXAMPLE = Path(__file__).parents[2] / "examples" / "diffusion_text"
TINY = "--layers 1 --heads 2 --width 16 --block-size 32 --batch 4 --threads 1".split()

sys.path.insert(0, str(EXAMPLE))


@dataclass(frozen=True)
class Done:
    """The output of a script, and the error it ended with."""

    stdout: str
    error: str


Run = Callable[..., Done]


@pytest.fixture(scope="session")
def run_script() -> Run:
    """Run a script as `python script.py …` does, in this process: importing torch anew takes seconds."""

    def run(script: str, *arguments: object, fails: bool = False) -> Done:
        printed, error = io.StringIO(), ""
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
            patch.setattr(sys, "argv", [script, *map(str, arguments)])
            try:
                runpy.run_path(str(EXAMPLE / script), run_name="__main__")
            except SystemExit as end:
                error = str(end.code)
        assert bool(error) == fails, error + printed.getvalue()
        return Done(printed.getvalue(), error)

    return run


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of our own to train on."""
    generator = random.Random(0)
    words = "the quick brown fox jumps over lazy dog and then runs home".split()
    path = tmp_path_factory.mktemp("book") / "book.txt"
    path.write_text(" ".join(generator.choice(words) for _ in range(400)), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny_run(book: Path, run_script: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model after three steps: its scripts and files are real, its text is noise."""
    folder = tmp_path_factory.mktemp("tiny")
    run_script("train.py", "--text", book, "--run", folder, "--steps", 3, *TINY)
    return folder


@pytest.fixture(scope="session")
def random_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with random weights in every layer, whose predictions are far from uniform."""
    import torch
    from model import Config, DiffusionText, save_model  # type: ignore[import-not-found]

    torch.manual_seed(0)
    model = DiffusionText(Config(vocab_size=11, block_size=24, layers=2, heads=2, width=16, steps=8))
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn_like(value) * 0.3)
    folder = tmp_path_factory.mktemp("random")
    save_model(model, list("abcdefghij "), ["abc", "bad", "cab", "fad", "head"], folder)
    return folder


@pytest.fixture(scope="session")
def exported(random_weights: Path, run_script: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The random model as the pages load it, with Python's values and the wrong models beside it."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("exported")
    run_script("export_to_onnx.py", "--weights", random_weights, "--out", folder, "--faulty")
    run_script("debug_python.py", "--weights", random_weights, "--model", folder)
    return folder


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built pages."""
    from tests.examples.pages import build_pages

    folder = tmp_path_factory.mktemp("pages")
    build_pages(folder)
    return folder


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=needs("chromium"), args=FLAGS)
    yield browser
    browser.close()
