"""Names of operators of one kind."""

from __future__ import annotations

import re

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
