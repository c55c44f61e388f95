"""The torch functions that are recorded by name, and their parameter names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

_UNARY = (
    "relu relu6 silu mish sigmoid tanh hardswish hardsigmoid selu logsigmoid softsign tanhshrink square sqrt rsqrt "
    "reciprocal exp expm1 log log1p erf sin cos tan neg abs floor round isnan"
)
_BINARY = "add sub mul div matmul bmm mm mv dot inner outer remainder floor_divide maximum minimum"
_REDUCTIONS = "mean sum prod var std amax amin logsumexp"

PARAMETERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_UNARY.split(), ("input",)),
    **dict.fromkeys(_BINARY.split(), ("input", "other")),
    **dict.fromkeys(_REDUCTIONS.split(), ("input", "dim")),
    "softmax": ("input", "dim", "dtype"),
    "log_softmax": ("input", "dim", "dtype"),
    "scaled_dot_product_attention": (
        *("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"),
    ),
    "layer_norm": ("input", "normalized_shape", "weight", "bias", "eps"),
    "rms_norm": ("input", "normalized_shape", "weight", "eps"),
    "group_norm": ("input", "num_groups", "weight", "bias", "eps"),
    "batch_norm": ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"),
    "instance_norm": ("input", "running_mean", "running_var", "weight", "bias", "use_input_stats", "momentum", "eps"),
    "norm": ("input", "p", "dim"),
    "normalize": ("input", "p", "dim", "eps"),
    "gelu": ("input",),
    "leaky_relu": ("input", "negative_slope"),
    "elu": ("input", "alpha"),
    "celu": ("input", "alpha"),
    "glu": ("input", "dim"),
    "prelu": ("input", "weight"),
    "hardtanh": ("input", "min_val", "max_val"),
    "softplus": ("input", "beta", "threshold"),
    "threshold": ("input", "threshold", "value"),
    "clamp": ("input", "min", "max"),
    "pow": ("input", "exponent"),
    "linear": ("input", "weight", "bias"),
    "bilinear": ("input1", "input2", "weight", "bias"),
    "addmm": ("input", "mat1", "mat2"),
    "addbmm": ("input", "batch1", "batch2"),
    "baddbmm": ("input", "batch1", "batch2"),
    "einsum": ("equation", "*operands"),
    "tensordot": ("a", "b", "dims"),
    "lerp": ("input", "end", "weight"),
    "addcmul": ("input", "tensor1", "tensor2"),
    "addcdiv": ("input", "tensor1", "tensor2"),
    **{f"conv{n}d": ("input", "weight", "bias", "stride", "padding", "dilation", "groups") for n in (1, 2, 3)},
    **{
        f"conv_transpose{n}d": (
            *("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation"),
        )
        for n in (1, 2, 3)
    },
    "embedding": ("input", "weight", "padding_idx"),
    "one_hot": ("tensor", "num_classes"),
    "cat": ("tensors", "dim"),
    "stack": ("tensors", "dim"),
    "chunk": ("input", "chunks", "dim"),
    "split": ("input", "split_size", "dim"),
    "unbind": ("input", "dim"),
    "roll": ("input", "shifts", "dims"),
    "flip": ("input", "dims"),
    "pad": ("input", "pad", "mode", "value"),
    "repeat_interleave": ("input", "repeats", "dim"),
    "tril": ("input", "diagonal"),
    "triu": ("input", "diagonal"),
    "gather": ("input", "dim", "index"),
    "index_select": ("input", "dim", "index"),
    "scatter": ("input", "dim", "index", "src"),
    "scatter_add": ("input", "dim", "index", "src"),
    "index_add": ("input", "dim", "index", "source"),
    "masked_fill": ("input", "mask", "value"),
    "where": ("condition", "input", "other"),
    "topk": ("input", "k", "dim", "largest", "sorted"),
    "sort": ("input", "dim", "descending"),
    "argmax": ("input", "dim"),
    "cumsum": ("input", "dim"),
    "cumprod": ("input", "dim"),
    "interpolate": ("input", "size", "scale_factor", "mode", "align_corners"),
    "stft": ("input", "n_fft", "hop_length", "win_length", "window", "center"),
    "istft": ("input", "n_fft", "hop_length", "win_length", "window", "center"),
    "fft_fft": ("input", "n", "dim", "norm"),
    "fft_rfft": ("input", "n", "dim", "norm"),
    "fft_irfft": ("input", "n", "dim", "norm"),
    **{f"max_pool{n}d": ("input", "kernel_size", "stride", "padding") for n in (1, 2, 3)},
    **{f"avg_pool{n}d": ("input", "kernel_size", "stride", "padding") for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": ("input", "output_size") for n in (1, 2, 3)},
}

_SYNONYMS = {
    "truediv": "div",
    "divide": "div",
    "true_divide": "div",
    "floordiv": "floor_divide",
    "subtract": "sub",
    "multiply": "mul",
    "negative": "neg",
    "concat": "cat",
    "concatenate": "cat",
    "clip": "clamp",
    "mod": "remainder",
    "absolute": "abs",
    "special_expit": "sigmoid",
}
# 1 - x arrives as x.__rsub__(1)
_REFLECTED = {"rsub": "sub", "rdiv": "div", "rtruediv": "div", "rpow": "pow", "rmatmul": "matmul"}
_REFLECTED_ALIKE = {"radd": "add", "rmul": "mul"}
_NEVER = {"get", "set", "delete"}  # attributes such as x.shape arrive as calls too


class Function(NamedTuple):
    """A torch function: its name, its parameters where known, whether it writes to its first one or swaps the two."""

    name: str
    parameters: tuple[str, ...]
    inplace: bool
    swapped: bool

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by parameter; those of unknown functions by position."""
        if self.swapped and len(args) > 1:
            args = (args[1], args[0], *args[2:])
        named = {self._parameter(number): value for number, value in enumerate(args)}
        return named | {name: value for name, value in kwargs.items() if name[0] != "_" and name != "out"}

    def _parameter(self, number: int) -> str:
        last = len(self.parameters) - 1
        if self.parameters and self.parameters[last][0] == "*" and number >= last:
            return f"{self.parameters[last][1:]}.{number - last}"
        return self.parameters[number] if number <= last else str(number)


def describe(function: Callable[..., Any], every: bool) -> Function | None:
    """Return the entry for a torch function, None if it is not recorded; `every` includes unlisted ones."""
    raw = getattr(function, "__name__", None)
    if not isinstance(raw, str):
        return None
    operator = raw.startswith("__") and raw.endswith("__")
    name = raw.strip("_")
    if operator and (name in _NEVER or name in ("setitem", "repr", "len", "contains", "bool")):
        return None
    swapped = name in _REFLECTED
    name = _REFLECTED.get(name) or (_REFLECTED_ALIKE.get(name, name) if operator else name)
    inplace = raw.endswith("_") and not operator
    if operator and name[0] == "i" and _SYNONYMS.get(name[1:], name[1:]) in PARAMETERS:
        name, inplace = name[1:], True
    name = _SYNONYMS.get(name, name)
    if name not in PARAMETERS and not every:
        return None
    return Function(name, PARAMETERS.get(name, ()), inplace, swapped)
