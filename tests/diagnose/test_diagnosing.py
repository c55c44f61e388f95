from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import nn

import firstdiff as fd
from firstdiff.diagnose import Case, Explanation, Hypothesis, diagnose, sites_of
from firstdiff.errors import ReadError
from firstdiff.locate import RowGraph, locate
from firstdiff.schema import Diagnosis
from tests.diagnose.pairs import assert_first, compared, randn, traced
from tests.locate.compared import rows_of

VALUES = np.random.default_rng(0).standard_normal((4, 8)).astype("f4")


def norms(*, width: int = 32, count: int = 2) -> nn.Sequential:
    torch.manual_seed(0)
    made = nn.Sequential(*(nn.LayerNorm(width) for _ in range(count)))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return made


class Raises(Hypothesis):
    """Fails."""

    code = "test.raises"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def test(self, case: Case) -> Iterator[Explanation]:
        raise self.error


class Doubled(Hypothesis):
    """Twice as large."""

    code = "test.doubled"

    def test(self, case: Case) -> Iterator[Explanation]:
        predicted = 2 * case.expected
        yield Explanation(cause=self.code, fit=case.fit(predicted), evidence="twice", fix="halve it")


def diagnosed(
    hypotheses: list[Hypothesis], only: str | None = None
) -> tuple[Mapping[int, tuple[Diagnosis, ...]], tuple[str, ...]]:
    rows = rows_of({"x": VALUES, "y": VALUES}, {"x": 2 * VALUES, "y": VALUES})
    graph = RowGraph(rows)
    sites = sites_of(locate(graph, order="recorded"))
    if only is not None:
        sites = [row.index for row in rows if row.key == only]
    found = diagnose(graph, sites, hypotheses=hypotheses)
    return found.causes, tuple(note.text for note in found.notes)


def test_a_hypothesis_that_fails_is_named_and_loses_nothing() -> None:
    causes, notes = diagnosed([Raises(ZeroDivisionError("by zero")), Doubled()])
    assert causes[0][0].cause == "test.doubled"
    assert notes == ("The test for test.raises failed on x (ZeroDivisionError: by zero)",)


def test_a_hypothesis_that_cannot_read_says_so() -> None:
    _, notes = diagnosed([Raises(ReadError("000001.npy is gone")), Doubled()])
    assert notes == ("test.raises could not be tested on x: 000001.npy is gone",)


def test_one_row_can_be_asked_for() -> None:
    causes, notes = diagnosed([Doubled()], only="y")
    assert not any(causes.values())
    assert "y differs by no more than another order of summation would" in notes[0]


def test_unknown_is_an_answer_and_says_what_to_record() -> None:
    _, notes = diagnosed([Raises(ValueError())])
    assert notes[-1].startswith("No cause that was tested explains x; to know more, record op, attrs, inputs and")


def test_unknown_of_a_recorded_operation_points_at_what_is_left(tmp_path: Path) -> None:
    reference, candidate = norms(count=1), norms(count=1)
    candidate[0].register_forward_hook(lambda *given: given[2] + 0.1 * torch.sin(7 * given[2]) * given[1][0])
    found = compared(reference, candidate, [randn(2, 9, 32)], tmp_path)
    assert found.diagnosis == ()
    assert found.notes[-1].text == (
        "No cause that was tested explains 0; to know more, compare the code of both sides there; "
        "its inputs and weights are what the reference has"
    )


def test_weights_without_a_partner_are_not_said_to_agree(tmp_path: Path) -> None:
    reference, candidate = norms(count=1), norms(count=1)
    candidate[0].register_forward_hook(lambda *given: given[2] + 0.1 * torch.sin(7 * given[2]) * given[1][0])
    for model, name, params in ((reference, "one", "all"), (candidate, "other", "none")):
        with fd.capture(model, tmp_path / name, params=params):
            model(torch.as_tensor(randn(2, 9, 32)))
    found = fd.compare(tmp_path / "one", tmp_path / "other")
    assert found.notes[-1].text == (
        "No cause that was tested explains 0; to know more, compare its weights: 0.weight:param, 0.bias:param has no "
        "partner in the candidate"
    )


def test_what_the_layout_told_stays_although_the_values_agree_in_it() -> None:
    found = fd.compare({"x": VALUES}, {"x": VALUES.T.copy()}, layout="strict")
    assert found.diagnosis[0].cause == "layout.transpose"


def rounded(factor: np.ndarray | float) -> fd.Comparison:
    return fd.compare({"x": VALUES}, {"x": (VALUES * (1 + factor)).astype("f4")}, atol=0.0, rtol=0.0)


def test_last_bits_are_said_to_be_rounding() -> None:
    found = rounded(1e-7)
    assert found.verdict == "mismatch"
    assert found.diagnosis[0].cause == "rounding"
    assert found.diagnosis[0].confidence >= 0.9
    assert "the last bits" in found.diagnosis[0].evidence


def test_noise_without_a_direction_is_rounding() -> None:
    noise = 2e-6 * np.random.default_rng(5).standard_normal(VALUES.shape)
    assert rounded(noise).diagnosis[0].confidence >= 0.9


