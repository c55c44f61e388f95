"""Names of tensors in words: dialects and synonyms, layers, and kinds of operators.

The tables hold names in transformers, vLLM, SGLang, GGUF, llama.cpp, Megatron, timm and others as lower-case words;
every left-hand side of SYNONYMS is applied first, so the phrases below it are written in folded words. Whatever is in
no table keeps its own words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

# wrappers in front of a name that say nothing about which tensor it is
WRAPPERS = (
    "model",
    "module",
    "transformer",
    "base model",
    "language model",
    "text model",
    "backbone",
    "bert",
    "roberta",
    "gpt neox",
    "vit",
)

# words that vanish wherever they stand
TRANSPARENT = (
    "orig mod",
    "fsdp wrapped module",
    "checkpoint wrapped module",
    "base layer",
)

SYNONYMS = {
    "attention": "attn",
    "selfattention": "self attn",
    "selfattn": "self attn",
    "mlp": "ffn",
    "ffw": "ffn",
    "feedforward": "ffn",
    "feed forward": "ffn",
    "mlp gate": "router",  # `mlp.gate` is the router of a mixture of experts; `ffn_gate`, `mlp.gate_proj` are not
    "mlp gate proj": "ffn gate proj",
    "mlp gate up": "ffn gate up",
    "feed forward w 1": "ffn gate",
    "feed forward w 2": "ffn down",
    "feed forward w 3": "ffn up",
    "dense relu dense": "ffn",
    "dense act dense": "ffn",
    "dense gated act dense": "ffn",
    "layernorm": "norm",
    "layer norm": "norm",
    "rmsnorm": "norm",
    "rms norm": "norm",
    "ln": "norm",
    "query": "q",
    "queries": "q",
    "key": "k",
    "keys": "k",
    "value": "v",
    "values": "v",
    "output": "out",
    "projection": "proj",
    "embd": "embed",
    "embedding": "embed",
    "embeddings": "embed",
    "emb": "embed",
    "tok": "token",
    "tokens": "token",
    "word": "token",
    "words": "token",
    "pos": "position",
    "positions": "position",
    "types": "type",
    "enc": "encoder",
    "dec": "decoder",
    "experts": "expert",
}

# what a layer's parts may be called: each container by each of its leaves
CONTAINERS = {
    "attn": ("attn", "self attn", "attn self", "attn attn", "layer 0 self attn"),
    "cross": ("cross attn", "encoder attn", "encoder decoder attn", "layer 1 encoder decoder attn", "multihead attn"),
    "ffn": ("ffn", "layer 1 ffn", "layer 2 ffn"),
    "shared": ("ffn shared expert",),
}
_ATTENTION = {
    "q": ("q", "q proj", "wq", "w q", "q lin", "to q"),
    "k": ("k", "k proj", "wk", "w k", "k lin", "to k"),
    "v": ("v", "v proj", "wv", "w v", "v lin", "to v"),
    "qkv": ("qkv", "qkv proj", "q k v", "wqkv", "c attn", "linear qkv", "in proj", "to qkv"),
    "kv": ("kv", "kv proj", "k v", "linear kv", "to kv"),
    "o": ("o", "o proj", "out", "out proj", "out dense", "wo", "w o", "c proj", "proj", "dense", "linear proj"),
    "q_norm": ("q norm",),
    "k_norm": ("k norm",),
    "norm": ("linear qkv norm",),
    "core": ("core attn", "attn", "self"),
    "dropout": ("attn dropout", "attn drop"),
    "rel_b": ("relative attn bias", "rel b"),
}
_FEED_FORWARD = {
    "norm": ("linear fc 1 norm",),
    "gate": ("gate", "gate proj", "wi 0"),
    "up": ("up", "up proj", "c fc", "fc in", "wi", "wi 1"),
    "down": ("down", "down proj", "c proj", "fc 2", "fc out", "linear fc 2", "dense 4 h to h", "wo", "2"),
    "gate_up": ("gate up", "gate up proj"),
    "fc1": ("fc 1", "linear fc 1", "dense h to 4 h", "0"),
    "act": ("act", "act fn", "activation", "activation func"),
    "router": ("gate inp", "router"),
}
LEAVES = {"attn": _ATTENTION, "cross": _ATTENTION, "ffn": _FEED_FORWARD, "shared": _FEED_FORWARD}

# names inside a layer that have no container in front; they must be the whole name there
BARE = {
    "block": ("", "l out"),
    "attn.norm": (
        "input norm",
        "norm 1",
        "norm before",
        "attn norm",
        "self attn norm",
        "layer 0 norm",
        "post norm pre attn",
    ),
    "attn": ("attn", "self attn", "layer 0 self attn"),
    "cross": ("cross attn", "encoder attn", "encoder decoder attn", "layer 1 encoder decoder attn"),
    "attn.q": ("q", "q proj", "qcur", "wq", "q lin"),
    "attn.k": ("k", "k proj", "kcur", "wk", "k lin"),
    "attn.v": ("v", "v proj", "vcur", "wv", "v lin"),
    "attn.qkv": ("qkv", "qkv proj", "wqkv"),
    "attn.core": ("post attn",),
    "attn.o": ("o proj", "post attn pre resid"),
    "attn.post_norm": ("attn out norm", "post self attn norm"),
    "cross.norm": ("cross attn norm", "encoder attn norm", "layer 1 norm"),
    "ffn.norm": (
        "post attn norm",
        "pre ffn norm",
        "norm 2",
        "norm after",
        "ffn norm",
        "final norm",
        "layer 2 norm",
        "pre ffn",
    ),
    "ffn": ("ffn", "post ffn", "ffn out"),
    "ffn.gate": ("gate proj",),
    "ffn.up": ("up proj", "intermediate dense"),
    "ffn.fc1": ("fc 1", "linear 1"),
    "ffn.down": ("down proj", "fc 2", "linear 2", "out dense"),
    "ffn.gate_up": ("gate up proj",),
    "ffn.post_norm": ("out norm", "layer out norm", "post ffn norm"),
    "ffn.router": ("router", "block sparse moe gate"),
    "shared.gate": ("ffn gate shexp",),
    "shared.up": ("ffn up shexp",),
    "shared.down": ("ffn down shexp",),
    "shared.router": ("ffn gate inp shexp", "ffn shared expert gate"),
}

# phrases that mean something else where the same stack of layers has one of the markers; the first rule that fits wins
UNLESS = {
    "post attn norm": (
        (("post self attn norm",), "ffn.norm"),
        (("pre ffn norm", "ffn norm", "post ffn norm"), "attn.post_norm"),
    ),
    "norm 2": ((("norm 3",), "norm.2"),),
    "layer 1 norm": ((("layer 1 ffn wo",), "ffn.norm"),),
    "attn out": ((("attn out dense",), "attn.out"),),
    "ffn 2": ((("ffn 3", "ffn 4"), "ffn.2"),),
}

# names outside every layer; they must be the whole name
GLOBAL = {
    "embed.token": ("token embed", "embed token", "wte", "embed in", "embed token embed", "inp embed", "shared"),
    "embed.position": ("wpe", "position embed", "embed position", "embed position embed"),
    "embed.type": ("token type", "token type embed", "embed token type embed"),
    "embed.norm": ("embed norm", "token embed norm"),
    "norm": ("norm", "norm f", "final norm", "out norm", "result norm", "norm final", "norm post"),
    "head": ("lm head", "out", "out layer", "embed out", "result out", "logits", "head"),
}

# one tensor that holds several, in the order in which they lie in it
FUSED = {
    "attn.qkv": ("attn.q", "attn.k", "attn.v"),
    "cross.qkv": ("cross.q", "cross.k", "cross.v"),
    "attn.kv": ("attn.k", "attn.v"),
    "cross.kv": ("cross.k", "cross.v"),
    "ffn.gate_up": ("ffn.gate", "ffn.up"),
}

# a projection that may be fused with its gate: it is, where the other side has one of these and its own side no gate
GATED = {
    "ffn.fc1": (("ffn.gate", "ffn.gate_up"), "ffn.gate_up", "ffn.up"),
    "ffn.up": (("ffn.gate_up",), "ffn.gate_up", "ffn.up"),
}
GATE = "ffn.gate"

# a module whose output is that of its last part: as good as one name, as long as only one of the two is there
LAST_PART = {"attn": "attn.o", "cross": "cross.o", "ffn": "ffn.down"}


Words = tuple[str, ...]

_WORD = re.compile(r"\d+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_LONGEST = max(len(phrase.split()) for phrase in (*SYNONYMS, *TRANSPARENT, *WRAPPERS))
_FOLDED: dict[Words, Words] = {tuple(phrase.split()): tuple(meant.split()) for phrase, meant in SYNONYMS.items()}
_FOLDED |= {tuple(phrase.split()): () for phrase in TRANSPARENT}
_WRAPPERS = frozenset(tuple(phrase.split()) for phrase in WRAPPERS)


@lru_cache(maxsize=1 << 16)
def words_of(text: str) -> Words:
    """`self_attn.q_proj`, `SelfAttn/QProj` and `self-attention.query_proj` are all `self attn q proj`."""
    raw = tuple(word.lower() for word in _WORD.findall(text))
    found: list[str] = []
    place = 0
    while place < len(raw):
        taken, meant = _fold(raw, place)
        found += meant
        place += taken
    return tuple(found)


def unwrapped(words: Words, *, keep: int = 0) -> Words:
    """The words without the wrappers in front; the last `keep` words stay whatever they are."""
    while front := next((size for size in range(_LONGEST, 0, -1) if words[:size] in _WRAPPERS), 0):
        if len(words) - front < keep:
            break
        words = words[front:]
    return words


def _fold(raw: Words, place: int) -> tuple[int, Words]:
    for size in range(min(_LONGEST, len(raw) - place), 0, -1):
        meant = _FOLDED.get(raw[place : place + size])
        if meant is not None:
            return size, meant
    return 1, raw[place : place + 1]


_AFTER_A_WORD = re.compile(
    r"(?:(?:^|(?<=[^A-Za-z0-9]))(?:layers?|blocks?|blks?|resblocks)[._/\-\[]?|(?:^|(?<=[./]))h[._/])"
    r"(\d+)(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_IN_FRONT = re.compile(r"(\d+)(?=[_.\- ]\D)")
_AT_THE_END = re.compile(r"(?<=[A-Za-z_])-(\d+)(?=$| \()")


@dataclass(frozen=True, slots=True)
class LayerIndex:
    """A layer's number, where its digits stand in the name, what stands before it, and what it is part of the layer."""

    layer: int
    start: int
    stop: int
    stack: str
    part: str


