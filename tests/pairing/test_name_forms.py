from __future__ import annotations

import pytest

from firstdiff.pairing import names, pair_up
from firstdiff.pairing.names import unwrapped, words_of
from firstdiff.trace import Record
from tests.pairing.traces import extra_of, missing_of, named, paired, pairs_of, recorded


@pytest.mark.parametrize(
    "name", ["self_attn.q_proj", "SelfAttn/QProj", "self-attention.query_projection", "self attn Q proj"]
)
def test_separators_case_and_synonyms_are_gone(name: str) -> None:
    assert words_of(name) == ("self", "attn", "q", "proj")


@pytest.mark.parametrize("wrapper", ["model.", "module.", "_orig_mod.", "module._orig_mod.model.", "base_model.model."])
def test_wrappers_are_gone(wrapper: str) -> None:
    assert unwrapped(words_of(f"{wrapper}mel"), keep=1) == ("mel",)


def test_a_wrapper_that_is_all_there_is_stays() -> None:
    assert unwrapped(words_of("model"), keep=1) == ("model",)


def test_a_wrapper_nobody_knows_is_seen_when_every_name_has_it() -> None:
    assert paired(named("mine.mel", "mine.text"), named("mel", "text")) == [("mine.mel", "mel"), ("mine.text", "text")]


def test_names_that_are_mere_numbers_behind_a_word_are_not_paired() -> None:
    ours, theirs = [f"a{n}" for n in range(4)], [f"b{n}" for n in range(4)]
    assert paired(named(*ours), named(*theirs)) == []
    assert paired(named(*(f"dump.{name[1]}" for name in ours)), named(*(f"out.{name[1]}" for name in theirs))) == []


@pytest.mark.parametrize(
    "style", ["h.{}", "layers.{}", "blk.{}", "layer_{}", "blocks.{}", "encoder.layer.{}", "layers[{}]"]
)
def test_the_style_of_the_index_does_not_matter(style: str) -> None:
    ours = [f"layers.{layer}.thing" for layer in range(12)]
    theirs = [f"{style.format(layer)}.Thing" for layer in reversed(range(12))]
    assert paired(named(*ours), named(*theirs)) == list(zip(ours, reversed(theirs), strict=True))


def test_layers_within_layers_are_told_apart() -> None:
    ours = [f"layers.{outer}.blocks.{inner}.mlp.fc1" for outer in range(2) for inner in range(2)]
    theirs = [f"swin.encoder.layers.{outer}.blocks.{inner}.mlp.fc_1" for outer in range(2) for inner in range(2)]
    assert paired(named(*ours), named(*theirs)) == list(zip(ours, theirs, strict=True))


def test_encoder_and_decoder_are_told_apart() -> None:
    ours = ["encoder.layers.0.mlp", "decoder.layers.0.mlp", "decoder.final_layer_norm"]
    theirs = ["dec.blk.0.ffn", "enc.blk.0.ffn", "dec.output_norm"]
    assert paired(named(*ours), named(*theirs)) == [
        ("encoder.layers.0.mlp", "enc.blk.0.ffn"),
        ("decoder.layers.0.mlp", "dec.blk.0.ffn"),
        ("decoder.final_layer_norm", "dec.output_norm"),
    ]


def test_two_names_of_one_form_are_not_paired_but_told() -> None:
    result = pair_up(named("layers.0.attn.q", "layers.0.attention.query"), named("blk.0.attn_q", "unlike"))
    assert pairs_of(result) == []
    guess = result.extra[0].guess
    assert guess is not None
    assert guess.key == "layers.0.attn.q"
    assert guess.confidence < 0.6
    ours = pair_up(named("blk.0.attn_q", "unlike"), named("layers.0.attn.q", "layers.0.attention.query"))
    guess = ours.missing[0].guess
    assert guess is not None
    assert (guess.key, guess.alternatives) == ("layers.0.attn.q", ("layers.0.attention.query",))


@pytest.mark.parametrize("field", [{"role": "input"}, {"slot": "1"}, {"call": 1}, {"step": 2}], ids=str)
def test_role_slot_call_and_step_must_agree(field: dict[str, object]) -> None:
    ours = recorded(Record(name="layers.0.self_attn.q_proj"), Record(name="first"))
    theirs = recorded(Record(name="blk.0.attn_q", **field), Record(name="second"))  # type: ignore[arg-type]
    assert paired(ours, theirs) == []


def test_ranks_agree_or_are_put_together() -> None:
    ours = recorded(*(Record(name="layers.0.mlp.up_proj", rank=rank, world=2) for rank in range(2)))
    theirs = recorded(*(Record(name="blk.0.ffn_up", rank=rank, world=2) for rank in range(2)))
    whole = recorded(Record(name="blk.0.ffn_up"))
    assert paired(ours, theirs) == [
        ("layers.0.mlp.up_proj", "blk.0.ffn_up"),
        ("layers.0.mlp.up_proj#r1", "blk.0.ffn_up#r1"),
    ]
    assert paired(ours, whole) == [("layers.0.mlp.up_proj layers.0.mlp.up_proj#r1", "blk.0.ffn_up")]


