"""Two implementations are two graphs: numbers of functions, near names and counted steps mean little."""

from __future__ import annotations

import numpy as np

from firstdiff.comparing import compare
from firstdiff.pairing import pair_up
from firstdiff.trace import ArraySource, Record, Role, Tensor, Trace


def values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape or (6, 8)).astype(np.float32)


def tensor(name: str, array: np.ndarray, op: str | None = None, parent: str | None = None, **more: int) -> Tensor:
    return Tensor(Record(name=name, op=op, parent=parent, **more), ArraySource(array))


def pairs(ours: list[Tensor], theirs: list[Tensor]) -> set[tuple[str, str]]:
    result = pair_up(Trace("ours", tuple(ours)), Trace("theirs", tuple(theirs)))
    return {(str(ours[match.reference[0]].key), str(theirs[match.candidate[0]].key)) for match in result.pairs}


def test_a_function_number_means_nothing_in_other_code() -> None:
    ours = [tensor("block.add", values(1), "add", "block"), tensor("block", values(2), "Block")]
    theirs = [
        tensor("block.add", values(3, 6, 1), "add", "block"),
        tensor("block.add@1", values(1), "add", "block"),
        tensor("block", values(2), "Block"),
    ]
    theirs[1] = Tensor(Record(name="block.add", call=1, op="add", parent="block"), theirs[1].source)
    assert pairs(ours, theirs) == {("block.add", "block.add@1"), ("block", "block")}


def test_functions_of_the_same_code_keep_their_numbers() -> None:
    ours = [tensor("block.add", values(1), "add", "block"), tensor("block", values(2), "Block")]
    theirs = [tensor("block.add", values(8), "add", "block"), tensor("block", values(9), "Block")]
    assert pairs(ours, theirs) == {("block.add", "block.add"), ("block", "block")}


def test_equal_values_of_a_free_tensor_beat_a_near_name() -> None:
    embedded, scaled = values(1), values(1) * 5
    ours = [tensor("model.embed_tokens", embedded), tensor("model.mul", scaled, "mul", "model")]
    assert pairs(ours, [tensor("tok_emb", scaled)]) == {("model.mul", "tok_emb")}


def test_two_near_names_that_hold_each_other_s_values_stay() -> None:
    ours = [tensor("layers.0.self_attn.q_proj", values(1)), tensor("layers.0.self_attn.k_proj", values(2))]
    theirs = [tensor("blk.0.attn_q", values(2)), tensor("blk.0.attn_k", values(1))]
    assert ("layers.0.self_attn.q_proj", "blk.0.attn_q") in pairs(ours, theirs)


def test_steps_may_be_counted_from_one() -> None:
    ours = Trace("ours", tuple(tensor("logits", values(n), step=n) for n in range(3)))
    theirs = Trace("theirs", tuple(tensor("logits", values(n), step=n + 1) for n in range(3)))
    comparison = compare(ours, theirs)
    assert comparison.verdict == "match"
    assert "the candidate counts steps from 1, the reference from 0" in comparison.warnings[0]


def patches(output: np.ndarray) -> tuple[Trace, Trace]:
    """A convolution over patches, and a product of patches that were cut before."""
    image = values(5, 2, 3, 8, 8)
    cut = image.reshape(2, 3, 2, 4, 2, 4).transpose(0, 2, 4, 3, 5, 1).reshape(2, 4, 48)

    def side(name: str, op: str, given: np.ndarray, made: np.ndarray) -> Trace:
        roles: tuple[tuple[Role, np.ndarray], ...] = (("input", given), ("output", made))
        return Trace(name, tuple(Tensor(Record(name="proj", role=r, op=op), ArraySource(x)) for r, x in roles))

    return side("ours", "Conv2d", image, values(6, 2, 4, 10)), side("theirs", "Linear", cut, output)


def test_an_input_rearranged_to_the_bit_is_a_way_of_writing() -> None:
    comparison = compare(*patches(values(6, 2, 4, 10)))
    assert comparison.verdict == "match"
    assert "rearranged" in (comparison.pairs[0].reason or "")
    assert compare(*patches(values(6, 2, 4, 10)), layout="strict").verdict == "mismatch"


def test_a_rearranged_input_counts_where_the_output_differs() -> None:
    assert compare(*patches(values(7, 2, 4, 10))).pairs[0].status == "mismatch"