def layer_index(name: str, *, numbered: bool = False) -> LayerIndex | None:
    """The first layer number in a name; `numbered` says that a number in front is the place in the run instead."""
    if found := _AFTER_A_WORD.search(name):
        return LayerIndex(int(found[1]), *found.span(1), name[: found.start()], name[found.end() :])
    if not numbered and (found := _IN_FRONT.match(name)):
        return LayerIndex(int(found[1]), *found.span(1), "", name[found.end() :])
    if found := _AT_THE_END.search(name):
        return LayerIndex(int(found[1]), *found.span(1), "", name[: found.start()] + name[found.end() :])
    return None


@dataclass(frozen=True, slots=True)
class LayerNumbers:
    """Which layer of the reference each layer of the candidate is; below 0 for one that the reference has not.

    offset: added to each layer
    moved: by the words in front of a layer's number, the layers that were counted otherwise; under no words at all
        where there is only one stack of layers
    """

    offset: int = 0
    moved: Mapping[Words, Mapping[int, int]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.offset or self.moved)

    def of(self, layer: int, stack: Words = ()) -> int:
        # what all names begin with is in no stack's words
        known = [words for words in self.moved if words == stack[len(stack) - len(words) :]]
        moved = self.moved[max(known, key=len)] if known else {}
        return moved.get(layer, layer + self.offset)

    def renamed(self, name: str, *, numbered: bool = False) -> str | None:
        """The name with its layer as the reference counts it; None for a layer that the reference has not."""
        index = layer_index(name, numbered=numbered) if self else None
        if index is None:
            return name
        layer = self.of(index.layer, unwrapped(words_of(index.stack)))
        return None if layer < 0 else f"{name[: index.start]}{layer}{name[index.stop :]}"


