"""Models of transformers, tiny, with random weights, and inputs for them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import nn

WIDTH, HEADS, LAYERS, TOKENS, VOCABULARY = 32, 4, 3, 12, 96
_NAMES: dict[str, Any] = {
    **{"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS},
    **{"intermediate_size": 2 * WIDTH, "max_position_embeddings": 64, "use_cache": False},
}


def gpt2() -> nn.Module:
    tf = _transformers()
    config = tf.GPT2Config(
        **{"vocab_size": VOCABULARY, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 64},
        **{"n_inner": 2 * WIDTH, "use_cache": False, "attn_implementation": "sdpa", "tie_word_embeddings": False},
    )
    return _module(tf.GPT2LMHeadModel(config))


def llama() -> nn.Module:
    tf = _transformers()
    config = tf.LlamaConfig(**_NAMES, num_key_value_heads=2, attn_implementation="eager")
    return _module(tf.LlamaForCausalLM(config))


def bert() -> nn.Module:
    tf = _transformers()
    return _module(tf.BertModel(tf.BertConfig(**_NAMES, attn_implementation="sdpa")))


def whisper() -> nn.Module:
    tf = _transformers()
    config = tf.WhisperConfig(
        **{"vocab_size": VOCABULARY, "d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2, "num_mel_bins": 8},
        **{"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "encoder_ffn_dim": 2 * WIDTH},
        **{"decoder_ffn_dim": 2 * WIDTH, "max_source_positions": 20, "max_target_positions": 32, "pad_token_id": 0},
        **{"bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3, "use_cache": False},
        **{"attn_implementation": "eager"},
    )
    return _module(tf.WhisperForConditionalGeneration(config))


def vit() -> nn.Module:
    tf = _transformers()
    config = tf.ViTConfig(
        **{"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "image_size": 16},
        **{"intermediate_size": 2 * WIDTH, "patch_size": 4, "attn_implementation": "eager"},
    )
    return _module(tf.ViTModel(config))


def t5() -> nn.Module:
    tf = _transformers()
    config = tf.T5Config(
        **{"vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": 8, "d_ff": 2 * WIDTH, "num_layers": 2},
        **{"num_heads": HEADS, "decoder_start_token_id": 0, "use_cache": False, "tie_word_embeddings": False},
    )
    return _module(tf.T5ForConditionalGeneration(config))


def mixtral() -> nn.Module:
    tf = _transformers()
    config = tf.MixtralConfig(
        **_NAMES | {"num_hidden_layers": 2},
        **{"num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2, "attn_implementation": "sdpa"},
    )
    return _module(tf.MixtralForCausalLM(config))


def ids(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"input_ids": _tokens(generator, batch)}


def padded_ids(generator: torch.Generator, batch: int) -> dict[str, Any]:
    mask = torch.ones(batch, TOKENS, dtype=torch.long)
    mask[:, TOKENS - 3 :] = 0
    return {"input_ids": _tokens(generator, batch), "attention_mask": mask}


def two_texts(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return padded_ids(generator, batch) | {"decoder_input_ids": _tokens(generator, batch)}


def speech(generator: torch.Generator, batch: int) -> dict[str, Any]:
    heard = torch.randn(batch, 8, 40, generator=generator)
    return {"input_features": heard, "decoder_input_ids": _tokens(generator, batch)}


def image(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"pixel_values": torch.randn(batch, 3, 16, 16, generator=generator)}


def _tokens(generator: torch.Generator, batch: int) -> torch.Tensor:
    return torch.randint(4, VOCABULARY, (batch, TOKENS), generator=generator)


def _transformers() -> Any:
    """Import transformers when the first model is built: it takes seconds."""
    return import_module("transformers")


def _module(made: Any) -> nn.Module:
    assert isinstance(made, nn.Module)
    return made
