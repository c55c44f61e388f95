"""The zoo holds what it promises, and the fast part of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firstdiff.comparing import compare
from firstdiff.readers import open_trace
from firstdiff.testing.zoo import ARCHITECTURES, FAULTS, Answer, Case, answer_of, cases, plant, score
from firstdiff.testing.zoo.healthy import HealthyPair, healthy_pairs, run_healthy
from firstdiff.testing.zoo.planting import LARGE_ENOUGH, Planted, Variant
from firstdiff.testing.zoo.runner import run

pytestmark = pytest.mark.xdist_group("zoo")

_FAST: tuple[tuple[Case, Variant], ...] = (
    (Case("norm eps", "gpt2"), "full"),
    (Case("residual missing", "llama"), "stripped"),
    (Case("bias missing", "bert"), "stripped"),
    (Case("activation missing", "whisper"), "full"),
    (Case("sign flipped", "vit"), "stripped"),
    (Case("norm affine missing", "t5"), "full"),
    (Case("convolution kernel flipped", "vocoder"), "stripped"),
    (Case("norm kind", "diffusion"), "full"),
    (Case("weights of another layer", "moe"), "full"),
)
_HEALTHY = (
    HealthyPair("other kernel order", "moe"),
    HealthyPair("bf16 against fp32", "gpt2"),
    HealthyPair("bf16 against bf16", "llama"),
    HealthyPair("batch 1 against row 0 of 4", "vit"),
    HealthyPair("padding cropped", "bert"),
    HealthyPair("eager against exported", "vocoder"),
)


@pytest.fixture(scope="module")
def planted() -> Planted:
    return plant(Case("norm eps", "gpt2"))


def test_it_is_as_large_as_promised() -> None:
    every = cases()
    assert len(FAULTS) >= 40
    assert len(every) >= 300
    assert len({case.architecture for case in every}) == 10
    apart = cases(held_out=True)
    assert len(apart) >= 30
    assert not {case.architecture for case in apart} & {case.architecture for case in every}
    assert len(healthy_pairs()) >= 60
    assert not [pair for pair in healthy_pairs() if "bf16" in pair.way and ARCHITECTURES[pair.architecture].routed]


def test_several_right_causes_have_a_reason() -> None:
    assert all(bool(fault.why) == (len(fault.causes) > 1) for fault in FAULTS.values())


def test_another_seed_gives_other_layers() -> None:
    sites = {plant(Case("norm eps", "gpt2", seed)).site.module for seed in range(3)}
    assert len(sites) > 1


def test_a_case_is_the_same_every_time(planted: Planted) -> None:
    again = plant(planted.case)
    assert again.site == planted.site
    for one, other in zip(planted.candidate, again.candidate, strict=True):
        assert np.array_equal(one.values().read(), other.values().read())


def test_what_comes_before_the_fault_shares_few_bits_and_all_of_them_are_close(planted: Planted) -> None:
    truth, size = planted.first_visible()
    assert truth is not None
    assert size >= LARGE_ENOUGH
    ours = {str(tensor.key): tensor for tensor in planted.candidate}
    before = planted.reference.tensors[: planted.reference.tensors.index(truth)]
    numbers = [tensor for tensor in before if tensor.record.role not in ("param", "buffer")]
    floats = [tensor for tensor in numbers if tensor.values().dtype.kind == "f"]
    assert floats
    for tensor in floats:
        right, given = tensor.values().read(), ours[str(tensor.key)].values().read()
        assert not np.array_equal(right, given), tensor.key
        assert np.allclose(right, given, rtol=1e-5, atol=1e-5), tensor.key


def test_without_the_noise_only_the_fault_is_left(planted: Planted) -> None:
    twins = {str(tensor.key): tensor for tensor in planted.twin}
    truth, _ = planted.first_visible()
    for tensor in planted.reference:
        if tensor is truth:
            break
        if tensor.record.role not in ("param", "buffer"):
            assert np.array_equal(tensor.values().read(), twins[str(tensor.key)].values().read())


def test_a_stripped_candidate_has_names_and_values_only(planted: Planted, tmp_path: Path) -> None:
    in_memory = planted.side("stripped")
    _, path = planted.write(tmp_path, "stripped")
    on_disk = open_trace(path)
    assert [str(tensor.key) for tensor in in_memory] == [str(tensor.key) for tensor in on_disk]
    for trace in (in_memory, on_disk):
        assert not [tensor for tensor in trace if tensor.record.op or tensor.record.attrs]
        assert not [tensor for tensor in trace if tensor.record.role in ("param", "buffer")]


def test_answers_are_scored_against_what_was_planted(planted: Planted) -> None:
    truth, _ = planted.first_visible()
    assert truth is not None
    right = score(planted, "full", Answer(str(truth.key), (("norm.kind", 0.95), ("norm.eps", 0.93))))
    assert (right.exact, right.rank) == (True, 2)
    assert (right.confident, right.confidently_right) == (2, 1)
    wrong = score(planted, "full", Answer("lm_head", (("weights.differ", 0.5),)))
    assert (wrong.exact, wrong.rank) == (False, None)
    assert (wrong.confident, wrong.confidently_right) == (0, 0)
    silent = score(planted, "full", Answer(None))
    assert (silent.exact, silent.rank) == (False, None)


def test_a_first_divergence_upstream_is_not_exact_whatever_the_pairing_was(planted: Planted) -> None:
    """A wrong pairing shows differences that the fault did not make."""
    keys = [str(tensor.key) for tensor in planted.reference if tensor.record.role == "output"]
    swapped = {keys[0]: keys[1], keys[1]: keys[0]} | {key: key for key in keys[2:]}
    assert not score(planted, "full", Answer(keys[0], partners=swapped)).exact


def test_what_a_comparison_says_is_an_answer(planted: Planted) -> None:
    comparison = compare(planted.reference, planted.candidate)
    answer = answer_of(comparison)
    assert comparison.first_divergence is not None
    assert answer.first == comparison.first_divergence.key
    assert [cause for cause, _ in answer.causes] == [found.cause for found in comparison.diagnosis]


@pytest.mark.parametrize(("case", "variant"), _FAST, ids=str)
def test_firstdiff_finds_and_names_it(case: Case, variant: Variant) -> None:
    (found,) = run(case, [variant])
    assert found.outcome.exact, found
    assert found.outcome.rank == 1, found


@pytest.mark.parametrize("pair", _HEALTHY, ids=str)
def test_no_alarm_on_a_healthy_pair(pair: HealthyPair) -> None:
    assert run_healthy(pair).alarm is None
