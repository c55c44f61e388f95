"""Two implementations are two graphs: numbers of functions, near names and counted steps mean little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from firstdiff.comparing import compare
from firstdiff.pairing import pair_up
from firstdiff.trace import ArraySource, Record, Role, Tensor, Trace


def values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape or (6, 8)).astype(np.float32)


def tensor(name: str, array: np.ndarray, op: str | None = None, parent: str | None = None, **more: Any) -> Tensor:
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


def test_equal_values_beat_a_near_name_whose_values_are_only_near() -> None:
    product, biased = values(1), values(1) + 0.1 * values(2)
    ours = [tensor("lm_head", product, "Linear"), tensor("model.add", biased, "add", "model")]
    assert pairs(ours, [tensor("logits", biased)]) == {("model.add", "logits")}


def test_equal_values_beat_the_same_name_of_another_size() -> None:
    ours = [tensor("out", values(1, 2, 9), "Linear"), tensor("post", values(2, 5, 8), "Linear")]
    assert pairs(ours, [tensor("out", values(2, 5, 8))]) == {("post", "out")}


def test_equal_values_beat_a_near_name_in_a_layout_that_hides_every_place() -> None:
    """Time first and the axes of texts and time in one: no sample of places is found again."""
    before, after = values(1, 4, 6, 8), np.tanh(values(1, 4, 6, 8))
    ours = [tensor("model.conv1", before, "Conv1d"), tensor("model.tanh", after, "tanh", "model")]
    assert pairs(ours, [tensor("conv1", after.transpose(1, 2, 0).reshape(48, 4))]) == {("model.tanh", "conv1")}


def turned(products: np.ndarray) -> np.ndarray:
    return products[..., ::-1] * np.float32(0.6) + products * np.float32(0.8)


def fused_and_parts(layer: int, gain: float = 1.0, turn: bool = True) -> tuple[list[Tensor], list[Tensor]]:
    """A layer with queries, keys and values in one, that turns them; a port records them, turned or not."""
    q, k, v = (values(10 * layer + number, 7, 8) for number in range(3))
    name, seen = f"layers.{layer}.self_attn", (lambda part: turned(part) if turn else part)
    reference = [
        tensor(f"{name}.query_key_value", np.concatenate([q, k, v], -1), "Linear", name),
        *(tensor(f"{name}.add{n}", turned(part), "add", name) for n, part in enumerate((q, k))),
    ]
    parts = {"Qcur": seen(q) * np.float32(gain), "Kcur": seen(k), "Vcur": v}
    return reference, [tensor(f"{part}-{layer}", array) for part, array in parts.items()]


def layers_of(*layers: tuple[list[Tensor], list[Tensor]]) -> tuple[list[Tensor], list[Tensor]]:
    return [one for side, _ in layers for one in side], [one for _, side in layers for one in side]


def test_parts_that_are_other_tensors_are_no_parts_of_a_fused_one() -> None:
    found = pairs(*layers_of(fused_and_parts(0), fused_and_parts(1)))
    assert {("layers.0.self_attn.add0", "Qcur-0"), ("layers.1.self_attn.add1", "Kcur-1")} <= found
    assert not any("query_key_value" in name for name, _ in found)


def test_a_layer_that_goes_wrong_has_no_fused_pair_that_others_have_not() -> None:
    found = pairs(*layers_of(fused_and_parts(0), fused_and_parts(1, gain=3.0)))
    assert not any("query_key_value" in name for name, _ in found)


def test_parts_of_a_fused_tensor_stay_its_parts_though_one_is_wrong() -> None:
    reference, candidate = fused_and_parts(0, gain=3.0, turn=False)
    result = pair_up(Trace("ours", tuple(reference)), Trace("theirs", tuple(candidate)))
    assert [(match.reference, match.candidate) for match in result.pairs] == [((0,), (0, 1, 2))]


def test_the_same_name_stays_where_only_its_size_differs() -> None:
    ours = [tensor("out", values(1, 5, 8), "Linear"), tensor("post", values(2, 5, 8), "Linear")]
    assert ("out", "out") in pairs(ours, [tensor("out", values(1, 4, 8)), tensor("after", values(2, 5, 8))])


def test_the_same_name_stays_where_the_operation_was_left_out() -> None:
    """The port's tensor is what the operation was given, which an unnamed function made."""
    given = values(2, 5, 8)
    ours = [
        tensor("step.add", given, "add", "step", seq=0),
        tensor("cut", given, "Cut", role="input", seq=1, sources=(0,)),
        tensor("cut", given[2:], "Cut", role="output", seq=2),
    ]
    assert ("cut", "cut") in pairs(ours, [tensor("cut", given)])


def test_two_near_names_that_hold_each_other_s_values_stay() -> None:
    ours = [tensor("layers.0.self_attn.q_proj", values(1)), tensor("layers.0.self_attn.k_proj", values(2))]
    theirs = [tensor("blk.0.attn_q", values(2)), tensor("blk.0.attn_k", values(1))]
    assert ("layers.0.self_attn.q_proj", "blk.0.attn_q") in pairs(ours, theirs)


