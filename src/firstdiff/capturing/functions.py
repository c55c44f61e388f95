"""Record the torch functions that a model calls, and the names of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import local
from typing import TYPE_CHECKING, Any, NamedTuple, final

from firstdiff.capturing.arguments import Parts, parts_of_call, parts_of_value
from firstdiff.capturing.module_calls import Frames
from firstdiff.capturing.session import Place
from firstdiff.capturing.tensor_recorder import TensorRecorder, is_tensor

if TYPE_CHECKING:
    from torch.overrides import TorchFunctionMode

_UNARY = (
    "relu relu6 silu mish sigmoid tanh hardswish hardsigmoid selu logsigmoid softsign tanhshrink square sqrt rsqrt "
    "reciprocal exp expm1 log log1p log2 log10 erf sin cos tan neg abs floor ceil round isnan"
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


@final
class FunctionCalls:
    """Watches functions while a module runs.

    every: record all functions that give back tensors, also those inside the leaves of torch.nn
    shielded: runs one of our own steps so that nothing it does or throws reaches the model
    """

    def __init__(
        self, recorder: TensorRecorder, frames: Frames, every: bool, shielded: Callable[[Callable[[], object]], None]
    ) -> None:
        self._recorder = recorder
        self._session = recorder.session
        self._frames = frames
        self._every = every
        self._shielded = shielded
        self._known: dict[Any, Function | None] = {}
        self._mode = _mode(self._call)
        self._aside = local()

    def start(self) -> None:
        self._mode.__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """Take the mode off, if it is on (an interrupt inside compiled code leaves it off)."""
        if self._on_top():
            self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def suspend(self, off: bool) -> None:
        """Compiled code is compiled once more for every mode it meets; so ours steps aside, if it is the innermost."""
        if off:
            self._aside.on = self._on_top()
            self.stop()
        elif getattr(self._aside, "on", False):
            self._aside.on = False
            self.start()

    def _on_top(self) -> bool:
        from torch.overrides import _get_current_function_mode

        return _get_current_function_mode() is self._mode  # type: ignore[no-untyped-call]

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        event = self._event(function, kwargs)
        if event is None:
            return function(*args, **kwargs)
        if event.inplace:
            self._shielded(lambda: event.take_inputs(args, kwargs))
        result = function(*args, **kwargs)
        self._shielded(lambda: event.finish(args, kwargs, result))
        return result

    def _event(self, function: Callable[..., Any], kwargs: dict[str, Any]) -> _Event | None:
        frame = self._frames.top()
        if frame is None or (frame.node.leaf_of_torch and not self._every) or frame.node.kind == "compiled":
            return None
        try:
            known = self._known[function]
        except KeyError:
            known = self._known[function] = describe(function, self._every)
        except TypeError:
            return None  # a callable that cannot be hashed is none of torch's
        if known is None:
            return None
        name = f"{frame.node.name}.{known.name}"
        if not self._session.wants(name, "output"):
            return None
        place = Place(name, 0, frame.place.step, known.name, frame.node.name)
        return _Event(self._recorder, known, place, known.inplace or bool(kwargs.get("inplace")))


@final
class _Event:
    """One call of a function: its inputs are recorded unless the trace has them, its outputs name them in `from`."""

    __slots__ = ("_function", "_place", "_recorder", "_scalars", "_sources", "_taken", "inplace")

    def __init__(self, recorder: TensorRecorder, function: Function, place: Place, inplace: bool) -> None:
        self.inplace = inplace
        self._recorder = recorder
        self._function = function
        self._place = place
        self._taken = False
        self._sources: list[int] = []
        self._scalars: dict[str, Any] = {}

    def take_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._taken = True
        call = self._recorder.session.count_call(self._place.name, self._place.step)
        self._place = replace(self._place, call=call)
        parts = parts_of_call((), self._function.arguments(args, kwargs), is_tensor)
        self._scalars = parts.scalars
        if self.inplace:
            self._scalars["inplace"] = True
        self._trace_back(parts)

    def finish(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        tensors = parts_of_value(result, is_tensor).tensors
        if not tensors:
            return
        if not self._taken:
            self.take_inputs(args, kwargs)
        for slot, tensor in tensors:
            self._recorder.write(tensor, self._place, "output", slot, attrs=self._scalars, sources=tuple(self._sources))

    def _trace_back(self, parts: Parts) -> None:
        """Fill `from`: one number for each slot in `inputs`; parameters are named whether recorded or not."""
        slots, views, params = [], [], {}
        for slot, tensor in parts.tensors:
            origin = self._recorder.provenance.find(tensor)
            if origin is not None and origin.param is not None:
                params[slot] = origin.param
                if not origin.exact:
                    views.append(slot)
                seq = origin.seq
            elif origin is not None and origin.exact:
                seq = origin.seq
            else:
                seq = self._recorder.write(tensor, self._place, "input", slot)
            if seq is not None:
                slots.append(slot)
                self._sources.append(seq)
        found = {"inputs": slots, "params": params, "views": views}
        self._scalars |= {name: value for name, value in found.items() if value}


def _mode(handle: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]) -> TorchFunctionMode:
    from torch.overrides import TorchFunctionMode

    class Watching(TorchFunctionMode):
        def __torch_function__(
            self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            return handle(func, args, kwargs or {})

    return Watching()
