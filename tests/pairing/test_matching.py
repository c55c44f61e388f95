from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff import plugins
from firstdiff.pairing import Findings, PairingOptions, PairingResult, Proposal, Situation, Strategy, pair_up
from firstdiff.trace import Key, Record, Tensor, Trace
from firstdiff.trace.source import ArraySource
from tests.pairing.models import gpt2, llama
from tests.pairing.traces import extra_of, methods_of, missing_of, named, pairs_of

PARTS = ["attn.q", "self_attn.q_proj", "attn_q", "mlp", "ffn_down", "qkv", "attn.k", "attn.v", "norm", "x"]
NAMES = st.one_of(
    st.builds("{}.{}.{}".format, st.sampled_from(["layers", "h", "blk"]), st.integers(0, 2), st.sampled_from(PARTS)),
    st.builds("{}_{}".format, st.integers(0, 2), st.sampled_from(["query", "key", "Query", "post_mlp"])),
    st.sampled_from(["wte", "token_embd", "model.norm", "output_norm", "rank0/a", "a_rank1", "a", "b", ""]),
)
RECORDS = st.builds(
    Record,
    name=NAMES,
    role=st.sampled_from([None, "output", "input", "param"]),
    call=st.integers(0, 1),
    rank=st.integers(0, 1),
)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    tensors = []
    for record in draw(st.lists(RECORDS, max_size=12)):
        seed = draw(st.integers(0, 3))
        values = np.random.default_rng(seed).standard_normal((4, 5 + seed % 2))
        broken = draw(st.integers(0, 9)) == 0
        tensors.append(Tensor(record, error="is torn") if broken else Tensor(record, ArraySource(values)))
    return Trace("drawn", tuple(tensors))


@given(traces(), traces())
@settings(max_examples=150)
def test_every_tensor_is_in_one_pair_or_in_none(reference: Trace, candidate: Trace) -> None:
    result = pair_up(reference, candidate)
    for side, trace, unpaired in (("reference", reference, result.missing), ("candidate", candidate, result.extra)):
        places = [place for match in result.pairs for place in getattr(match, side)]
        places += [one.index for one in unpaired]
        assert sorted(places) == list(range(len(trace)))
    assert all(match.reference and match.candidate for match in result.pairs)
    assert [match.reference for match in result.pairs] == sorted(match.reference for match in result.pairs)


@given(traces(), traces())
@settings(max_examples=80)
def test_every_pair_is_certain_enough_and_says_how_it_was_found(reference: Trace, candidate: Trace) -> None:
    for match in pair_up(reference, candidate).pairs:
        assert 0.6 <= match.pairing.confidence <= 1
        assert match.pairing.method in {"exact", "layer_stage", "normalised", "order", "content"}


@given(traces())
@settings(max_examples=80)
def test_a_trace_is_paired_with_itself_completely_by_key(trace: Trace) -> None:
    result = pair_up(trace, trace)
    assert [(match.reference, match.candidate) for match in result.pairs] == [((n,), (n,)) for n in range(len(trace))]
    assert methods_of(result) <= {"exact"}


@given(traces(), traces(), st.randoms(use_true_random=False))
@settings(max_examples=80)
def test_the_order_of_the_candidate_does_not_matter_to_names(
    reference: Trace, candidate: Trace, random: object
) -> None:
    candidate = without_repeated_keys(candidate)
    shuffled = list(candidate.tensors)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    by_name = named_strategies()
    first = pair_up(reference, candidate, by_name)
    second = pair_up(reference, replace(candidate, tensors=tuple(shuffled)), by_name)
    assert sorted(pairs_of(first)) == sorted(pairs_of(second))


def named_strategies() -> PairingOptions:
    names = ("exact", "layer_stage", "normalised")
    return PairingOptions(strategies=tuple(one for one in plugins.loaded("pairing") if one.name in names))


def without_repeated_keys(trace: Trace) -> Trace:
    seen: Counter[Key] = Counter()
    kept = []
    for tensor in trace:
        seen[tensor.key] += 1
        if seen[tensor.key] == 1:
            kept.append(tensor)
    return replace(trace, tensors=tuple(kept))


@pytest.mark.parametrize("run", [llama, gpt2], ids=["llama", "gpt2"])
def test_a_real_run_is_paired_with_itself_by_key(run: object) -> None:
    trace = run()  # type: ignore[operator]
    result = pair_up(trace, trace)
    assert len(result.pairs) == len(trace)
    assert methods_of(result) == {"exact"}


def test_unrelated_runs_pair_nothing_they_should_not() -> None:
    result = pair_up(llama(), named("mel", "f0.curve", "vocoder.ups.0", "vocoder.ups.1", "audio"))
    assert result.pairs == ()
    assert len(result.extra) == 5


@pytest.mark.parametrize(("ours", "theirs"), [([], []), (["a"], []), ([], ["a"])])
def test_an_empty_side_pairs_nothing(ours: list[str], theirs: list[str]) -> None:
    result = pair_up(named(*ours), named(*theirs))
    assert (result.pairs, missing_of(result), extra_of(result)) == ((), ours, theirs)


def test_a_guess_says_what_speaks_for_it() -> None:
    result = pair_up(named("b", "head.left_side"), named("head.left_part", "c", size=2))
    guesses = {result.reference.tensors[one.index].name: one.guess for one in result.missing}
    assert guesses["b"] is None
    guess = guesses["head.left_side"]
    assert guess is not None
    assert (guess.key, guess.why) == ("head.left_part", "a similar name")
    assert guess.confidence < 0.6


def test_a_guess_of_another_role_says_so() -> None:
    ours = Trace("ours", (Tensor(Record(name="fc", role="param")), Tensor(Record(name="b"))))
    guess = pair_up(ours, named("fc", "c")).missing[0].guess
    assert guess is not None
    assert (guess.key, guess.why) == ("fc", "a similar name, but another role, slot, call or step")


def strategy(*proposals: Proposal, order: int = 5) -> Strategy:
    return Strategy("mine", order, lambda _: Findings(proposals))


def played(*strategies: Strategy, min_confidence: float = 0.6) -> PairingResult:
    options = PairingOptions(strategies=strategies, min_confidence=min_confidence)
    return pair_up(named("a", "b"), named("p", "q"), options)


def test_the_surest_proposal_for_a_tensor_wins_and_the_other_is_a_guess() -> None:
    result = played(strategy(Proposal((0,), (0,), 0.7), Proposal((1,), (0,), 0.9), Proposal((0,), (1,), 0.5, why="so")))
    assert pairs_of(result) == [("b", "p")]
    guess = result.missing[0].guess
    assert guess is not None
    assert (guess.key, guess.why, guess.confidence) == ("q", "so", 0.5)


def test_a_lower_bound_lets_guesses_be_pairs() -> None:
    proposal = Proposal((0,), (0,), 0.4)
    assert played(strategy(proposal)).pairs == ()
    assert pairs_of(played(strategy(proposal), min_confidence=0.3)) == [("a", "p")]


def test_strategies_run_in_their_order_on_what_is_left() -> None:
    seen: list[tuple[int, ...]] = []

    def watch(situation: Situation) -> Findings:
        seen.append(situation.reference.free)
        return Findings()

    played(Strategy("watching", 9, watch), strategy(Proposal((0,), (1,), 1.0)))
    assert seen == [(1,)]


def test_every_strategy_of_firstdiff_is_an_entry() -> None:
    names = Counter(one.name for one in plugins.loaded("pairing"))
    assert names == {"map": 1, "exact": 1, "layer_stage": 1, "normalised": 3, "content": 1, "order": 2}
