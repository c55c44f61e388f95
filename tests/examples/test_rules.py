"""The rules of the diffusion example hold for the trained model and break where a port goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import firstdiff as fd
from firstdiff.checks import load_rule_file
from firstdiff.trace import ArraySource, Trace
from tests.examples.conftest import EXAMPLE, Run

pytestmark = pytest.mark.xdist_group("examples")

RULES = load_rule_file(EXAMPLE / "rules.toml")


@pytest.fixture(scope="session")
def generation(run_script: Run, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    path = tmp_path_factory.mktemp("generation") / "python.trace"
    run_script("generate.py", "--seed", 3, "--steps", 64, "--trace", path)
    return fd.open_trace(path)


def with_fault(trace: Trace, name: str, fault: Callable[[np.ndarray, int], np.ndarray]) -> Trace:
    """Return the trace with one tap changed at every step."""
    tensors = [
        replace(tensor, source=ArraySource(fault(tensor.values().read(), tensor.record.step)))
        if tensor.name == name
        else tensor
        for tensor in trace
    ]
    return replace(trace, tensors=tuple(tensors))


def test_the_trained_model_keeps_every_rule(generation: Trace) -> None:
    assert fd.check(generation, RULES).failures == ()


@pytest.mark.parametrize(
    ("name", "fault", "broken"),
    [
        ("ids", lambda ids, _: ids.astype(np.int32), "dtype"),
        ("ids", lambda ids, _: ids + 60, "ids"),
        ("sigma", lambda sigma, _: sigma.astype(np.int64), "dtype"),
        ("log_score", lambda score, _: score.astype(np.float16), "dtype"),
        ("log_score", lambda score, _: score[..., :64], "shape"),
        ("log_score", lambda score, _: score * 0.001, "not_uniform"),
        ("log_score", lambda score, _: score * 20, "range"),
        ("score", lambda score, _: -score, "positive"),
        ("staggered_score", lambda score, step: score / (step != 9), "finite"),
        ("transition", lambda kernel, _: kernel * 1.001, "sum"),
        ("probs", lambda probs, _: probs / 2, "sum"),
        ("probs", lambda probs, _: np.where(probs < 1e-6, 0, probs), "positive"),
        ("gumbel", lambda gumbel, _: np.zeros_like(gumbel), "varies"),
        ("sampled", lambda sampled, _: (sampled + 1) % 65, "changed"),
        ("schedule.t", lambda t, _: t * 0.999, "equal"),
        ("schedule.sigma", lambda sigma, _: sigma * 2, "range"),
        ("schedule.delta_sigma", lambda delta, _: delta[::-1], "monotone"),
        ("schedule.delta_sigma", lambda delta, _: -delta, "positive"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_a_fault_breaks_the_rule_about_it(
    generation: Trace, name: str, fault: Callable[[np.ndarray, int], np.ndarray], broken: str
) -> None:
    failed = {
        (rule.check, failure.key.split("#")[0]) for rule in _about(generation, name, fault) for failure in rule.failures
    }
    assert (broken, "ids" if broken == "changed" else name) in failed


def _about(generation: Trace, name: str, fault: Callable[[np.ndarray, int], np.ndarray]):
    """Check only the rules that see the fault: the others read a hundred megabytes and hold as before."""
    about = [rule for rule in RULES.rules if any(name in part for part in (*rule.names, rule.limits.get("with") or ""))]
    return fd.check(with_fault(generation, name, fault), replace(RULES, rules=tuple(about))).rules


def test_bands_are_for_the_steps_of_the_rules(generation: Trace) -> None:
    shorter = replace(generation, tensors=tuple(tensor for tensor in generation if tensor.record.step < 60))
    rules = replace(RULES, rules=tuple(rule for rule in RULES.rules if rule.check == "changed"))
    (failure,) = fd.check(shorter, rules).failures
    assert failure.text == "changes 60 times, but its band was measured over 65 steps"
