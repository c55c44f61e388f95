"""Real models of transformers against the same run under the names of others, written down by hand."""

from __future__ import annotations

import warnings
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from firstdiff.pairing import pair_up
from firstdiff.trace import Trace
from tests.pairing.models import LAYERS, array, gpt2, llama, trace_of
from tests.pairing.traces import extra_of, methods_of, named, paired, pairs_of

Names = dict[str, str]  # of the candidate, to keys of the reference; parts of a fused tensor joined by spaces

LLAMA_LAYER = "model.layers.{layer}."
GPT2_LAYER = "transformer.h.{layer}."

LLAMA_AS_GGUF = {
    "token_embd": "model.embed_tokens",
    "blk.{layer}.attn_norm": LLAMA_LAYER + "input_layernorm",
    "blk.{layer}.attn_q": LLAMA_LAYER + "self_attn.q_proj",
    "blk.{layer}.attn_k": LLAMA_LAYER + "self_attn.k_proj",
    "blk.{layer}.attn_v": LLAMA_LAYER + "self_attn.v_proj",
    "blk.{layer}.attn_output": LLAMA_LAYER + "self_attn.o_proj",
    "blk.{layer}.ffn_norm": LLAMA_LAYER + "post_attention_layernorm",
    "blk.{layer}.ffn_gate": LLAMA_LAYER + "mlp.gate_proj",
    "blk.{layer}.ffn_up": LLAMA_LAYER + "mlp.up_proj",
    "blk.{layer}.ffn_down": LLAMA_LAYER + "mlp.down_proj",
    "output_norm": "model.norm",
    "output": "lm_head",
}
LLAMA_AS_LLAMA_CPP = {
    "inp_embd": "model.embed_tokens",
    "attn_norm-{layer}": LLAMA_LAYER + "input_layernorm",
    "Qcur-{layer}": LLAMA_LAYER + "self_attn.q_proj",
    "Kcur-{layer}": LLAMA_LAYER + "self_attn.k_proj",
    "Vcur-{layer}": LLAMA_LAYER + "self_attn.v_proj",
    "kqv_out-{layer}": LLAMA_LAYER + "self_attn.o_proj:in.0",
    "attn_out-{layer}": LLAMA_LAYER + "self_attn.o_proj",
    "ffn_norm-{layer}": LLAMA_LAYER + "post_attention_layernorm",
    "ffn_gate-{layer}": LLAMA_LAYER + "mlp.gate_proj",
    "ffn_silu-{layer}": LLAMA_LAYER + "mlp.act_fn",
    "ffn_up-{layer}": LLAMA_LAYER + "mlp.up_proj",
    "ffn_out-{layer}": LLAMA_LAYER + "mlp",
    "l_out-{layer}": LLAMA_LAYER[:-1],
    "result_norm": "model.norm",
    "result_output": "lm_head",
}
LLAMA_AS_MEGATRON = {
    "embedding.word_embeddings": "model.embed_tokens",
    "decoder.layers.{layer}.input_layernorm": LLAMA_LAYER + "input_layernorm",
    "decoder.layers.{layer}.self_attention.linear_qkv": " ".join(
        LLAMA_LAYER + f"self_attn.{part}_proj" for part in "qkv"
    ),
    "decoder.layers.{layer}.self_attention.core_attention": LLAMA_LAYER + "self_attn.o_proj:in.0",
    "decoder.layers.{layer}.self_attention.linear_proj": LLAMA_LAYER + "self_attn.o_proj",
    "decoder.layers.{layer}.self_attention": LLAMA_LAYER + "self_attn",
    "decoder.layers.{layer}.pre_mlp_layernorm": LLAMA_LAYER + "post_attention_layernorm",
    "decoder.layers.{layer}.mlp.linear_fc1": " ".join(LLAMA_LAYER + f"mlp.{part}_proj" for part in ("gate", "up")),
    "decoder.layers.{layer}.mlp.linear_fc2": LLAMA_LAYER + "mlp.down_proj",
    "decoder.layers.{layer}.mlp": LLAMA_LAYER + "mlp",
    "decoder.layers.{layer}": LLAMA_LAYER[:-1],
    "decoder.final_layernorm": "model.norm",
    "output_layer": "lm_head",
}
LLAMA_AS_VLLM = {
    "model.embed_tokens": "model.embed_tokens",
    "model.layers.{layer}.self_attn.qkv_proj": " ".join(LLAMA_LAYER + f"self_attn.{part}_proj" for part in "qkv"),
    "model.layers.{layer}.self_attn.attn": LLAMA_LAYER + "self_attn.o_proj:in.0",
    "model.layers.{layer}.self_attn.o_proj": LLAMA_LAYER + "self_attn.o_proj",
    "model.layers.{layer}.mlp.gate_up_proj": " ".join(LLAMA_LAYER + f"mlp.{part}_proj" for part in ("gate", "up")),
    "model.layers.{layer}.mlp.down_proj": LLAMA_LAYER + "mlp.down_proj",
    "model.norm": "model.norm",
}
LLAMA_AS_STAGES = {
    "{layer}_post_ln_pre_attn": LLAMA_LAYER + "input_layernorm",
    "{layer}_query": LLAMA_LAYER + "self_attn.q_proj",
    "{layer}_key": LLAMA_LAYER + "self_attn.k_proj",
    "{layer}_value": LLAMA_LAYER + "self_attn.v_proj",
    "{layer}_post_attn": LLAMA_LAYER + "self_attn.o_proj:in.0",
    "{layer}_post_attn_pre_resid": LLAMA_LAYER + "self_attn.o_proj",
    "{layer}_pre_mlp": LLAMA_LAYER + "post_attention_layernorm",
    "{layer}_post_mlp": LLAMA_LAYER + "mlp",
}
GPT2_AS_GGUF = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "blk.{layer}.attn_norm": GPT2_LAYER + "ln_1",
    "blk.{layer}.attn_qkv": GPT2_LAYER + "attn.c_attn",
    "blk.{layer}.attn_output": GPT2_LAYER + "attn.c_proj",
    "blk.{layer}.ffn_norm": GPT2_LAYER + "ln_2",
    "blk.{layer}.ffn_up": GPT2_LAYER + "mlp.c_fc",
    "blk.{layer}.ffn_down": GPT2_LAYER + "mlp.c_proj",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
}
GPT2_AS_MEGATRON = {
    "embedding.word_embeddings": "transformer.wte",
    "embedding.position_embeddings": "transformer.wpe",
    "decoder.layers.{layer}.input_layernorm": GPT2_LAYER + "ln_1",
    "decoder.layers.{layer}.self_attention.linear_qkv": GPT2_LAYER + "attn.c_attn",
    "decoder.layers.{layer}.self_attention.core_attention": GPT2_LAYER + "attn.c_proj:in.0",
    "decoder.layers.{layer}.self_attention.linear_proj": GPT2_LAYER + "attn.c_proj",
    "decoder.layers.{layer}.self_attention": GPT2_LAYER + "attn",
    "decoder.layers.{layer}.pre_mlp_layernorm": GPT2_LAYER + "ln_2",
    "decoder.layers.{layer}.mlp.linear_fc1": GPT2_LAYER + "mlp.c_fc",
    "decoder.layers.{layer}.mlp.linear_fc2": GPT2_LAYER + "mlp.c_proj",
    "decoder.layers.{layer}.mlp": GPT2_LAYER + "mlp",
    "decoder.layers.{layer}": GPT2_LAYER[:-1],
    "decoder.final_layernorm": "transformer.ln_f",
    "output_layer": "lm_head",
}
GPT2_AS_STAGES = {
    "{layer}_post_ln_pre_attn": GPT2_LAYER + "ln_1",
    "{layer}_post_attn": GPT2_LAYER + "attn.c_proj:in.0",
    "{layer}_post_attn_pre_resid": GPT2_LAYER + "attn.c_proj",
    "{layer}_pre_mlp": GPT2_LAYER + "ln_2",
    "{layer}_post_mlp": GPT2_LAYER + "mlp",
}


