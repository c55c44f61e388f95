"""Models of transformers, tiny and random, with no special case for any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import transformers as tf

from firstdiff.capturing import capture
from firstdiff.readers import open_trace
from firstdiff.trace import Trace
from tests.capturing.models import by_seq, keys, line, sources, values

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

IDS = torch.randint(0, 90, (2, 12), generator=torch.Generator().manual_seed(0))
SMALL: dict[str, Any] = {
    **{"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"intermediate_size": 37, "max_position_embeddings": 64},
}


class Case(NamedTuple):
    build: Callable[[], Any]
    inputs: dict[str, torch.Tensor]
    expected: set[str]


CASES = {
    "gpt2": Case(
        lambda: tf.GPT2LMHeadModel(tf.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64)),
        {"input_ids": IDS},
        {
            "transformer.h.1.attn.scaled_dot_product_attention",
            "transformer.h.0.mlp.act.tanh",
            "lm_head",
            "root:out.logits",
        },
    ),
    "llama": Case(
        lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**SMALL, num_key_value_heads=2)),
        {"input_ids": IDS},
        {"model.rotary_emb.cos", "model.layers.1.self_attn.cat", "model.norm.rsqrt", "model.layers.0.mlp.mul"},
    ),
    "bert": Case(
        lambda: tf.BertModel(tf.BertConfig(**SMALL)),
        {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)},
        {"embeddings.LayerNorm", "encoder.layer.1.attention.self.scaled_dot_product_attention", "pooler"},
    ),
    "whisper": Case(
        lambda: tf.WhisperForConditionalGeneration(
            tf.WhisperConfig(
                **{"vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "num_mel_bins": 8},
                **{"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 37},
                **{"decoder_ffn_dim": 37, "max_source_positions": 20, "max_target_positions": 30, "pad_token_id": 0},
                **{"bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3},
            )
        ),
        {
            "input_features": torch.randn(1, 8, 40, generator=torch.Generator().manual_seed(0)),
            "decoder_input_ids": IDS[:1],
        },
        {"model.encoder.conv1", "model.encoder.gelu@1", "model.decoder.layers.1.encoder_attn", "proj_out"},
    ),
    "vit": Case(
        lambda: tf.ViTModel(
            tf.ViTConfig(
                **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37},
                **{"image_size": 16, "patch_size": 4},
            )
        ),
        {"pixel_values": torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))},
        {"embeddings.patch_embeddings.projection", "embeddings.cat", "layernorm"},
    ),
    "t5": Case(
        lambda: tf.T5ForConditionalGeneration(
            tf.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4, decoder_start_token_id=0)
        ),
        {"input_ids": IDS, "decoder_input_ids": IDS},
        {"encoder.block.0.layer.0.SelfAttention.softmax", "decoder.block.1.layer.1.EncDecAttention.matmul", "lm_head"},
    ),
    "mixtral": Case(
        lambda: tf.MixtralForCausalLM(tf.MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4)),
        {"input_ids": IDS},
        {"model.layers.0.block_sparse_moe.topk", "model.layers.1.block_sparse_moe.gate", "model.layers.0.self_attn"},
    ),
}


def built(name: str) -> Any:
    torch.manual_seed(0)
    return CASES[name].build().eval()


def tensors_of(output: Any) -> list[torch.Tensor]:
    return [value for value in output.to_tuple() if isinstance(value, torch.Tensor)]


@pytest.fixture(scope="module", params=CASES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Trace, bool]:
    """A model, its trace, and whether it computed the same bits as without capture."""
    model, case = built(request.param), CASES[request.param]
    path = tmp_path_factory.mktemp("zoo") / "trace"
    with torch.no_grad():
        plain = model(**case.inputs)
        with capture(model, path):
            watched = model(**case.inputs)
    same = all(torch.equal(*pair) for pair in zip(tensors_of(plain), tensors_of(watched), strict=True))
    return request.param, open_trace(path), same


def test_the_result_is_the_same_with_and_without(run: tuple[str, Trace, bool]) -> None:
    assert run[2]


def test_every_module_that_runs_and_the_functions_inside_are_there(run: tuple[str, Trace, bool]) -> None:
    name, trace, _ = run
    assert not trace.warnings
    assert not any(tensor.error for tensor in trace)
    assert "skipped" not in trace.header
    found = keys(trace)
    assert len(set(found)) == len(found)
    assert CASES[name].expected <= set(found)


def test_every_source_is_the_tensor_it_claims_to_be(run: tuple[str, Trace, bool]) -> None:
    _, trace, _ = run
    numbered = by_seq(trace)
    checked = 0
    for tensor in trace:
        if tensor.record.role != "input" or tensor.record.attrs.get("view"):
            continue
        for seq in tensor.record.sources:
            origin = numbered[seq]
            assert seq < (tensor.record.seq or 0)
            np.testing.assert_array_equal(tensor.values().read(), origin.values().read())
            checked += 1
    assert checked > 20


def test_a_view_has_only_values_of_what_it_is_a_view_of(run: tuple[str, Trace, bool]) -> None:
    _, trace, _ = run
    numbered = by_seq(trace)
    for tensor in trace:
        if tensor.record.role == "input" and tensor.record.attrs.get("view"):
            (seq,) = tensor.record.sources
            own, whole = tensor.values().read(), numbered[seq].values().read()
            assert own.dtype == whole.dtype
            assert np.isin(own.reshape(-1), whole.reshape(-1)).all()


def test_generation_is_recorded_step_by_step(tmp_path: Path) -> None:
    model = built("gpt2")
    with capture(model, tmp_path / "t", level="module", params="none"):
        generated = model.generate(IDS[:1], max_new_tokens=3, do_sample=False, pad_token_id=0)
    trace = open_trace(tmp_path / "t")
    logits = [key for key in keys(trace, "output") if key.startswith("lm_head")]
    assert logits == ["lm_head", "lm_head#s1", "lm_head#s2"]
    chosen = [int(values(trace, key)[0, -1].argmax()) for key in logits]
    assert chosen == generated[0, -3:].tolist()


def test_tied_weights_of_gpt2_are_named_once(tmp_path: Path) -> None:
    model = built("gpt2")
    with torch.no_grad(), capture(model, tmp_path / "t"):
        model(IDS)
    trace = open_trace(tmp_path / "t")
    assert line(trace, "transformer.wte.weight:param")["attrs"]["aliases"] == ["lm_head.weight"]
    assert sources(trace, "transformer.h.0.attn.c_attn.addmm") == [
        *("transformer.h.0.attn.c_attn.bias:param", "transformer.h.0.attn.c_attn.addmm:in.mat1"),
        "transformer.h.0.attn.c_attn.weight:param",
    ]


def test_half_precision_stays_half(tmp_path: Path) -> None:
    model = built("llama").to(torch.bfloat16)
    with torch.no_grad(), capture(model, tmp_path / "t"):
        model(IDS)
    trace = open_trace(tmp_path / "t")
    assert trace["model.layers.0"].values().dtype.name == "bfloat16"
    assert trace["model.layers.0.input_layernorm.pow"].values().dtype.name == "float32"