def test_a_small_difference_with_a_direction_may_be_a_mistake() -> None:
    found = rounded(5e-6)
    assert found.diagnosis[0].cause == "rounding"
    assert found.diagnosis[0].confidence <= 0.5
    assert "all one way" in found.diagnosis[0].evidence


def test_two_faults_in_two_places_are_both_named(tmp_path: Path) -> None:
    reference, candidate = norms(), norms()
    candidate[0].eps = 1e-2
    candidate[1].weight = None
    found = compared(reference, candidate, [0.1 * randn(2, 9, 32)], tmp_path)
    named = {pair.key: pair.diagnosis[0].cause for pair in found.pairs if pair.diagnosis}
    assert named == {"0": "norm.eps", "1": "norm.affine"}


class LlamaRMSNorm(nn.Module):
    """An RMS norm whose weight is all ones, so that its result is its last product but one."""

    def __init__(self, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(32))
        self.variance_epsilon = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def test_a_later_fault_is_as_sure_as_the_first_where_a_product_repeats_another(tmp_path: Path) -> None:
    reference = nn.Sequential(*(layer() for _ in range(2) for layer in (lambda: nn.Linear(32, 32), LlamaRMSNorm)))
    candidate = copy.deepcopy(reference)
    candidate[1].variance_epsilon = candidate[3].variance_epsilon = 1e-1
    found = compared(reference, candidate, [0.3 * randn(2, 9, 32)], tmp_path)
    named = [(one.cause, one.confidence > 0.9) for pair in found.pairs for one in pair.diagnosis]
    assert named == [("norm.eps", True), ("norm.eps", True)]


def test_two_faults_in_one_operation_are_found_one_after_the_other(tmp_path: Path) -> None:
    reference, candidate = norms(count=1), norms(count=1)
    candidate[0].eps = 1e-3
    candidate[0].bias = None
    found = compared(reference, candidate, [0.1 * randn(2, 9, 32)], tmp_path)
    assert {one.cause for one in found.diagnosis[:2]} == {"bias.missing", "norm.eps"}
    assert any("as well" in one.evidence for one in found.diagnosis)


def test_another_recorded_attribute_is_no_proof(tmp_path: Path) -> None:
    """The candidate records another eps and uses the right one; what it does wrong is something else."""
    reference, candidate = norms(count=1), norms(count=1)
    candidate[0].register_forward_pre_hook(lambda module, _: setattr(module, "eps", 1e-5))
    candidate[0].register_forward_hook(lambda module, *_: setattr(module, "eps", 1e-2))
    candidate[0].eps = 1e-2
    inputs = [0.1 * randn(2, 9, 32)]
    assert compared(reference, candidate, inputs, tmp_path).verdict == "match"
    candidate[0].bias = None
    assert_first(compared(reference, candidate, inputs, tmp_path), "bias.missing")


def test_a_run_that_matches_is_not_diagnosed(tmp_path: Path) -> None:
    reference = norms()
    found = compared(reference, copy.deepcopy(reference), [randn(2, 9, 32)], tmp_path)
    assert found.verdict == "match"
    assert not found.diagnosis
    assert {note.code for note in found.notes} <= {"other"}


def test_diagnosis_can_be_left_out(tmp_path: Path) -> None:
    reference, candidate = norms(count=1), norms(count=1)
    candidate[0].eps = 1e-2
    sides = [traced(made, [0.1 * randn(2, 9, 32)], tmp_path / f"{id(made)}") for made in (reference, candidate)]
    assert fd.compare(*sides, diagnose=False).diagnosis == ()
    assert fd.compare(*sides).diagnosis[0].cause == "norm.eps"


def test_a_fault_is_told_from_what_came_before_it(tmp_path: Path) -> None:
    """The second norm has wrong inputs as well: what is computed from them is the measure."""
    reference, candidate = norms(), norms()
    with torch.no_grad():
        candidate[0].weight.mul_(1.5)
    candidate[1].eps = 0.5
    found = compared(reference, candidate, [randn(2, 9, 32)], tmp_path)
    second = next(pair for pair in found.pairs if pair.key == "1")
    assert second.diagnosis[0].cause == "norm.eps"
    assert second.diagnosis[0].confidence >= 0.9


def test_a_wrong_input_that_a_wide_tolerance_let_pass_is_the_cause(tmp_path: Path) -> None:
    """The norm is off by little; what is made of it, 1e4 times larger, is what is told of first."""
    reference = nn.Sequential(norms(count=1)[0], nn.Linear(32, 32))
    torch.manual_seed(0)
    with torch.no_grad():
        reference[1].weight.mul_(1e4)
    candidate = copy.deepcopy(reference)
    candidate[0].eps = 1e-3
    sides = [traced(made.eval(), [0.2 * randn(2, 9, 32)], tmp_path / f"{id(made)}") for made in (reference, candidate)]
    found = fd.compare(*sides, atol=0.2)
    assert found.first_divergence is not None
    assert found.first_divergence.key == "1"
    assert found.diagnosis[0].cause == "norm.eps"
    assert "differs by less than is allowed there" in found.diagnosis[0].evidence
