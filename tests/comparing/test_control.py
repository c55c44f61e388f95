"""`fd.compare(control=…)`: verdicts by what a known-good run at the candidate's precision costs."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import firstdiff as fd
from firstdiff.comparing.rejudge import rejudge
from firstdiff.judge import Rules
from tests.capturing.models import captured
from tests.locate.models import model, trace

Run = dict[str, np.ndarray]


def reference() -> Run:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=(32, 24)).astype(np.float32) for name in ("0_embed", "1_mix", "2_out")}


def run(seed: int, size: float = 0.004, **scaled: float) -> Run:
    """A run in half precision, which is off by `size`; some tensors are scaled."""
    rng = np.random.default_rng(seed)
    scale = {f"{name[1:]}": factor for name, factor in scaled.items()}
    return {
        name: (values * scale.get(name, 1.0) * (1 + size * rng.normal(size=values.shape))).astype("bfloat16")
        for name, values in reference().items()
    }


def test_noise_like_the_controls_matches_whatever_its_size() -> None:
    loud = run(1, 0.08)
    assert fd.compare(reference(), loud).verdict == "mismatch"
    comparison = fd.compare(reference(), loud, control=run(2, 0.08))
    assert comparison.verdict == "match"
    assert comparison.control is not None
    assert comparison.control.tensors == 3
    assert "this is what bf16 costs here" in (comparison.pairs[0].controlled or pytest.fail("no figures")).text


def test_more_error_than_the_controls_is_found_where_the_default_sees_none() -> None:
    quiet = run(1, 0.001, _1_mix=1.012)
    assert fd.compare(reference(), quiet, control=run(2, 0.001)).first_divergence is not None
    found = fd.compare(reference(), quiet, control=run(2, 0.001)).pairs[1]
    assert found.status == "mismatch"
    assert found.controlled is not None
    assert found.controlled.rms > 1.5
    assert found.reason is not None
    assert "times what bf16 costs here" in found.reason


def test_a_control_that_is_far_off_makes_rows_inconclusive_and_no_pass(tmp_path: Path) -> None:
    comparison = fd.compare(reference(), run(1, 0.14), control=run(2, 0.14))
    assert comparison.verdict == "mismatch"
    assert comparison.summary.inconclusive == 3
    assert comparison.first_divergence is None
    assert "% off itself: the reference is ill-conditioned here" in str(comparison.pairs[0].reason)
    with pytest.raises(AssertionError, match="ill-conditioned"):
        fd.assert_match(reference(), run(1, 0.14), control=run(2, 0.14))


class Heads(nn.Module):
    """Attention written out, or by the fused function, which is given the keys as they are; both are square."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fused = fused
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part(x).view(2, 16, 2, 16).transpose(1, 2) for part in (self.query, self.key, self.value))
        if self.fused:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        else:
            mixed = nn.functional.softmax(q @ k.transpose(-1, -2) / 4.0, dim=-1) @ v
        return mixed.transpose(1, 2).reshape(2, 16, 32)


def test_a_control_that_is_written_differently_has_no_say_where_its_tensors_are_others(tmp_path: Path) -> None:
    x = torch.randn(2, 16, 32, generator=torch.Generator().manual_seed(1))
    half = x.bfloat16()
    sides = captured(Heads(False), tmp_path / "r", x), captured(Heads(False).bfloat16(), tmp_path / "c", half)
    comparison = fd.compare(*sides, control=captured(Heads(True).bfloat16(), tmp_path / "control", half))
    assert (comparison.verdict, comparison.summary.inconclusive) == ("match", 0)
    judged = {pair.key: pair.controlled for pair in comparison.pairs}
    assert judged["query"] is not None
    assert judged["root.matmul:in.other"] is None


@pytest.mark.parametrize(
    ("control", "said"),
    [
        ({"other": np.arange(7.0)}, "shares no tensors"),
        (reference(), "equals the reference exactly"),
    ],
)
def test_a_control_that_tells_nothing_says_so_and_changes_nothing(control: Run, said: str) -> None:
    plain = fd.compare(reference(), run(1))
    comparison = fd.compare(reference(), run(1), control=control)
    assert [note.code for note in comparison.notes if said in note.text] == ["control"]
    assert [pair.status for pair in comparison.pairs] == [pair.status for pair in plain.pairs]


def test_stated_tolerances_and_non_finite_values_outrank_a_control() -> None:
    wrong = run(1)
    wrong["2_out"][3, 4] = np.nan
    comparison = fd.compare(reference(), wrong, control=run(2))
    assert comparison.pairs[2].status == "mismatch"
    assert "NaN or Inf on one side only" in str(comparison.pairs[2].reason)
    assert fd.compare(reference(), run(1), control=run(2), atol=1e-9).summary.mismatch == 3


def test_other_tolerances_on_the_page_keep_a_controls_verdict_under_the_default() -> None:
    comparison = fd.compare(reference(), run(1, 0.08), control=run(2, 0.08))
    assert rejudge(comparison, Rules()).verdict == "match"
    assert rejudge(comparison, Rules(atol=1e-9)).verdict == "mismatch"


def test_the_command_prints_the_control(tmp_path: Path) -> None:
    for name, arrays in (("ref", reference()), ("cand", run(1)), ("control", run(2))):
        with fd.record(tmp_path / name) as recorder:
            for key, values in arrays.items():
                recorder.tap(key, values)
    sides = [str(tmp_path / name) for name in ("ref", "cand")]
    command = [sys.executable, "-m", "firstdiff", "compare", *sides, "--control", str(tmp_path / "control")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "Beside the control: 3 rows; the worst is" in result.stdout
    assert "this is what bf16 costs here" in result.stdout


def test_an_error_that_an_operation_introduces_outranks_a_control(tmp_path: Path) -> None:
    reference = trace(model(), tmp_path / "r")
    control = trace(model(dtype=torch.bfloat16), tmp_path / "control")
    faulty = model(dtype=torch.bfloat16)
    with torch.no_grad():
        faulty.layers[1].ln_2.weight[3] *= 1.04
    comparison = fd.compare(reference, trace(faulty, tmp_path / "c"), control=control)
    assert comparison.first_divergence is not None
    assert comparison.first_divergence.key == "layers.1.ln_2"
    found = next(pair for pair in comparison.pairs if pair.key == "layers.1.ln_2")
    assert found.controlled is not None
    assert found.controlled.status == "match"