def spelt_out(names: Names) -> Names:
    """Layer after layer, in the order of the run."""
    found: Names = {}
    for layered, group in groupby(names, key=lambda name: "{" in name):
        here = list(group)
        for layer in range(LAYERS if layered else 1):
            found |= {name.format(layer=layer): names[name].format(layer=layer) for name in here}
    return found


def renamed(run: Trace, names: Names) -> Trace:
    """The same values under other names, through bf16, without the batch axis; several keys are put in one tensor."""
    parts = {name: [array(run, key)[0] for key in keys.split()] for name, keys in names.items()}
    return trace_of({name: np.concatenate(values, axis=-1) for name, values in parts.items()}, noise=True)


CASES = {
    "llama-gguf": (llama, LLAMA_AS_GGUF),
    "llama-cpp": (llama, LLAMA_AS_LLAMA_CPP),
    "llama-megatron": (llama, LLAMA_AS_MEGATRON),
    "llama-vllm": (llama, LLAMA_AS_VLLM),
    "llama-stages": (llama, LLAMA_AS_STAGES),
    "gpt2-gguf": (gpt2, GPT2_AS_GGUF),
    "gpt2-megatron": (gpt2, GPT2_AS_MEGATRON),
    "gpt2-stages": (gpt2, GPT2_AS_STAGES),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("prefix", ["", "_orig_mod.module."], ids=["plain", "wrapped"])
def test_every_tensor_of_another_dialect_finds_its_own(case: str, prefix: str) -> None:
    run, names = CASES[case]
    expected = spelt_out(names)
    if prefix and not any(name[0].isdigit() or "-" in name for name in expected):
        expected = {prefix + name: key for name, key in expected.items()}
    result = pair_up(run(), renamed(run(), expected))
    assert {theirs: ours for ours, theirs in pairs_of(result)} == expected
    assert extra_of(result) == []


@pytest.mark.parametrize("case", CASES)
def test_names_are_enough_for_all_but_inputs_and_activations(case: str) -> None:
    run, names = CASES[case]
    expected = {name: key for name, key in spelt_out(names).items() if not key.endswith((":in.0", ".act_fn"))}
    zeros = trace_of({name: 0 * array(renamed(run(), expected), name) for name in expected})
    result = pair_up(run(), zeros)
    assert {theirs: ours for ours, theirs in pairs_of(result)} == expected
    assert methods_of(result) <= {"exact", "normalised"}


def test_both_ways_find_the_same_pairs() -> None:
    candidate = renamed(llama(), spelt_out(LLAMA_AS_MEGATRON))
    forth, back = pair_up(llama(), candidate), pair_up(candidate, llama())
    assert set(pairs_of(forth)) == {(theirs, ours) for ours, theirs in pairs_of(back)}


def test_query_key_and_value_find_the_fused_tensor() -> None:
    fused = array(gpt2(), "transformer.h.0.attn.c_attn")[0]
    query, key, value = np.split(fused, 3, axis=-1)
    candidate = trace_of({"0_query": query, "0_key": key, "0_value": value})
    result = pair_up(gpt2(), candidate)
    assert pairs_of(result) == [("transformer.h.0.attn.c_attn", "0_query 0_key 0_value")]
    assert result.pairs[0].pairing.confidence == 0.9


HUGGING_FACE_VIT = [
    "vit.embeddings.patch_embeddings.projection",
    "vit.encoder.layer.0.layernorm_before",
    "vit.encoder.layer.0.attention.attention.query",
    "vit.encoder.layer.0.attention.attention.key",
    "vit.encoder.layer.0.attention.attention.value",
    "vit.encoder.layer.0.attention.output.dense",
    "vit.encoder.layer.0.layernorm_after",
    "vit.encoder.layer.0.intermediate.dense",
    "vit.encoder.layer.0.output.dense",
    "vit.layernorm",
]
TIMM_VIT = {
    "blocks.0.norm1": "vit.encoder.layer.0.layernorm_before",
    "blocks.0.attn.qkv": " ".join(
        f"vit.encoder.layer.0.attention.attention.{part}" for part in ("query", "key", "value")
    ),
    "blocks.0.attn.proj": "vit.encoder.layer.0.attention.output.dense",
    "blocks.0.norm2": "vit.encoder.layer.0.layernorm_after",
    "blocks.0.mlp.fc1": "vit.encoder.layer.0.intermediate.dense",
    "blocks.0.mlp.fc2": "vit.encoder.layer.0.output.dense",
    "norm": "vit.layernorm",
}
WHISPER = {
    "encoder.blocks.0.attn.query": "model.encoder.layers.0.self_attn.q_proj",
    "encoder.blocks.0.attn.out": "model.encoder.layers.0.self_attn.out_proj",
    "encoder.blocks.0.attn_ln": "model.encoder.layers.0.self_attn_layer_norm",
    "encoder.blocks.0.mlp.0": "model.encoder.layers.0.fc1",
    "encoder.blocks.0.mlp.2": "model.encoder.layers.0.fc2",
    "encoder.blocks.0.mlp_ln": "model.encoder.layers.0.final_layer_norm",
    "decoder.blocks.0.attn.query": "model.decoder.layers.0.self_attn.q_proj",
    "decoder.blocks.0.cross_attn.query": "model.decoder.layers.0.encoder_attn.q_proj",
    "decoder.blocks.0.cross_attn_ln": "model.decoder.layers.0.encoder_attn_layer_norm",
    "decoder.blocks.0.mlp_ln": "model.decoder.layers.0.final_layer_norm",
}
META_LLAMA = {
    "tok_embeddings": "model.embed_tokens",
    "layers.0.attention_norm": "model.layers.0.input_layernorm",
    "layers.0.attention.wq": "model.layers.0.self_attn.q_proj",
    "layers.0.attention.wo": "model.layers.0.self_attn.o_proj",
    "layers.0.ffn_norm": "model.layers.0.post_attention_layernorm",
    "layers.0.feed_forward.w1": "model.layers.0.mlp.gate_proj",
    "layers.0.feed_forward.w2": "model.layers.0.mlp.down_proj",
    "layers.0.feed_forward.w3": "model.layers.0.mlp.up_proj",
    "norm": "model.norm",
    "output": "lm_head",
}


@pytest.mark.parametrize("names", [TIMM_VIT, WHISPER, META_LLAMA], ids=["timm", "whisper", "meta"])
def test_other_dialects_find_their_own(names: Names) -> None:
    keys = HUGGING_FACE_VIT if names is TIMM_VIT else list(names.values())
    found = paired(named(*keys), named(*names))
    assert {theirs: ours for ours, theirs in found} == names


ARCHITECTURES = (
    "llama gpt2 gpt_neox:GPTNEOX bloom falcon gemma gemma2 gemma3_text:GEMMA3 qwen2 qwen3 phi:PHI2 phi3 starcoder2 "
    "bert olmo olmo2 t5 mpt stablelm cohere:COMMAND_R qwen2_moe:QWEN2MOE gptj glm4 granite"
).split()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_weights_find_their_own_under_the_names_gguf_gives_them(architecture: str) -> None:
    import gguf

    kind, _, arch = architecture.partition(":")
    weights = weights_of(kind)
    known = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch or kind.upper()], 2)
    expected = {theirs: name for name in weights if (theirs := known.get_name(name, (".weight", ".bias")))}
    found = paired(named(*weights), named(*expected))
    assert {theirs: ours for ours, theirs in found} == expected


def weights_of(kind: str) -> list[str]:
    """The names of the weights of a model of two layers, which is never built."""
    import torch
    import transformers

    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")  # of transformers' own
        config: Any = transformers.AutoConfig.for_model(kind)
        for count in ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers"):
            if hasattr(config, count):
                setattr(config, count, 2)
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:2]
        if hasattr(config, "num_experts"):
            config.num_experts = 2
        seq2seq, plain = transformers.AutoModelForSeq2SeqLM, transformers.AutoModel
        build = {"t5": seq2seq, "bert": plain}.get(kind, transformers.AutoModelForCausalLM)
        return list(build.from_config(config).state_dict())