AS_COUNTED = LayerNumbers()


_KINDS = {
    "linear": "linear gemm matmul addmm mm bmm mulmat conv1d columnparallellinear rowparallellinear "
    "mergedcolumnparallellinear qkvparallellinear replicatedlinear telinear",
    "norm": "layernorm rmsnorm layernormalization simplifiedlayernormalization rmsnormalization groupnorm norm",
    "embedding": "embedding gather getrows vocabparallelembedding",
    "softmax": "softmax softmaxext",
    "gelu": "gelu fastgelu newgeluactivation geluactivation pytorchgelutanh quickgelu",
    "silu": "silu swish siluactivation",
    "conv": "conv conv2d convolution",
    "add": "add residual",
    "mul": "mul",
    "relu": "relu",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "dropout": "dropout",
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names.split()}
_ACTIVATIONS = frozenset({"gelu", "silu", "relu", "tanh", "sigmoid"})
_NOT_LETTERS = re.compile(r"[^a-z0-9]")


def may_be_one(one: str | None, other: str | None) -> bool:
    """False for two kinds that cannot stand for each other; an activation may be another one by mistake."""
    return None in (one, other) or one == other or {one, other} <= _ACTIVATIONS


def op_kind(op: str | None) -> str | None:
    """`norm` for LayerNorm, LlamaRMSNorm and RMSNormalization; None for an operator that is not known."""
    if op is None:
        return None
    name = _NOT_LETTERS.sub("", op.rpartition(".")[2].lower())
    return _KIND_OF.get(name) or ("norm" if name.endswith("norm") else None)
