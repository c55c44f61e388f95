"""The corpus on its smallest models; what takes minutes is `make calibrate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from firstdiff.errors import UsageError
from firstdiff.testing.corpus import trained
from firstdiff.testing.corpus.faults import FAULTS, apply
from firstdiff.testing.corpus.generated import BUILDERS, generated
from firstdiff.testing.corpus.measuring import Measured, measured
from firstdiff.testing.corpus.models import MODELS, CorpusModel
from firstdiff.testing.corpus.scoring import SHIPPED, choose, score
from firstdiff.testing.corpus.tables import calibration, write_docs
from firstdiff.testing.corpus.variations import VARIATIONS, cast, tensor_pairs

pytestmark = pytest.mark.filterwarnings("ignore")
TINY = CorpusModel("tiny", "choose", lambda seed: generated("llama", 1, seed, massive=True))


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> list[Measured]:
    cache = tmp_path_factory.mktemp("corpus")
    other = CorpusModel("other", "score", lambda seed: generated("bert", 1, seed), seed=1)
    return [one for model in (TINY, other) for one in measured(model, ["bf16", "order"], cache)]


def test_both_halves_have_trained_models_and_every_architecture_is_in_one() -> None:
    for half in ("choose", "score"):
        assert any(model.trained for model in MODELS.values() if model.half == half)
    for kind in BUILDERS:
        assert sum(name.startswith(f"{kind},") for name in MODELS) == 1


def test_massive_activations_are_planted_in_one_token() -> None:
    built = generated("llama", 1, 0, massive=True)
    embedded = built.model.get_input_embeddings()(built.inputs["input_ids"])
    sizes = embedded.abs().amax(dim=-1)[0]
    assert sizes[0] > 50 * sizes[1:].max()


@pytest.mark.parametrize("name", ["right padding", "left padding", "cached steps", "chunked prefill", "batch", "fp64"])
def test_healthy_variations_of_a_decoder_differ_by_noise_at_most(name: str, tmp_path: Path) -> None:
    pairs = list(tensor_pairs(VARIATIONS[name], generated("llama", 1, 0), tmp_path))
    assert len(pairs) > 20
    for pair in pairs:
        ours, theirs = pair.reference.astype(np.float64), pair.candidate.astype(np.float64)
        shown = ours > -1e4
        assert np.linalg.norm((theirs - ours)[shown]) <= 1e-4 * np.linalg.norm(ours[shown])


def test_rotary_frequencies_stay_in_float32() -> None:
    model = cast(generated("llama", 1, 0), torch.bfloat16).model
    buffers = {name: values.dtype for name, values in model.named_buffers() if "inv_freq" in name}
    assert set(buffers.values()) == {torch.float32}
    assert next(model.parameters()).dtype == torch.bfloat16


def test_time_steps_stay_in_float32() -> None:
    inputs = cast(MODELS["zoo's diffusion"].build(0), torch.bfloat16).inputs
    assert {name: values.dtype for name, values in inputs.items()} == {"picture": torch.bfloat16, "t": torch.float32}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_change_what_they_are_called_for(name: str) -> None:
    values = np.random.default_rng(0).standard_normal((32, 48))
    changed = apply(FAULTS[name], values, seed=1)
    different = changed != values
    expected = {
        "token zero": 48,
        "token noise": 48,
        "channel zero": 32,
        "channel x1.15": 32,
        "other tokens zero": 31 * 48,
    }
    assert different.sum() == expected.get(name, different.sum())
    assert different.any()
    small = np.abs(apply(FAULTS[name], values, seed=1, strength=1e-3) - values).max()
    assert 0 < small <= 0.01 * np.abs(changed - values).max()


def test_what_is_measured_is_kept_and_read_again(tmp_path: Path) -> None:
    first = list(measured(TINY, ["bf16"], tmp_path))
    broken = CorpusModel("tiny", "choose", lambda seed: pytest.fail("built again"))
    assert list(measured(broken, ["bf16"], tmp_path)) == first
    assert list(measured(broken, ["fp16"], tmp_path, measured_only=True)) == []


def test_healthy_tensors_raise_no_alarm_and_planted_faults_are_found(halves: list[Measured]) -> None:
    result = score(halves, SHIPPED)
    assert result.alarm_runs.flagged == 0, result.examples
    assert result.found["half", "x1.05"].share > 0.9
    assert result.found["fp32", "x1.01"].share > 0.9


def test_chosen_limits_pass_everything_they_were_chosen_on(halves: list[Measured]) -> None:
    assert score(halves, choose(halves)).alarm_runs.flagged == 0


def test_a_tensor_that_is_no_noise_is_an_alarm_with_its_reason(halves: list[Measured]) -> None:
    healthy = next(one for one in halves if one.fault is None and one.figures is not None)
    assert healthy.figures is not None
    figures = replace(healthy.figures, noise=90.0, level=90.0, typical=90.0)
    wrong = Measured(*(getattr(healthy, name) for name in healthy.__slots__[:9]), figures)
    result = score([wrong], SHIPPED)
    assert result.alarm_runs.flagged == 1
    assert healthy.key in result.examples[0]


def test_tables_go_between_the_markers_of_a_page(halves: list[Measured], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- make calibrate writes from here -->\nold\n<!-- to here -->\nbelow\n", encoding="utf-8")
    text = calibration(halves)
    write_docs(page, text)
    written = page.read_text(encoding="utf-8")
    assert "old" not in written
    assert written.startswith("above\n")
    assert written.endswith("-->\nbelow\n")
    assert "| `scale` |" in written
    page.write_text("no markers", encoding="utf-8")
    with pytest.raises(UsageError, match="no lines"):
        write_docs(page, text)


def test_a_missing_package_is_named_with_what_to_install() -> None:
    with pytest.raises(UsageError, match="pip install --no-deps Resemblyzer"):
        trained.package_folder("resemblyzer")
