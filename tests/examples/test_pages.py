"""The pages of the diffusion example in a real Chromium, beside the Python sampler."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

import firstdiff as fd
from tests.examples.conftest import Run
from tests.examples.pages import (
    generate,
    load,
    open_context,
    open_debugger,
    open_demo,
    planted,
    press,
    python_text,
    serve,
)
from tests.web.watching import axe, overflows

pytestmark = pytest.mark.xdist_group("examples")

# the mistake, the stage that must be named first, and the cause
FAULTS = [
    ("Stagger: wrong sign", "staggered_score", "score.stagger: the correction is added"),
    ("Stagger: divided before subtracting", "staggered_score", "score.stagger: the score is divided before"),
    ("Stagger: integer division", "staggered_score", "score.stagger: the correction is 0"),
    ("Transition: diagonal without redraws", "transition", "transition.kernel: the diagonal lacks"),
    (
        "Transition: vocabulary off by one",
        "transition",
        "transition.kernel: redraws are divided by one",
    ),
    ("Transition: not normalised", "transition", "transition.kernel: redraws are not divided"),
    ("Sampling: bad cumulative sum", "sampled", "sampling.draw: probabilities and draws agree"),
    ("Sampling: generator does not vary", "gumbel", "sampling.draw: the draws are not those"),
    ("Schedule: other bounds", "schedule.sigma", "noise.schedule: sigma goes from 20 to 0.0001"),
    ("Schedule: one step too few", "schedule.t", "loop.steps: the loop has 8 steps, Python's has 9"),
    ("Schedule: last step keeps noise", "schedule.delta_sigma", "noise.schedule: the last step removes"),
    ("Vocabulary: permuted", "text", "vocab.mismatch: all ids agree"),
    ("Vocabulary: another size", "vocab_size", "vocab.mismatch: the sampler counts 10 characters"),
    ("Model: wrong number of heads", "log_score", "attention.heads: the logits are those of the same weights with 4"),
    ("Model: sigma passed as int", "sigma", "dtype.integer: the model is given 0"),
    ("Model: float16 logits", "log_score", "dtype.fp16: every logit"),
    ("Model: an old one from the cache", "log_score", "weights.differ: model.onnx is not the file"),
]


@pytest.fixture(scope="module")
def mounts(exported: Path) -> dict[str, Path]:
    """Folders of models by the address under which they are served."""
    return {"model": exported}


@pytest.fixture(scope="module")
def context(browser: Browser, pages: Path, mounts: dict[str, Path]) -> Iterator[BrowserContext]:
    with serve(pages, mounts) as address, open_context(browser, address) as context:
        yield context


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    yield page
    page.close()


@pytest.fixture(scope="module")
def debugger(context: BrowserContext) -> Page:
    """The debugger, one page for many tests: loading the runtime takes seconds."""
    return open_debugger(context)


def copy_model(exported: Path, folder: Path) -> Path:
    shutil.copytree(exported, folder)
    return folder


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_the_browser_writes_what_python_writes(page: Page, random_weights: Path, seed: int) -> None:
    open_demo(page)
    assert generate(page, Seed=seed, Steps=16) == python_text(random_weights, seed, 16)


def test_a_prefix_is_kept(page: Page, random_weights: Path) -> None:
    open_demo(page)
    text = generate(page, Steps=8, **{"Prefix to keep": "a bad head "})
    assert text.startswith("a bad head ")
    assert text == python_text(random_weights, 0, 8, "a bad head ")


def test_the_demo_shows_step_and_sigma_and_can_be_paused(page: Page) -> None:
    open_demo(page)
    page.get_by_label("Steps").fill("1000")
    page.get_by_role("button", name="Start").click()
    page.get_by_role("button", name="Pause").click()
    status = page.get_by_role("status")
    expect(status).to_have_text(re.compile(r"Step \d+ of 1001, sigma \d.*, \d+\.\d % of characters changed\."))
    expect(page.get_by_role("button", name="Resume")).to_be_enabled()
    page.get_by_role("button", name="Reset").click()
    expect(status).to_have_text("Ready.")
    expect(page.locator("#text")).to_have_text("")
    expect(page.get_by_role("button", name="Start")).to_be_enabled()
    assert axe(page) == []
    page.set_viewport_size({"width": 360, "height": 700})
    assert not overflows(page)


def test_continuous_mode_goes_on_with_the_next_seed(page: Page) -> None:
    open_demo(page)
    page.get_by_label("Steps").fill("2")
    page.get_by_label("Continuous").check()
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_label("Seed")).not_to_have_value("0")
    expect(page.get_by_label("Seed")).not_to_have_value("1")
    page.get_by_label("Continuous").uncheck()
    expect(page.get_by_role("status")).to_contain_text("Done.")


def test_another_model_comes_from_an_address_or_from_files(
    page: Page, exported: Path, mounts: dict[str, Path], tmp_path: Path
) -> None:
    mounts["other"] = exported
    mounts["model"] = tmp_path
    try:
        page.goto("/index.html")
        expect(page.get_by_role("alert")).to_contain_text("model.onnx and vocab.json and metadata.json not found")
        page.get_by_text("Another model").click()
        page.get_by_label("Address").fill("other")
        page.get_by_role("button", name="Load").click()
        expect(page.get_by_role("status")).to_contain_text("Ready: 2 layers of width 16, 24 characters")
        page.goto("/index.html")
        page.get_by_text("Another model").click()
        names = ["model.onnx", "vocab.json", "metadata.json"]
        page.get_by_label("Files").set_input_files([exported / name for name in names])
        expect(page.get_by_role("status")).to_contain_text("Ready: 2 layers of width 16, 24 characters")
        page.get_by_label("Files").set_input_files([exported / name for name in names[1:]])
        expect(page.get_by_role("alert")).to_contain_text("model.onnx not found: export_to_onnx.py writes")
    finally:
        mounts["model"] = exported


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("vocab.json", '["a", "b"]', "vocab.json has 2 characters, but metadata.json says 11"),
        ("vocab.json", '["a", ', "vocab.json is not valid JSON"),
        (
            "vocab.json",
            json.dumps(list(" jihgfedcba")),
            "vocab.json is not the file that metadata.json was written with",
        ),
        ("metadata.json", "{}", "metadata.json has no positive number for vocab_size, block_size"),
        ("debug_step_output.json", "{}", "debug_step_output.json has no seed, steps, step"),
        ("model.onnx", "no model", "model.onnx could not be loaded by onnxruntime-web"),
    ],
)
def test_files_that_do_not_fit_are_named(
    debugger: Page, exported: Path, mounts: dict[str, Path], tmp_path: Path, file: str, text: str, sentence: str
) -> None:
    mounts["broken"] = copy_model(exported, tmp_path / "broken")
    (tmp_path / "broken" / file).write_text(text)
    load(debugger, "broken")
    expect(debugger.get_by_role("log")).to_contain_text(sentence)


def test_a_block_size_the_model_does_not_have_is_named(
    debugger: Page, exported: Path, mounts: dict[str, Path], tmp_path: Path
) -> None:
    mounts["broken"] = copy_model(exported, tmp_path / "broken")
    path = tmp_path / "broken" / "metadata.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "block_size": 32}))
    load(debugger, "broken")
    sentence = "model.onnx has int64 [1, 24] for ids, but int64 [1, 32] was expected"
    expect(debugger.get_by_role("alert")).to_contain_text(sentence)


def test_pythons_values_of_another_model_are_named(
    debugger: Page, exported: Path, mounts: dict[str, Path], tmp_path: Path
) -> None:
    mounts["broken"] = copy_model(exported, tmp_path / "broken")
    path = tmp_path / "broken" / "debug_step_output.json"
    report = json.loads(path.read_text())
    report["step"]["ids"] = report["step"]["ids"][:12]
    path.write_text(json.dumps(report))
    load(debugger, "broken")
    sentence = "debug_step_output.json has 12 characters of a vocabulary of 22, but the model has 24 of 11"
    expect(debugger.get_by_role("alert")).to_contain_text(sentence)


def test_what_is_no_address_is_said(debugger: Page) -> None:
    load(debugger, "http://")
    expect(debugger.get_by_role("alert")).to_contain_text("http:// is no address of a folder")


def test_a_fault_whose_model_was_not_written_is_said(
    debugger: Page, exported: Path, mounts: dict[str, Path], tmp_path: Path
) -> None:
    mounts["plain"] = copy_model(exported, tmp_path / "plain")
    shutil.rmtree(tmp_path / "plain" / "faulty")
    load(debugger, "plain")
    debugger.get_by_label("Model: wrong number of heads").check()
    sentence = "faulty/heads.onnx not found: export_to_onnx.py writes it with --faulty."
    expect(debugger.get_by_role("alert")).to_have_text(sentence)
    debugger.get_by_label("Model: wrong number of heads").uncheck()
    expect(debugger.get_by_role("status")).to_have_text("Model loaded.")


def test_without_webassembly_the_page_says_so(page: Page) -> None:
    page.add_init_script("delete globalThis.WebAssembly")
    page.goto("/index.html")
    expect(page.get_by_role("alert")).to_contain_text("This browser has no WebAssembly")


def test_text_the_vocabulary_lacks_is_refused(page: Page) -> None:
    open_demo(page)
    page.get_by_label("Prefix to keep").fill("ROMEO")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text('the vocabulary has no "R", "O", "M", "E"')


def test_a_healthy_model_equals_python_at_every_stage(
    debugger: Page, tmp_path: Path, run_script: Run, random_weights: Path
) -> None:
    load(debugger)
    assert press(debugger, "Test Single Inference").startswith("The logits equal Python's")
    assert press(debugger, "Test One Denoising Step") == "Every stage of the step equals Python's."
    assert "The text equals Python's at every step." in press(debugger, "Run Full Generation")
    assert debugger.locator("#rows tr").count() == 9
    assert debugger.locator("#log").get_by_text("FAILED").count() == 0
    assert axe(debugger) == []

    with debugger.expect_download() as download:
        debugger.get_by_role("button", name="Save Log").click()
    assert "Every stage of the step equals Python's." in download.value.path().read_text()
    debugger.get_by_role("button", name="Clear Logs").click()
    expect(debugger.get_by_role("log")).to_be_empty()

    with debugger.expect_download() as download:
        debugger.get_by_role("button", name="Save Trace").click()
    download.value.save_as(tmp_path / "browser.trace.zip")
    run_script("generate.py", "--weights", random_weights, "--trace", tmp_path / "python.trace")
    compared = fd.compare(tmp_path / "python.trace", tmp_path / "browser.trace.zip", atol=1e-4, rtol=1e-4)
    assert compared.verdict == "match"
    assert compared.summary.match == 3 + 9 * 9


@pytest.mark.parametrize(("fault", "tap", "cause"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
def test_every_fault_is_named_at_its_stage(debugger: Page, fault: str, tap: str, cause: str) -> None:
    with planted(debugger, fault):
        verdict = press(debugger, "Test One Denoising Step")
    assert verdict.startswith(f"First difference at {tap}. {cause}")


def test_logits_that_are_not_finite_are_the_verdict(debugger: Page) -> None:
    with planted(debugger, "Model: sigma passed as int"):
        assert press(debugger, "Test Single Inference").startswith(
            "The logits differ from Python's, for they are not finite"
        )
        verdict = press(debugger, "Run Full Generation")
    assert verdict.startswith("Not finite: the logits of step")
    assert "Suspect: model: its inputs, above all sigma." in verdict


def test_a_generation_stops_at_the_first_difference_where_asked(debugger: Page) -> None:
    with planted(debugger, "Stagger: wrong sign"):
        debugger.get_by_label("Stop at first difference").check()
        verdict = press(debugger, "Run Full Generation")
        debugger.get_by_label("Stop at first difference").uncheck()
    stopped = re.fullmatch(r"Stopped at step (\d), whose text differs from Python's\.", verdict)
    assert stopped, verdict


def test_a_sampler_that_counts_other_characters_is_stopped(debugger: Page) -> None:
    with planted(debugger, "Vocabulary: another size"):
        press(debugger, "Run Full Generation")
        sentence = "The sampler counts 10 characters, but the model has 11"
        expect(debugger.get_by_role("alert")).to_contain_text(sentence)


def test_another_seed_than_pythons_is_not_compared(debugger: Page) -> None:
    load(debugger)
    debugger.get_by_label("Seed").fill("7")
    assert press(debugger, "Run Full Generation").endswith("Python's values are of seed 0, so they are not compared.")
    debugger.get_by_label("Seed").fill("0")


def test_each_toggle_changes_the_log(debugger: Page) -> None:
    load(debugger)
    toggles = {
        "Verbose logging": "probs at position",
        "Log distribution stats": "probs: min",
        "Log each position": "position 3:",
    }
    for toggle in toggles:
        debugger.get_by_label(toggle).uncheck()
    log = debugger.locator("#log")
    for toggle, line in toggles.items():
        press(debugger, "Clear Logs")
        press(debugger, "Test One Denoising Step")
        assert line not in (log.text_content() or "")
        debugger.get_by_label(toggle).check()
        press(debugger, "Test One Denoising Step")
        assert line in (log.text_content() or "")
    for toggle in list(toggles)[1:]:
        debugger.get_by_label(toggle).uncheck()


def test_without_pythons_values_the_rules_are_still_checked(
    debugger: Page, exported: Path, mounts: dict[str, Path], tmp_path: Path
) -> None:
    mounts["alone"] = copy_model(exported, tmp_path / "alone")
    for path in (tmp_path / "alone").glob("debug_*"):
        path.unlink()
    load(debugger, "alone")
    expect(debugger.get_by_role("log")).to_contain_text("Python's values are not there: run debug_python.py")
    assert press(debugger, "Test One Denoising Step") == "The step keeps all rules; Python's is not compared."
