from __future__ import annotations

import numpy as np
import pytest

from firstdiff.pairing import PairingResult, Strategy, by_order, pair_up
from firstdiff.trace import ArraySource, Record, Tensor, Trace
from tests.pairing.traces import methods_of, pairs_of

Made = tuple[str, str | None, np.ndarray]  # name, op, values


def values(seed: int, size: int = 60) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def run(*tensors: Made) -> Trace:
    made = (
        Tensor(Record(name=name, op=op, seq=seq), ArraySource(array)) for seq, (name, op, array) in enumerate(tensors)
    )
    return Trace("run", tuple(made))


def guesses_of(result: PairingResult) -> dict[str, tuple[str, float]]:
    found = ((str(result.reference.tensors[one.index].key), one.guess) for one in result.missing)
    return {key: (guess.key, guess.confidence) for key, guess in found if guess is not None}


def test_a_diverged_tensor_is_found_by_its_place_and_operator() -> None:
    ours = run(("in", None, values(0)), ("ln", "LayerNorm", values(1)), ("out", None, values(2)))
    theirs = run(("in", None, values(0)), ("rms", "LlamaRMSNorm", values(8)), ("out", None, values(9)))
    result = pair_up(ours, theirs)
    assert ("ln", "rms") in pairs_of(result)
    match = result.pairs[1]
    assert match.pairing.method == "order"
    assert 0.6 <= match.pairing.confidence < 0.7


def test_a_diverged_tensor_is_found_by_its_place_and_similar_values() -> None:
    ours = run(("in", None, values(0)), ("first", None, values(1)), ("out", None, values(2)))
    theirs = run(("in", None, values(0)), ("uno", None, values(1) + 0.4 * values(7)), ("out", None, values(9)))
    result = pair_up(ours, theirs)
    assert ("first", "uno") in pairs_of(result)


def test_an_error_does_not_hide_the_only_tensor_at_its_place() -> None:
    ours = run(("in", None, values(0)), ("first", None, values(1)), ("out", None, values(2)))
    theirs = run(("in", None, values(0)), ("uno", None, values(8)), ("out", None, values(9)))
    result = pair_up(ours, theirs)
    assert pairs_of(result) == [("in", "in"), ("first", "uno"), ("out", "out")]
    assert result.pairs[1].pairing.method == "order"


def test_a_copy_of_what_is_paired_already_takes_no_place() -> None:
    ours = run(("in", None, values(0)), ("in again", None, values(0)), ("out", None, values(2)))
    theirs = run(("in", None, values(0)), ("uno", None, values(8)), ("out", None, values(9)))
    assert pairs_of(pair_up(ours, theirs)) == [("in", "in"), ("out", "out")]


def test_other_values_speak_against_a_pair_when_what_follows_agrees() -> None:
    ours = run(("in", None, values(0)), ("drop", "Linear", values(1)), ("out", None, values(2)))
    theirs = run(("in", None, values(0)), ("resid", "MatMul", values(8)), ("out", None, values(2)))
    result = pair_up(ours, theirs)
    assert pairs_of(result) == [("in", "in"), ("out", "out")]
    assert guesses_of(result)["drop"][1] < 0.5


def test_similar_values_do_not_make_a_pair_of_what_leads_to_values_that_agree() -> None:
    scores, mixed = values(3), values(4)
    ours = Trace(
        "ours",
        tuple(
            Tensor(Record(name=name, op=op, parent="attn", seq=seq, sources=sources), ArraySource(array))
            for seq, (name, op, sources, array) in enumerate(
                [
                    ("attn.query", "Linear", (), values(1)),
                    ("attn.key", "Linear", (), values(2)),
                    ("attn.matmul", "matmul", (0, 1), scores),
                    ("attn.matmul_1", "matmul", (2,), mixed),
                ]
            )
        ),
    )
    scaled = ("first", None, 0.4 * values(1))  # a port that divides the queries instead of the scores
    healthy = run(scaled, ("k", None, values(2)), ("probs", None, scores), ("z", None, mixed))
    assert pairs_of(pair_up(ours, healthy))[0] == ("attn.key", "k")
    wrong_later = run(scaled, ("k", None, values(2)), ("probs", None, scores), ("z", None, values(9)))
    assert pairs_of(pair_up(ours, wrong_later))[0] == ("attn.key", "k")


