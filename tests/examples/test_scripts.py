"""The scripts of the diffusion example, run as a user runs them, on a tiny model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from words import real_word_share  # type: ignore[import-not-found]

import firstdiff as fd
from tests.examples.conftest import EXAMPLE, TINY, Run

pytestmark = pytest.mark.xdist_group("examples")


def test_training_goes_on_where_it_stopped(tiny_run: Path, book: Path, run_script: Run) -> None:
    before = json.loads((tiny_run / "weights" / "metadata.json").read_text())
    printed = run_script("train.py", "--text", book, "--run", tiny_run, "--steps", 5, *TINY).stdout
    assert "resumed at step 3" in printed
    assert "done: step 5" in printed
    assert json.loads((tiny_run / "weights" / "metadata.json").read_text()) == before


def test_training_another_model_over_a_checkpoint_is_refused(tiny_run: Path, book: Path, run_script: Run) -> None:
    options = [*TINY, "--width", 32]
    refused = run_script("train.py", "--text", book, "--run", tiny_run, "--steps", 9, *options, fails=True)
    assert "use the same text and options, or another --run" in refused.error


def test_generating(tiny_run: Path, run_script: Run, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    options = ["--weights", tiny_run / "weights", "--prefix", "the ", "--suffix", "fox", "--steps", 4, "--seed", 3]
    printed = run_script(
        "generate.py", *options, "--samples", 2, "--gif", tmp_path / "x.gif", "--trace", tmp_path / "t"
    )
    texts = printed.stdout[:-1].split("\n----\n")
    assert [(text[:4], text[-3:], len(text)) for text in texts] == [("the ", "fox", 32)] * 2
    assert texts[0] != texts[1]
    from PIL import Image

    with Image.open(tmp_path / "x.gif") as animation:
        assert animation.n_frames > 1  # type: ignore[attr-defined]
    assert len(fd.open_trace(tmp_path / "t").tensors) == 3 + 5 * 9


def test_text_that_the_model_cannot_write_is_refused(tiny_run: Path, run_script: Run) -> None:
    refused = run_script("generate.py", "--weights", tiny_run / "weights", "--prefix", "É", fails=True)
    assert "the vocabulary has no 'É'" in refused.error


def test_evaluating_ends_with_the_share_of_real_words(tiny_run: Path, run_script: Run) -> None:
    printed = run_script("evaluate.py", "--weights", tiny_run / "weights", "--samples", 2, "--steps", 3).stdout
    assert printed.splitlines()[-1].startswith("real words: ")
    assert printed.splitlines()[-1].endswith(" %")


def test_the_exported_model_takes_and_gives_what_its_metadata_says(exported: Path) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(exported / "model.onnx")
    metadata = json.loads((exported / "metadata.json").read_text())
    shape = [1, metadata["block_size"], metadata["vocab_size"]]
    inputs = {value.name: (value.type, value.shape) for value in session.get_inputs()}
    assert inputs == {"ids": ("tensor(int64)", shape[:2]), "sigma": ("tensor(float)", [1])}
    assert [(value.name, value.shape) for value in session.get_outputs()] == [("logits", shape)]
    assert set(metadata["digests"]) >= {"model.onnx", "vocab.json", "weights.npz"}


def test_reference_outputs_agree_and_keep_the_invariants(exported: Path) -> None:
    pytorch, onnx, step = (
        json.loads((exported / f"debug_{name}_output.json").read_text()) for name in ("pytorch", "onnx", "step")
    )
    assert pytorch["ids"] == onnx["ids"] == step["step"]["ids"]
    assert np.abs(np.subtract(pytorch["logits"], onnx["logits"])).max() <= 1e-5
    assert len(step["trajectory"]) == len(step["bands"]) == step["steps"] + 1
    assert all(check["ok"] for check in step["checks"])


def test_reference_outputs_need_an_exported_model(random_weights: Path, run_script: Run, tmp_path: Path) -> None:
    missing = run_script("debug_python.py", "--weights", random_weights, "--model", tmp_path, fails=True)
    assert "run `python export_to_onnx.py" in missing.error


def test_a_vocabulary_of_another_size_is_refused(tiny_run: Path, run_script: Run, tmp_path: Path) -> None:
    for path in (tiny_run / "weights").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "vocab.json").write_text('["a", "b"]')
    refused = run_script("generate.py", "--weights", tmp_path, fails=True)
    assert "vocab.json has 2 characters" in refused.error


def test_the_trained_model_writes_text(run_script: Run) -> None:
    printed = run_script("generate.py", "--prefix", "ROMEO:", "--steps", 24, "--samples", 4, "--seed", 1).stdout
    known = set((EXAMPLE / "weights" / "words.txt").read_text(encoding="utf-8").split())
    texts = printed[:-1].split("\n----\n")
    assert [(text[:6], len(text)) for text in texts] == [("ROMEO:", 128)] * 4
    # random characters give next to none
    assert real_word_share([text[6:] for text in texts], known) > 0.15
