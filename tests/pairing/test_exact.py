from __future__ import annotations

import numpy as np
import pytest

from firstdiff.pairing import pair_up
from firstdiff.trace import ArraySource, Record, Tensor, Trace
from tests.pairing.traces import methods_of, missing_of, named, paired, pairs_of, recorded


def test_equal_keys_are_paired_with_certainty() -> None:
    result = pair_up(named("a", "b", "c"), named("c", "a"))
    assert pairs_of(result) == [("a", "a"), ("c", "c")]
    assert [(match.pairing.method, match.pairing.confidence) for match in result.pairs] == [("exact", 1.0)] * 2
    assert missing_of(result) == ["b"]


def test_a_tap_and_a_tensor_of_no_role_pair_with_an_output() -> None:
    ours = recorded(Record(name="a", role="output"), Record(name="b", role="tap"))
    assert paired(ours, recorded(Record(name="a", role="tap"), Record(name="b"))) == [("a", "a"), ("b", "b")]


@pytest.mark.parametrize(
    "other",
    [
        Record(name="a", role="input"),
        Record(name="a", slot="1"),
        Record(name="a", call=1),
        Record(name="a", step=1),
    ],
    ids=str,
)
def test_role_slot_call_and_step_must_agree(other: Record) -> None:
    filler = Record(name="something else")
    assert paired(recorded(Record(name="a"), filler), recorded(other, Record(name="unlike"))) == []


def test_an_unreadable_tensor_is_paired_by_its_name() -> None:
    broken = Trace("broken", (Tensor(Record(name="a"), error="is torn"),))
    assert paired(named("a", "b"), broken) == [("a", "a")]


def test_equal_ranks_are_paired_rank_by_rank() -> None:
    both = recorded(Record(name="a", rank=0, world=2), Record(name="a", rank=1, world=2))
    assert paired(both, both) == [("a", "a"), ("a#r1", "a#r1")]


def test_a_lost_rank_is_missing() -> None:
    both = recorded(Record(name="a", rank=0, world=2), Record(name="a", rank=1, world=2))
    result = pair_up(both, recorded(Record(name="a", rank=0, world=2)))
    assert (pairs_of(result), missing_of(result)) == ([("a", "a")], ["a#r1"])


def test_shards_are_put_together_in_the_order_of_their_ranks() -> None:
    whole = recorded(Record(name="a"))
    shards = recorded(*(Record(name="a", rank=rank, world=3) for rank in (2, 0, 1)))
    assert paired(whole, shards) == [("a", "a a#r1 a#r2")]
    assert paired(shards, whole) == [("a a#r1 a#r2", "a")]


def test_runs_of_different_worlds_are_never_paired_rank_by_rank() -> None:
    two = recorded(*(Record(name="a", rank=rank, world=2) for rank in range(2)))
    four = recorded(*(Record(name="a", rank=rank, world=4) for rank in range(4)))
    assert paired(two, four) == [("a a#r1", "a a#r1 a#r2 a#r3")]


@pytest.mark.parametrize("name", ["rank{}/a", "a_rank{}", "a.rank{}", "tp_rank_{}/a", "mp_rank_0{}/a", "rank{}.a"])
def test_ranks_in_names_are_ranks(name: str) -> None:
    first, second = name.format(0), name.format(1)
    assert paired(named("a"), named(second, first)) == [("a", f"{first} {second}")]


def test_a_name_that_is_all_rank_stays_a_name() -> None:
    assert paired(named("rank0", "b"), named("rank0", "c")) == [("rank0", "rank0")]


def test_a_key_that_occurs_twice_on_both_sides_is_paired_in_order_and_said() -> None:
    twice = recorded(Record(name="a"), Record(name="a"))
    result = pair_up(twice, twice)
    assert [(match.reference, match.candidate) for match in result.pairs] == [((0,), (0,)), ((1,), (1,))]
    assert {match.pairing.alternatives for match in result.pairs} == {("a",)}
    assert methods_of(result) == {"exact"}
    assert result.warnings == ("2 pairs have the same key that occurs more than once; they were paired in order",)


def test_a_key_that_occurs_more_often_on_one_side_is_not_paired() -> None:
    result = pair_up(recorded(Record(name="a"), Record(name="a")), recorded(Record(name="a"), Record(name="b")))
    assert pairs_of(result) == []
    guess = result.missing[0].guess
    assert guess is not None
    assert (guess.key, guess.why) == ("a", "the same key, shared by 2 tensors of one side")


def test_a_layer_offset_moves_the_candidate() -> None:
    ours = named("layers.3.a", "layers.4.a", "embed")
    assert paired(ours, named("layers.0.a", "layers.1.a", "embed"), layer_offset=3) == [
        ("layers.3.a", "layers.0.a"),
        ("layers.4.a", "layers.1.a"),
        ("embed", "embed"),
    ]


def test_a_layer_below_zero_has_no_partner() -> None:
    ours, theirs = named("layers.0.a", "layers.1.a"), named("layers.0.a", "layers.2.a")
    assert paired(ours, theirs, layer_offset=-2) == [("layers.0.a", "layers.2.a")]


def with_inputs(*inputs: np.ndarray) -> Trace:
    """A call given some tensors by position, and its result."""
    given = [Tensor(Record(name="rope", role="input", slot=f"{at}"), ArraySource(x)) for at, x in enumerate(inputs)]
    return Trace("run", (*given, Tensor(Record(name="rope"), ArraySource(np.ones(3)))), order="seq")


def test_inputs_that_one_side_drops_do_not_renumber_the_others() -> None:
    """torch.export drops what a module does not use."""
    hidden, places = np.zeros((1, 6, 8), np.float32), np.arange(6)[None]
    whole, part = with_inputs(hidden, places), with_inputs(places)
    assert pairs_of(pair_up(whole, part)) == [("rope:in.1", "rope:in.0"), ("rope", "rope")]
    assert pairs_of(pair_up(part, whole)) == [("rope:in.0", "rope:in.1"), ("rope", "rope")]


def test_inputs_of_one_kind_keep_their_numbers() -> None:
    hidden = np.zeros((1, 6, 8), np.float32)
    found = pairs_of(pair_up(with_inputs(hidden, hidden), with_inputs(hidden)))
    assert ("rope:in.0", "rope:in.0") in found
