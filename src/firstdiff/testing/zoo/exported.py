"""A model as torch.export sees it, run as modules of the same names."""

from __future__ import annotations

import warnings
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from typing import Any

import torch

from firstdiff.testing.zoo.architectures import Built
from firstdiff.trace import Trace

_MASKS = {"GPT2LMHeadModel": "attention_mask", "LlamaForCausalLM": "attention_mask"}
_MASKS |= {"WhisperForConditionalGeneration": "decoder_attention_mask"}
_UNDER_AUTOCAST = "rotary_emb"


def exported(built: Built) -> Built:
    """The exported program, unflattened again so that a capture finds its modules."""
    with warnings.catch_warnings(), torch.no_grad(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        names = tuple(name for name, _ in built.model.named_modules() if name and not name.endswith(_UNDER_AUTOCAST))
        program = torch.export.export(built.model, (), built.inputs, strict=False, preserve_module_call_signature=names)
        return Built(torch.export.unflatten(program), built.inputs)


def without_renumbered(trace: Trace) -> Trace:
    """Without the inputs of modules under autocast: torch.export drops those not used and numbers the rest anew."""
    kept = (tensor for tensor in trace if tensor.record.role != "input" or not tensor.name.endswith(_UNDER_AUTOCAST))
    return replace(trace, tensors=tuple(kept))


def with_mask(built: Built) -> Built:
    """The causal mask as an input, where a model would make its own by vmap, which an exported program cannot."""
    name = _MASKS.get(type(built.model).__name__)
    if name is None:
        return built
    ids: Any = built.inputs.get("decoder_input_ids", built.inputs.get("input_ids"))
    rows, tokens = ids.shape
    hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    mask = torch.zeros(tokens, tokens).masked_fill(hidden, torch.finfo(torch.float32).min)
    return Built(built.model, built.inputs | {name: mask.expand(rows, 1, tokens, tokens).contiguous()})