def encoder_and_decoder(broken: float) -> tuple[list[Tensor], list[Tensor]]:
    """The decoder's text does not go through the encoder, which may be broken; `mixed` takes both."""
    ours = [
        tensor("encoder.conv", values(1, 6, 9), "Conv1d", "encoder", seq=0),
        tensor("encoder.norm", values(2), "LayerNorm", "encoder", seq=1, sources=(0,)),
        tensor("decoder.embed", values(3, 5, 8), "Embedding", "decoder", seq=2),
        tensor("decoder.mixed", values(4, 5, 7), "Linear", "decoder", seq=3, sources=(1, 2)),
    ]
    theirs = [
        tensor("a", values(1, 6, 9)),
        tensor("b", values(2) + broken * values(7)),
        tensor("c", values(3, 5, 8)),
        tensor("d", values(4, 5, 7) + broken * values(8, 5, 7)),
    ]
    return ours, theirs


def test_a_later_value_that_agrees_proves_only_what_it_is_computed_from() -> None:
    assert ("encoder.norm", "b") in pairs(*encoder_and_decoder(broken=2.0))


def test_what_an_agreeing_value_is_computed_from_was_only_written_differently() -> None:
    ours, theirs = encoder_and_decoder(broken=0.0)
    theirs[1] = tensor("b", values(9))
    assert ("encoder.norm", "b") not in pairs(ours, theirs)


def test_a_tap_that_repeats_an_earlier_one_may_stand_for_a_missing_operation() -> None:
    ours = [
        tensor("layer.add", values(1), "add", "layer", seq=0),
        tensor("layer", values(1), "Layer", seq=1, sources=(0,)),
        tensor("norm", values(2), "LayerNorm", seq=2, sources=(1,)),
        tensor("head", values(3, 6, 9), "Linear", seq=3, sources=(2,)),
    ]
    theirs = [tensor("stream", values(1)), tensor("normed", values(1)), tensor("scores", values(4, 6, 9))]
    assert {("layer.add", "stream"), ("norm", "normed")} <= pairs(ours, theirs)


def test_a_tap_recorded_twice_finds_the_second_name_of_its_value() -> None:
    ours = [
        tensor("layer.add", values(1), "add", "layer", seq=0),
        tensor("layer", values(1), "Layer", seq=1, sources=(0,)),
        tensor("head", values(3, 6, 9), "Linear", seq=2, sources=(1,)),
    ]
    theirs = [tensor("stream", values(1)), tensor("again", values(1)), tensor("scores", values(3, 6, 9))]
    assert {("layer.add", "stream"), ("layer", "again")} <= pairs(ours, theirs)


def test_a_second_name_of_a_value_that_has_its_partner_gets_no_other_values() -> None:
    ours = [
        tensor("embed.mul", values(1), "mul", "embed", seq=0),
        tensor("embed", values(1), "Embedding", seq=1, sources=(0,)),
        tensor("add", values(1) + values(2), "add", "root", seq=2, sources=(1,)),
        tensor("norm", values(3), "LayerNorm", seq=3, sources=(2,)),
    ]
    theirs = [
        tensor("root.mul", values(1), "mul", "root", seq=0),
        tensor("root.add", values(1) + values(4), "add", "root", seq=1, sources=(0,)),
        tensor("ln", values(5), "LayerNorm", seq=2, sources=(1,)),
    ]
    assert ("embed", "root.add") not in pairs(ours, theirs)


def test_values_too_few_for_a_fingerprint_are_compared_whole() -> None:
    scores = values(2, 2, 2)
    ours = [
        tensor("embed", values(1), "Linear", seq=0),
        tensor("per_text", scores.T, "Model", seq=1, sources=(0,)),
        tensor("per_image", scores, "Model", seq=2, sources=(0,)),
    ]
    assert ("per_image", "scores") in pairs(ours, [tensor("embedded", values(1)), tensor("scores", scores)])


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


@pytest.mark.parametrize("first", [6, 7])
def test_a_rearranged_input_is_judged_by_what_is_first_made_of_it(first: int) -> None:
    """The model's own output differs for a reason of its own."""
    given, cut = (side.tensors[0].values().view() for side in patches(values(6, 2, 4, 10)))

    def run(name: str, images: np.ndarray, made: np.ndarray, end: np.ndarray) -> Trace:
        roles: tuple[tuple[str, Role, np.ndarray], ...] = (
            ("model", "input", images),
            ("model.stem", "output", made),
            ("model", "output", end),
        )
        return Trace(name, tuple(Tensor(Record(name=n, role=r), ArraySource(x)) for n, r, x in roles))

    ours = run("ours", given, values(6, 2, 4, 10), values(8))
    theirs = run("theirs", cut, values(first, 2, 4, 10), values(9))
    statuses = [pair.status for pair in compare(ours, theirs).pairs]
    assert statuses[0] == ("match" if first == 6 else "mismatch")
    assert statuses[2] == "mismatch"


