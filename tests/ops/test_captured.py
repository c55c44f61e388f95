"""Whole models, captured: every leaf and every function of them comes out again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as tf

from firstdiff.ops import NotReplayable
from firstdiff.ops.recorded_call import Call
from firstdiff.ops.replaying import TABLE
from tests.ops.captured import Operation, operations

SIZES: dict[str, Any] = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
HEADS: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2}
IDS = {"input_ids": torch.randint(0, 90, (2, 12), generator=torch.Generator().manual_seed(1))}

MODELS: dict[str, tuple[Callable[[], torch.nn.Module], dict[str, torch.Tensor]]] = {
    "gpt2": (lambda: tf.GPT2LMHeadModel(tf.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4)), IDS),
    "llama": (lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**SIZES, **HEADS)), IDS),
    "gemma2": (
        lambda: tf.Gemma2ForCausalLM(
            tf.Gemma2Config(**SIZES, **HEADS, head_dim=8, query_pre_attn_scalar=8, attn_implementation="eager")
        ),
        IDS,
    ),
    "bert": (lambda: tf.BertModel(tf.BertConfig(**SIZES, num_attention_heads=4)), IDS),
    "t5": (
        lambda: tf.T5EncoderModel(
            tf.T5Config(
                vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu"
            )
        ),
        IDS,
    ),
    "mixtral": (lambda: tf.MixtralForCausalLM(tf.MixtralConfig(**SIZES, **HEADS, num_local_experts=4)), IDS),
    "vit": (
        lambda: tf.ViTModel(
            tf.ViTConfig(
                image_size=32,
                patch_size=8,
                hidden_size=32,
                intermediate_size=64,
                num_hidden_layers=2,
                num_attention_heads=4,
            )
        ),
        {"pixel_values": torch.randn(1, 3, 32, 32)},
    ),
    "hifigan": (
        lambda: tf.SpeechT5HifiGan(
            tf.SpeechT5HifiGanConfig(
                model_in_dim=16,
                upsample_initial_channel=32,
                upsample_rates=[4, 4],
                upsample_kernel_sizes=[8, 8],
                resblock_kernel_sizes=[3],
                resblock_dilation_sizes=[[1, 3]],
            )
        ),
        {"spectrogram": torch.randn(20, 16)},
    ),
}


def is_known(found: Operation) -> bool:
    call = Call(found.op, found.attrs, found.inputs, found.params, found.name)
    return any(row.supports(call) for row in TABLE)


def excused(found: Operation, answer: Any) -> bool:
    """Arguments that are views of parameters, and `where` of a condition alone, which gives places."""
    return isinstance(answer, NotReplayable) and (
        "is a view of" in answer.reason or list(found.inputs) == ["condition"]
    )


# The others compute in float32 whatever their type
IN_DOUBLE = ("gpt2", "bert", "vit", "hifigan")


@pytest.mark.filterwarnings("ignore::firstdiff.capturing.CaptureWarning")
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, dtype) for name in MODELS for dtype in (torch.float32, torch.bfloat16)),
        *((name, torch.float64) for name in IN_DOUBLE),
    ],
)
def test_every_operation_of_a_model_comes_out_again(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    build, inputs = MODELS[name]
    torch.manual_seed(0)
    model = build().eval().to(dtype)
    given = {key: value.to(dtype) if value.is_floating_point() else value for key, value in inputs.items()}
    found = operations(model, tmp_path, **given)
    known = [operation for operation in found if is_known(operation)]
    answers = [(operation, operation.reproduce()) for operation in known]
    failed = [
        (operation.name, answer.reason)
        for operation, answer in answers
        if isinstance(answer, NotReplayable) and not excused(operation, answer)
    ]
    assert failed == []
    assert len(known) > 0.6 * len(found)
    containers = {operation.op for operation in found} - {operation.op for operation in known}
    assert all(op[0].isupper() for op in containers), "functions are all known"