def test_fused_shards_come_with_all_their_ranks() -> None:
    ours = named("layers.0.mlp.gate_proj", "layers.0.mlp.up_proj")
    theirs = recorded(*(Record(name="layers.0.mlp.gate_up_proj", rank=rank, world=2) for rank in (1, 0)))
    assert paired(ours, theirs) == [
        ("layers.0.mlp.gate_proj layers.0.mlp.up_proj", "layers.0.mlp.gate_up_proj layers.0.mlp.gate_up_proj#r1")
    ]


def test_a_fused_tensor_with_a_part_missing_is_not_paired() -> None:
    result = pair_up(named("layers.0.attn.qkv", "a"), named("layers.0.attn.q", "layers.0.attn.k"))
    assert pairs_of(result) == []


def test_another_number_of_elements_makes_a_pair_less_certain() -> None:
    ours, theirs = named("layers.0.mlp.up_proj", "a", size=4), named("blk.0.ffn_up", "b", size=5)
    assert [match.pairing.confidence for match in pair_up(ours, theirs).pairs] == [0.8]


def test_a_module_is_paired_with_its_last_part_if_only_one_of_the_two_is_there() -> None:
    alone = pair_up(named("layers.0.mlp", "first"), named("blk.0.ffn_down", "second"))
    assert pairs_of(alone) == [("layers.0.mlp", "blk.0.ffn_down")]
    assert alone.pairs[0].pairing.confidence == 0.85
    both = pair_up(named("layers.0.mlp", "layers.0.mlp.down_proj"), named("blk.0.ffn_down", "second"))
    assert pairs_of(both) == [("layers.0.mlp.down_proj", "blk.0.ffn_down")]


def test_inputs_of_a_module_are_not_those_of_its_last_part() -> None:
    ours = recorded(Record(name="layers.0.mlp", role="input"), Record(name="first"))
    theirs = recorded(Record(name="blk.0.ffn_down", role="input"), Record(name="second"))
    assert paired(ours, theirs) == []


def test_a_router_is_not_a_gate() -> None:
    result = pair_up(
        named("layers.0.mlp.gate", "layers.0.mlp.gate_proj"), named("blk.0.ffn_gate", "blk.0.ffn_gate_inp")
    )
    assert pairs_of(result) == [
        ("layers.0.mlp.gate", "blk.0.ffn_gate_inp"),
        ("layers.0.mlp.gate_proj", "blk.0.ffn_gate"),
    ]


def test_a_norm_after_attention_is_told_by_the_norms_beside_it() -> None:
    llama = named("layers.0.post_attention_layernorm", "layers.0.input_layernorm")
    gemma = named("layers.0.post_attention_layernorm", "layers.0.pre_feedforward_layernorm")
    theirs = named("blk.0.ffn_norm", "blk.0.attn_norm")
    assert ("layers.0.post_attention_layernorm", "blk.0.ffn_norm") in paired(llama, theirs)
    assert paired(gemma, theirs) == [("layers.0.pre_feedforward_layernorm", "blk.0.ffn_norm")]


def test_weight_and_bias_are_told_apart() -> None:
    ours = ["layers.0.mlp.up_proj.weight", "layers.0.mlp.up_proj.bias"]
    theirs = ["blk.0.ffn_up.bias", "blk.0.ffn_up.weight"]
    assert paired(named(*ours), named(*theirs)) == [(ours[0], theirs[1]), (ours[1], theirs[0])]


def test_unrelated_names_have_no_common_form() -> None:
    ours = ["mel.frames", "vocoder.0.conv", "f0", "tokens"]
    theirs = ["layers.0.attn.q", "wte", "image", "patches"]
    result = pair_up(named(*ours), named(*theirs))
    assert (missing_of(result), extra_of(result)) == (ours, theirs)


def test_the_layer_offset_moves_the_candidate() -> None:
    ours, theirs = named("layers.3.mlp", "layers.4.mlp"), named("blk.0.ffn", "blk.1.ffn")
    assert paired(ours, theirs) == []
    assert paired(ours, theirs, layer_offset=3) == [("layers.3.mlp", "blk.0.ffn"), ("layers.4.mlp", "blk.1.ffn")]


def phrases() -> list[str]:
    tables = [names.BARE, names.GLOBAL, *names.LEAVES.values(), names.CONTAINERS]
    return [phrase for table in tables for group in table.values() for phrase in group if phrase]


@pytest.mark.parametrize("phrase", sorted(set(phrases())))
def test_every_phrase_of_the_tables_is_in_folded_words(phrase: str) -> None:
    assert " ".join(words_of(phrase)) == phrase, "it could never be found"


def test_no_phrase_means_two_things() -> None:
    for table in (names.BARE, names.GLOBAL, *names.LEAVES.values()):
        listed = [phrase for group in table.values() for phrase in group]
        assert len(listed) == len(set(listed))


def test_every_fused_tensor_and_its_parts_can_be_found() -> None:
    known = {f"{container}.{leaf}" for container, leaves in names.LEAVES.items() for leaf in leaves}
    assert {name for whole, parts in names.FUSED.items() for name in (whole, *parts)} <= known
