"""Tiny real models of transformers, run once: what every module gave, in the order in which it happened."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from firstdiff.trace import ArraySource, Record, Role, Tensor, Trace

LAYERS = 3


@cache
def llama() -> Trace:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=56,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=61,
        max_position_embeddings=64,
    )
    return _run(LlamaForCausalLM, config)


@cache
def gpt2() -> Trace:
    from transformers import GPT2Config, GPT2LMHeadModel

    return _run(GPT2LMHeadModel, GPT2Config(n_embd=32, n_layer=LAYERS, n_head=4, vocab_size=61, n_positions=64))


def array(trace: Trace, key: str) -> np.ndarray:
    return trace[key].values().view()


def trace_of(arrays: dict[str, np.ndarray], *, noise: bool = False) -> Trace:
    """A trace of arrays in their order; with noise, they went through bf16."""
    trace = Trace.from_arrays({name: _bf16(values) if noise else values for name, values in arrays.items()})
    tensors = (replace(tensor, record=replace(tensor.record, seq=seq)) for seq, tensor in enumerate(trace))
    return replace(trace, tensors=tuple(tensors))


def _bf16(values: np.ndarray) -> np.ndarray:
    import ml_dtypes

    return values.astype(ml_dtypes.bfloat16).astype(np.float32)


def _run(kind: Any, config: Any) -> Trace:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of transformers' own
        torch.manual_seed(0)
        model = kind(config).eval()
        for parameter in model.parameters():
            parameter.data.mul_(1 + 0.5 * torch.rand_like(parameter)).add_(0.02 * torch.randn_like(parameter))
        found: list[Tensor] = []
        for name, module in model.named_modules():
            module.register_forward_hook(_hook(found, name or "model_output"))
        with torch.no_grad():
            model(torch.arange(3, 14)[None] * 5 % 61, use_cache=False)
    return Trace(kind.__name__, tuple(found), order="seq")


def _hook(found: list[Tensor], name: str) -> Any:
    import torch

    def record(module: Any, inputs: tuple[Any, ...], output: Any) -> None:
        if name.endswith("o_proj") or name.endswith("attn.c_proj"):
            keep(inputs[0], module, "input")
        first = output[0] if isinstance(output, tuple) else output
        if isinstance(first, torch.Tensor):
            keep(first, module, "output")

    def keep(tensor: torch.Tensor, module: Any, role: Role) -> None:
        line = Record(name=name, role=role, seq=len(found), op=type(module).__name__)
        found.append(Tensor(line, ArraySource(tensor.detach().float().numpy().copy())))

    return record
