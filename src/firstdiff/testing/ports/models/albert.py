"""ALBERT in numpy by somebody who spells everything out: very many taps, fused query, key, value, heads last."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn

from firstdiff.testing.ports.mathematics import gelu, gelu_tanh, layer_norm, softmax
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import Architecture

EMBEDDING_SIZE, HIDDEN_SIZE, INTERMEDIATE_SIZE, VOCABULARY_SIZE, NUMBER_OF_TOKENS = 16, 32, 56, 70, 11
NUMBER_OF_HEADS, NUMBER_OF_PASSES, NUMBER_OF_GROUPS = 4, 4, 2
SIZE_OF_HEAD, EPSILON = HIDDEN_SIZE // NUMBER_OF_HEADS, 1e-12


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.AlbertConfig(
        **{"vocab_size": VOCABULARY_SIZE, "embedding_size": EMBEDDING_SIZE, "hidden_size": HIDDEN_SIZE},
        **{"num_hidden_layers": NUMBER_OF_PASSES, "num_hidden_groups": NUMBER_OF_GROUPS, "type_vocab_size": 2},
        **{"num_attention_heads": NUMBER_OF_HEADS, "intermediate_size": INTERMEDIATE_SIZE, "hidden_act": "gelu_new"},
        **{"max_position_embeddings": 24, "attn_implementation": "eager"},
    )
    made: nn.Module = tf.AlbertForPreTraining(config)
    return made


def sentence_pairs(generator: torch.Generator, batch: int) -> dict[str, Any]:
    ids = torch.randint(4, VOCABULARY_SIZE, (batch, NUMBER_OF_TOKENS), generator=generator)
    mask, types = torch.ones_like(ids), torch.zeros_like(ids)
    mask[-1, 9:] = 0
    types[:, 5:] = 1
    types[-1, 7] = 0
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


def albert(weights: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    hidden_states = compute_embeddings(weights, inputs, tap, wrong)
    for pass_number in range(NUMBER_OF_PASSES):
        hidden_states = encoder_pass(weights, hidden_states, inputs["attention_mask"], pass_number, tap, wrong)
    if wrong("one pass too many"):
        hidden_states = encoder_pass(weights, hidden_states, inputs["attention_mask"], NUMBER_OF_PASSES, None, wrong)
    token_scores = masked_language_model_head(weights, hidden_states, tap, wrong)
    order_scores = sentence_order_head(weights, hidden_states, tap, wrong)
    return np.concatenate([token_scores.reshape(len(token_scores), -1), order_scores], axis=1)


def compute_embeddings(weights: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    prefix = "albert.embeddings"
    number_of_tokens = inputs["input_ids"].shape[1]
    position_indices = np.arange(number_of_tokens) + (2 if wrong("positions counted from two") else 0)
    segment_indices = inputs["token_type_ids"]
    if wrong("segments exchanged"):
        segment_indices = 1 - segment_indices
    word_vectors = weights[f"{prefix}.word_embeddings.weight"][inputs["input_ids"]]
    position_vectors = weights[f"{prefix}.position_embeddings.weight"][position_indices]
    segment_vectors = weights[f"{prefix}.token_type_embeddings.weight"][segment_indices]
    tap("Embeddings.WordVectors", word_vectors)
    tap("Embeddings.PositionVectors", position_vectors)
    tap("Embeddings.SegmentVectors", segment_vectors)
    sum_of_embeddings = tap("Embeddings.SumOfAllThree", word_vectors + position_vectors + segment_vectors)
    epsilon = 3e-3 if wrong("epsilon of the embeddings") else EPSILON
    normalized = apply_layer_norm(weights, f"{prefix}.LayerNorm", sum_of_embeddings, epsilon)
    tap("Embeddings.Normalized", normalized)
    name = "albert.encoder.embedding_hidden_mapping_in"
    with_bias = not wrong("projection of embeddings without bias")
    return tap("Embeddings.ProjectedToHiddenSize", apply_linear(weights, name, normalized, with_bias=with_bias))


def encoder_pass(
    weights: Weights, hidden_states: Array, mask: Array, pass_number: int, tap: Tap | None, wrong: Wrong
) -> Array:
    """Run the layer of the group that this pass belongs to; all passes of a group have the same weights."""
    group_number = min(pass_number * NUMBER_OF_GROUPS // NUMBER_OF_PASSES, NUMBER_OF_GROUPS - 1)
    if wrong("groups take turns", pass_number):
        group_number = pass_number % NUMBER_OF_GROUPS
    layer_name = f"albert.encoder.albert_layer_groups.{group_number}.albert_layers.0"

    def remember(what: str, value: Array) -> Array:
        return tap(f"EncoderPass{pass_number + 1}.{what}", value) if tap else value

    attention = self_attention(weights, f"{layer_name}.attention", hidden_states, mask, pass_number, remember, wrong)
    sum_with_residual = remember("Attention.ResidualSum", attention + hidden_states)
    if wrong("norms of the layer exchanged", pass_number):
        attention_output = apply_layer_norm(weights, f"{layer_name}.full_layer_layer_norm", sum_with_residual)
    else:
        attention_output = apply_layer_norm(weights, f"{layer_name}.attention.LayerNorm", sum_with_residual)
    remember("Attention.NormalizedOutput", attention_output)
    inner = remember("FeedForward.BeforeActivation", apply_linear(weights, f"{layer_name}.ffn", attention_output))
    inner = gelu(inner) if wrong("exact gelu", pass_number) else gelu_tanh(inner)
    remember("FeedForward.AfterActivation", inner)
    half = wrong("feed-forward in half precision", pass_number)
    outer = apply_linear(weights, f"{layer_name}.ffn_output", inner, rounded_to=np.float16 if half else None)
    remember("FeedForward.Output", outer)
    residual = (
        hidden_states if wrong("feed-forward added to what went into attention", pass_number) else attention_output
    )
    sum_with_residual = remember("FeedForward.ResidualSum", outer + residual)
    final = apply_layer_norm(weights, f"{layer_name}.full_layer_layer_norm", sum_with_residual)
    return remember("NormalizedOutput", final)


def self_attention(
    weights: Weights, name: str, hidden_states: Array, mask: Array, pass_number: int, remember: Any, wrong: Wrong
) -> Array:
    """One multiplication for queries, keys and values; scores have their heads last."""
    batch, tokens, _ = hidden_states.shape
    fused_weight = np.concatenate([weights[f"{name}.{part}.weight"] for part in ("query", "key", "value")])
    fused_bias = np.concatenate([weights[f"{name}.{part}.bias"] for part in ("query", "key", "value")])
    fused = remember("Attention.QueriesKeysValues", hidden_states @ fused_weight.T + fused_bias)
    queries, keys, values = np.split(fused.reshape(batch, tokens, -1, SIZE_OF_HEAD), 3, axis=2)
    if wrong("keys and values exchanged", pass_number):
        keys, values = values, keys
    scores = np.einsum("bqhc,bkhc->bqkh", queries, keys)
    if not wrong("scores not divided", pass_number):
        scores = scores / np.float32(np.sqrt(SIZE_OF_HEAD))
    remember("Attention.ScaledScores", scores)
    if not wrong("padding seen", pass_number):
        scores = scores + np.where(mask[:, None, :, None] == 1, np.float32(0), np.float32(-10000))
    probabilities = softmax(scores, axis=3 if wrong("softmax over the last axis", pass_number) else 2)
    remember("Attention.Probabilities", probabilities)
    equation = "bqkh,bkhc->bqch" if wrong("heads merged the other way round", pass_number) else "bqkh,bkhc->bqhc"
    context = np.einsum(equation, probabilities, values).reshape(batch, tokens, -1)
    remember("Attention.ContextVectors", context)
    output_weight = weights[f"{name}.dense.weight"]
    projected = context @ (output_weight if wrong("output weight transposed", pass_number) else output_weight.T)
    return remember("Attention.ProjectedContext", projected + weights[f"{name}.dense.bias"])


def masked_language_model_head(weights: Weights, hidden_states: Array, tap: Tap, wrong: Wrong) -> Array:
    reduced = apply_linear(weights, "predictions.dense", hidden_states)
    tap("TokenHead.ReducedToEmbeddingSize", reduced)
    activated = reduced if wrong("head without activation") else gelu_tanh(reduced)
    tap("TokenHead.Activated", activated)
    normalized = tap("TokenHead.Normalized", apply_layer_norm(weights, "predictions.LayerNorm", activated))
    scores = normalized @ weights["albert.embeddings.word_embeddings.weight"].T
    return tap("TokenHead.Scores", scores + weights["predictions.bias"])


def sentence_order_head(weights: Weights, hidden_states: Array, tap: Tap, wrong: Wrong) -> Array:
    chosen_token = -1 if wrong("last token pooled") else 0
    before = apply_linear(weights, "albert.pooler", hidden_states[:, chosen_token])
    pooled = tap("OrderHead.PooledSentence", np.tanh(tap("OrderHead.BeforeTanh", before)))
    return tap("OrderHead.Scores", apply_linear(weights, "sop_classifier.classifier", pooled))


def apply_linear(
    weights: Weights, name: str, x: Array, *, with_bias: bool = True, rounded_to: type[np.floating[Any]] | None = None
) -> Array:
    weight = weights[f"{name}.weight"]
    if rounded_to is not None:
        x, weight = (value.astype(rounded_to).astype(np.float32) for value in (x, weight))
    return np.asarray(x @ weight.T + (weights[f"{name}.bias"] if with_bias else 0))


def apply_layer_norm(weights: Weights, name: str, x: Array, epsilon: float = EPSILON) -> Array:
    return layer_norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"], epsilon)


_E = "albert.embeddings"
_G0, _G1 = (f"albert.encoder.albert_layer_groups.{group}.albert_layers.0" for group in range(2))
PORT = Port(
    name="albert",
    half="open",
    style="numpy, everything spelt out, very many taps, fused q, k, v, heads last",
    build=lambda: Architecture("albert", reference, sentence_pairs).build(61),
    result=lambda output: torch.cat([output.prediction_logits.flatten(1), output.sop_logits], 1),
    run=numpy_port(albert),
    faults=(
        fault("positions counted from two", f"{_E}.position_embeddings", "position.offset shift.sequence"),
        fault("segments exchanged", f"{_E}.token_type_embeddings", "ids.mismatch vocab.mismatch"),
        fault("epsilon of the embeddings", f"{_E}.LayerNorm", "norm.eps"),
        fault("projection of embeddings without bias", "albert.encoder.embedding_hidden_mapping_in", "bias.missing"),
        fault("padding seen", f"{_G0}.attention.softmax", "attention.mask"),
        fault(
            "heads merged the other way round",
            f"{_G0}.attention.matmul@1 {_G0}.attention.dense:in.0",
            "layout.head_order layout.reshape layout.transpose layout.interleave",
            layer=0,
        ),
        fault(
            "groups take turns",
            f"{_G1}.attention.query {_G1}.attention.key {_G1}.attention.value",
            "weights.differ",
            layer=2,
        ),
        fault("softmax over the last axis", f"{_G1}.attention.softmax", "softmax.axis", layer=2),
        fault("scores not divided", f"{_G1}.attention.div@1", "attention.scale scale.constant", layer=3),
        fault("keys and values exchanged", f"{_G1}.attention.div", "layout.chunk_swap layout.qkv_order", layer=2),
        fault("output weight transposed", f"{_G1}.attention.dense@1", "weights.transposed", layer=3),
        fault("norms of the layer exchanged", f"{_G0}.attention.LayerNorm", "weights.differ scale.channel", layer=0),
        fault("exact gelu", f"{_G0}.activation@1", "activation.kind", layer=1),
        fault("feed-forward in half precision", f"{_G1}.ffn_output", "dtype.fp16", layer=2),
        fault(
            "feed-forward added to what went into attention",
            f"{_G0}.add",
            "residual.missing values.stale",
            layer=0,
        ),
        fault("one pass too many", "albert.pooler predictions.dense", "op.repeated"),
        fault("last token pooled", "albert.pooler", "pool.kind"),
        fault("head without activation", "predictions.activation", "activation.missing op.skipped"),
    ),
)