def test_other_operators_are_never_paired_by_place() -> None:
    ours = run(("in", None, values(0)), ("ln", "LayerNorm", values(1)), ("out", None, values(2)))
    theirs = run(("in", None, values(0)), ("fc", "Linear", values(8)), ("out", None, values(9)))
    result = pair_up(ours, theirs)
    assert pairs_of(result) == [("in", "in"), ("out", "out")]
    assert guesses_of(result) == {}


def test_of_two_that_fit_one_place_one_is_paired() -> None:
    ours = run(
        ("in", None, values(0)), ("a", "Linear", values(1)), ("b", "Linear", values(2)), ("out", None, values(3))
    )
    theirs = run(("in", None, values(0)), ("fc", "Linear", values(8)), ("out", None, values(9)))
    assert {other for _, other in pairs_of(pair_up(ours, theirs))} == {"in", "fc", "out"}


def test_only_pairs_that_keep_their_order_stand_around_a_place() -> None:
    ours = run(
        ("in", None, values(0)),
        ("a", "Linear", values(1, 40)),
        ("mid", None, values(2)),
        ("b", "Linear", values(3, 50)),
        ("out", None, values(4)),
    )
    theirs = run(
        ("in", None, values(0)),
        ("fc one", "Linear", values(8, 40)),
        ("out", None, values(14)),
        ("fc two", "Linear", values(9, 50)),
        ("mid", None, values(12)),
    )
    found = pairs_of(pair_up(ours, theirs))
    assert ("a", "fc one") in found


def test_nothing_in_common_is_not_paired_by_shape_alone() -> None:
    sizes = [60, 70, 80, 60, 70]
    ours = run(*((f"a{seed}", None, values(seed, size)) for seed, size in enumerate(sizes)))
    theirs = run(*((f"b{seed}", None, values(50 + seed, size)) for seed, size in enumerate(sizes)))
    assert pair_up(ours, theirs).pairs == ()


def test_runs_of_the_same_shapes_and_operators_are_paired_all_along() -> None:
    steps = [(60, "Embedding"), (70, "Linear"), (80, "LayerNorm"), (60, "Linear"), (70, "GELU")]
    ours = run(*((f"a{seed}", op, values(seed, size)) for seed, (size, op) in enumerate(steps)))
    theirs = run(*((f"b{seed}", op, values(50 + seed, size)) for seed, (size, op) in enumerate(steps)))
    result = pair_up(ours, theirs)
    assert pairs_of(result) == [(f"a{seed}", f"b{seed}") for seed in range(5)]
    assert methods_of(result) == {"order"}
    assert max(match.pairing.confidence for match in result.pairs) < 0.7


def test_weights_have_no_place_in_the_run() -> None:
    def weights(name: str, seed: int) -> Tensor:
        return Tensor(Record(name=name, role="param", op="Linear"), ArraySource(values(seed)))

    ours = Trace("ours", (weights("a", 0), weights("b", 1), weights("c", 2)))
    theirs = Trace("theirs", (weights("a", 0), weights("x", 8), weights("c", 2)))
    assert pairs_of(pair_up(ours, theirs)) == [("a:param", "a:param"), ("c:param", "c:param")]


def test_a_long_stretch_is_cut_where_a_tensor_is_unlike_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_order, "_MOST_CELLS", 9)
    sizes = [60, 60, 77, 60, 60]
    ours = run(("in", None, values(99)), *((f"a{n}", "Linear", values(n, size)) for n, size in enumerate(sizes)))
    theirs = run(("in", None, values(99)), *((f"b{n}", "Linear", values(50 + n, size)) for n, size in enumerate(sizes)))
    result = pair_up(ours, theirs)
    assert ("a2", "b2") in pairs_of(result)


def test_the_strategy_runs_after_values_were_looked_at() -> None:
    from firstdiff.pairing.by_value import STRATEGY as BY_CONTENT

    assert isinstance(by_order.STRATEGY, Strategy)
    assert by_order.STRATEGY.order > BY_CONTENT.order


def test_complex_tensors_with_the_same_real_part_are_no_copies() -> None:
    real = values(1, 9).astype(np.complex64)
    ours = run(("in", None, real), ("turned", None, real + 1j), ("out", None, values(2)))
    theirs = run(("in", None, real), ("uno", None, real + 7j), ("out", None, values(9)))
    assert ("turned", "uno") in pairs_of(pair_up(ours, theirs))
