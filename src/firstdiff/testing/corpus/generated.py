"""Models of transformers with random weights: ten architectures, 2 to 28 layers, some with massive activations."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import nn

from firstdiff.testing.zoo.architectures import Built
from firstdiff.testing.zoo.architectures.table import randomise

_WIDTH, _HEADS, _VOCABULARY, _LENGTH = 96, 6, 200, 24
_MASSIVE = 300.0  # times an ordinary value, as in trained language models
_COMMON: dict[str, Any] = {
    **{"vocab_size": _VOCABULARY, "hidden_size": _WIDTH, "num_attention_heads": _HEADS, "use_cache": False},
    **{"intermediate_size": 2 * _WIDTH, "max_position_embeddings": 128, "attn_implementation": "eager"},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
}
_Build = Callable[[Any, int], Any]


def _gpt2(tf: Any, layers: int) -> Any:
    sizes = {"n_embd": _WIDTH, "n_layer": layers, "n_head": _HEADS, "n_positions": 128, "n_inner": 2 * _WIDTH}
    ends = {"bos_token_id": 1, "eos_token_id": 2}
    return tf.GPT2LMHeadModel(
        tf.GPT2Config(vocab_size=_VOCABULARY, **sizes, **ends, use_cache=False, attn_implementation="eager")
    )


def _t5(tf: Any, layers: int) -> Any:
    sizes = {"d_model": _WIDTH, "d_kv": 16, "d_ff": 2 * _WIDTH, "num_layers": layers, "num_heads": _HEADS}
    return tf.T5ForConditionalGeneration(
        tf.T5Config(vocab_size=_VOCABULARY, **sizes, decoder_start_token_id=0, use_cache=False)
    )


def _opt(tf: Any, layers: int) -> Any:
    names = {name: value for name, value in _COMMON.items() if name != "intermediate_size"}
    sizes = {"ffn_dim": 2 * _WIDTH, "word_embed_proj_dim": _WIDTH, "num_hidden_layers": layers}
    return tf.OPTForCausalLM(tf.OPTConfig(**names, **sizes))


def _decoder(kind: str, **more: Any) -> _Build:
    def build(tf: Any, layers: int) -> Any:
        config = getattr(tf, f"{kind}Config")(**_COMMON, num_hidden_layers=layers, **more)
        return getattr(tf, f"{kind}ForCausalLM")(config)

    return build


def _encoder(kind: str) -> _Build:
    def build(tf: Any, layers: int) -> Any:
        return getattr(tf, f"{kind}Model")(getattr(tf, f"{kind}Config")(**_COMMON, num_hidden_layers=layers))

    return build


def _vit(tf: Any, layers: int) -> Any:
    sizes = {"hidden_size": _WIDTH, "num_attention_heads": _HEADS, "intermediate_size": 2 * _WIDTH}
    config = tf.ViTConfig(**sizes, num_hidden_layers=layers, image_size=32, patch_size=8, attn_implementation="eager")
    return tf.ViTModel(config)


BUILDERS: dict[str, _Build] = {
    "gpt2": _gpt2,
    "llama": _decoder("Llama", num_key_value_heads=2),
    "qwen2": _decoder("Qwen2", num_key_value_heads=3),
    "mistral": _decoder("Mistral", num_key_value_heads=2, head_dim=16),
    "gemma": _decoder("Gemma", num_key_value_heads=1, head_dim=16),
    "neox": _decoder("GPTNeoX"),
    "opt": _opt,
    "bert": _encoder("Bert"),
    "roberta": _encoder("Roberta"),
    "t5": _t5,
    "vit": _vit,
}


def generated(kind: str, layers: int, seed: int, batch: int = 2, *, massive: bool = False) -> Built:
    """A model of one architecture with trained-like random weights, and inputs for it.

    massive: one channel of the first token is far larger than everything else, as in trained language models
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BUILDERS[kind](import_module("transformers"), layers)
    assert isinstance(model, nn.Module)
    randomise(model, seed)
    # random layers add as much as they are given; in trained ones the stream grows slowly, and so does its noise
    with torch.no_grad():
        for name, values in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight", "out_proj.weight", "c_proj.weight", "fc2.weight")):
                values.mul_(0.5)
    model = model.eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(seed + 1)
    if kind == "vit":
        return Built(model, {"pixel_values": torch.randn(batch, 3, 32, 32, generator=generator)})
    ids = torch.randint(4, _VOCABULARY, (batch, _LENGTH), generator=generator)
    if massive:
        ids[:, 0] = 3
        embedding = model.get_input_embeddings().weight  # type: ignore[operator]
        embedding.data[3, _WIDTH // 3] = _MASSIVE * embedding.data.std()
    mask = torch.ones_like(ids)
    if kind in ("bert", "roberta", "t5"):
        mask[1::2, _LENGTH - 7 :] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    return Built(model, inputs | ({"decoder_input_ids": ids.flip(1)} if kind == "t5" else {}))