def test_a_later_argument_known_by_its_number_is_no_pair_of_another_size() -> None:
    def layer(front: str, mask: np.ndarray) -> list[Tensor]:
        made = tensor(f"{front}layers.0", values(2), "Layer", role="output")
        return [
            tensor(f"{front}layers.0", values(1), "Layer", role="input", slot="0"),
            tensor(f"{front}layers.0", mask, "Layer", role="input", slot="1"),
            made,
        ]

    found = pairs(layer("model.", values(3, 2, 1, 7, 7)), layer("", values(4, 2, 10)))
    assert ("model.layers.0:in.0", "layers.0:in.0") in found
    assert ("model.layers.0:in.1", "layers.0:in.1") not in found


def test_an_operation_is_paired_with_its_kind_inside_a_wrapper() -> None:
    """The port's `head` has a norm, too: what goes into it is not what goes into `lm_head`."""
    hidden, normed, scores = values(1), values(2), values(3)

    def call(name: str, op: str, given: np.ndarray, made: np.ndarray, parent: str | None = None) -> list[Tensor]:
        role: Role = "input"
        return [tensor(name, given, op, parent, role=role, slot="0"), tensor(name, made, op, parent, role="output")]

    ours = [*call("norm", "LayerNorm", hidden, normed), *call("lm_head", "Linear", normed, scores)]
    inner = [*call("head.ln", "LayerNorm", hidden, normed, "head"), *call("head.out", "Linear", normed, scores, "head")]
    wrapper = call("head", "Head", hidden, scores)
    found = pairs(ours, [wrapper[0], *inner, wrapper[1]])
    assert {("lm_head:in.0", "head.out:in.0"), ("lm_head", "head.out")} <= found


def test_an_error_is_no_noise_however_small() -> None:
    """Most pairs differ a little, since the first error is early; it is paired nevertheless."""
    noise = values(99)
    made = [values(n) for n in range(12)]
    ours = [tensor(f"layers.{n}.norm", made[n], "LayerNorm", seq=n) for n in range(12)]
    theirs = [tensor(f"layers.{n}.norm", made[n] + 0.03 * noise * (n > 3), seq=n) for n in range(12)]
    ours[4] = tensor("layers.4.softmax", made[4], "softmax", "layers.4", seq=4)
    theirs[4] = tensor("probs", made[4] + noise, seq=4)
    ours[5] = tensor("layers.5.norm", made[5], "LayerNorm", seq=5, sources=(4,))
    assert ("layers.4.softmax", "probs") in pairs(ours, theirs)


def test_functions_of_any_size_are_left_over() -> None:
    """A module, its function, and taps of two sizes, none of which has a name or values in common."""
    ours = [
        tensor("root.block.mul", values(1, 4, 6), "mul", "root.block", seq=0),
        tensor("root.block", values(2), "Block", "root", seq=1),
        tensor("root.end", values(3), "Linear", "root", seq=2),
    ]
    theirs = [tensor("p", values(4, 4, 6), seq=0), tensor("q", values(5), seq=1), tensor("end", values(6), seq=2)]
    assert ("root.block", "q") in pairs(ours, theirs)


def test_names_of_different_layers_are_no_pair_by_place() -> None:
    ours = [
        tensor(f"layers.{layer}.{part}", values(10 * layer + at) * np.float32(gain), "Linear", f"layers.{layer}")
        for layer in range(2)
        for at, (part, gain) in enumerate((("mixer", 1.0), ("out", 9.0)))
    ]
    wrong = values(50) * np.float32(9.0), values(51) * np.float32(9.0)  # spread like what the first layer gives
    theirs = [
        tensor("blk_0.thing", values(0)),
        tensor("blk_1.thing", wrong[0]),
        tensor("blk_1.other", wrong[1]),
    ]
    found = pairs(ours, theirs)
    assert {("layers.0.mixer", "blk_0.thing"), ("layers.1.mixer", "blk_1.thing")} <= found
    assert all(one.split(".")[1] == other[4] for one, other in found)


def test_weights_that_are_held_exactly_elsewhere_are_paired_there_whatever_their_names() -> None:
    """`fc_2` is the last product in some models, and in others the second of two that are multiplied."""
    gate, up, down = values(1, 48, 32), values(2, 48, 32), values(3, 32, 48)

    def weights(front: str, *named: tuple[str, np.ndarray]) -> list[Tensor]:
        return [tensor(f"{front}.{name}.weight", array, role="param") for name, array in named]

    ours = weights("model.layers.0.mlp", ("gate_proj", gate), ("up_proj", up), ("down_proj", down))
    theirs = weights("transformer.h.0.mlp", ("fc_1", gate), ("fc_2", up), ("proj", down))
    keys = {"gate_proj": "fc_1", "up_proj": "fc_2", "down_proj": "proj"}
    assert pairs(ours, theirs) == {
        (f"model.layers.0.mlp.{one}.weight:param", f"transformer.h.0.mlp.{other}.weight:param")
        for one, other in keys.items()
    }
