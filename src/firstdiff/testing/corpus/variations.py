"""Ways to run a healthy model a second time: another type, another kernel, another split of the same work."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from firstdiff import dtypes
from firstdiff.capturing import capture
from firstdiff.judge import coarsest_ancestors
from firstdiff.readers import open_trace
from firstdiff.testing.zoo.architectures import Built
from firstdiff.testing.zoo.healthy import exported, with_mask
from firstdiff.testing.zoo.kernels import OtherKernels
from firstdiff.trace import Tensor, Trace

_PADDING = 5
_CHUNK = 7
_ROLES = frozenset({"output", "input"})


@dataclass(frozen=True, slots=True)
class TensorPair:
    """One tensor of two runs.

    dtype: the coarsest type that either side was computed in up to here
    """

    key: str
    op: str | None
    role: str
    reference: np.ndarray
    candidate: np.ndarray
    dtype: np.dtype


@dataclass(frozen=True, slots=True)
class Variation:
    """A healthy second run.

    run: both traces of a model in a folder
    fits: whether it makes sense for a model
    join: how candidate tensors of other shapes become the reference's; None where they do not
    """

    name: str
    run: Callable[[Built, Path], tuple[Trace, Trace]]
    fits: Callable[[Built], bool] = lambda _: True
    join: Callable[[list[np.ndarray], tuple[int, ...]], np.ndarray | None] | None = None


def tensor_pairs(variation: Variation, built: Built, folder: Path) -> Iterator[TensorPair]:
    """Every floating-point activation that both runs have, in the order of execution."""
    reference, candidate = variation.run(built, folder)
    others = _by_key(candidate)
    types = {id(tensor): dtype for trace in (reference, candidate) for tensor, dtype in _computed_in(trace)}
    for tensor in reference:
        values = others.get(_key(tensor), [])
        if tensor.record.role not in _ROLES or not values or tensor.source is None:
            continue
        expected = tensor.values().read()
        arrays = [other.values().read() for other in values]
        given = arrays[0] if len(arrays) == 1 and arrays[0].shape == expected.shape else None
        if given is None and variation.join is not None:
            given = variation.join(arrays, expected.shape)
        found = [dtype for side in (tensor, *values) if (dtype := types.get(id(side))) is not None]
        if given is None or not found or expected.size < 2:
            continue
        # one kernel masks by true and false, another by numbers
        if any(dtypes.kind_of(values.dtype) != "float" for values in (expected, given)):
            continue
        coarsest = max(found, key=dtypes.eps_of)
        yield TensorPair(_key(tensor), tensor.record.op, tensor.record.role, expected, given, coarsest)


def cast(built: Built, dtype: torch.dtype) -> Built:
    """A copy in another type, but for what careful users keep in float32: rotary frequencies and time steps."""
    model = copy.deepcopy(built.model)
    kept = {
        (module, name): values
        for module in model.modules()
        for name, values in module._buffers.items()
        if values is not None and "inv_freq" in name
    }
    wide = {place: values.clone() for place, values in kept.items()}
    model = model.to(dtype)
    for (module, name), values in wide.items():
        module._buffers[name] = values if dtype.itemsize <= 4 else values.to(dtype)
    given = {name: values.to(dtype) if _is_cast(values, dtype) else values for name, values in built.inputs.items()}
    return Built(model, given)


def _is_cast(values: Any, dtype: torch.dtype) -> bool:
    """True for what a model computes with; one number for each row is a time step, whose waves half precision loses."""
    floats = isinstance(values, torch.Tensor) and values.is_floating_point()
    return floats and (values.ndim > 1 or dtype.itemsize > 2)


def traced(built: Built, path: Path, kernels: AbstractContextManager[Any] | None = None) -> Trace:
    """One call, recorded with capture's defaults but for weights, which are the same on both sides."""
    return _traced(lambda: built.model(**built.inputs), built.model, path, kernels)


def _traced(
    run: Callable[[], object], model: torch.nn.Module, path: Path, kernels: AbstractContextManager[Any] | None = None
) -> Trace:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        with kernels or nullcontext(), capture(model, path, params="none"):
            run()
    return open_trace(path)


def _second(change: Callable[[Built], Built], dtype: torch.dtype | None = None) -> Callable[..., tuple[Trace, Trace]]:
    """The model as it is, in a type if one is given, against a changed one."""

    def run(built: Built, folder: Path) -> tuple[Trace, Trace]:
        first = built if dtype is None else cast(built, dtype)
        reference = traced(first, folder / "reference")
        return reference, traced(change(first), folder / "candidate")

    return run


def _other_order(dtype: torch.dtype | None = None) -> Callable[..., tuple[Trace, Trace]]:
    def run(built: Built, folder: Path) -> tuple[Trace, Trace]:
        first = built if dtype is None else cast(built, dtype)
        return traced(first, folder / "reference"), traced(first, folder / "candidate", OtherKernels(1))

    return run


def _sdpa(built: Built) -> Built:
    """Some classes choose their attention only when they are built."""
    first: Any = built.model
    config = copy.deepcopy(first.config)
    config._attn_implementation = "sdpa"
    model = type(first)(config).eval().requires_grad_(False)
    other = cast(Built(model, built.inputs), next(first.parameters()).dtype)
    other.model.load_state_dict(first.state_dict())
    return other


def _batched(built: Built) -> Built:
    """Seven other rows beside the first, which are reversed copies of it."""
    rows = {
        name: torch.cat([values[:1], *(_other_row(name, values[:1], shift) for shift in range(1, 8))])
        for name, values in built.inputs.items()
    }
    return Built(built.model, rows)


def _other_row(name: str, values: torch.Tensor, shift: int) -> torch.Tensor:
    return values.roll(shift, -1) if name.endswith("ids") else values


def _alone(built: Built) -> Built:
    return Built(built.model, {name: values[:1] for name, values in built.inputs.items()})


def _one_against_eight(dtype: torch.dtype | None = None) -> Callable[..., tuple[Trace, Trace]]:
    def run(built: Built, folder: Path) -> tuple[Trace, Trace]:
        first = built if dtype is None else cast(built, dtype)
        return traced(_alone(first), folder / "reference"), traced(_batched(first), folder / "candidate")

    return run


def _padded(left: bool) -> Callable[..., tuple[Trace, Trace]]:
    def run(built: Built, folder: Path) -> tuple[Trace, Trace]:
        # one row: some models flatten rows and tokens into one axis, which could not be cut
        built = _alone(built)
        ids = built.inputs["input_ids"]
        given = {"input_ids": ids, "attention_mask": built.inputs.get("attention_mask", torch.ones_like(ids))}
        sides = (_PADDING, 0) if left else (0, _PADDING)
        padded = {name: torch.nn.functional.pad(values, sides) for name, values in given.items()}
        if left and _is_decoder(built):
            places = torch.arange(ids.shape[1]).expand(ids.shape)
            given["position_ids"] = places
            padded["position_ids"] = torch.nn.functional.pad(places, sides)
        reference = traced(Built(built.model, given), folder / "reference")
        return reference, traced(Built(built.model, padded), folder / "candidate")

    return run


def _stepwise(chunk: int) -> Callable[..., tuple[Trace, Trace]]:
    """The whole text at once against pieces of it, each with the keys and values of those before."""

    def run(built: Built, folder: Path) -> tuple[Trace, Trace]:
        ids = _alone(built).inputs["input_ids"]
        reference = traced(Built(built.model, {"input_ids": ids}), folder / "reference")

        def steps() -> None:
            cache = None
            for start in range(0, ids.shape[1], chunk):
                cache = built.model(
                    ids[:, start : start + chunk], past_key_values=cache, use_cache=True
                ).past_key_values

        return reference, _traced(steps, built.model, folder / "candidate")

    return run


def _channels_last(built: Built) -> Built:
    model = copy.deepcopy(built.model).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Built(
        model,
        {
            name: values.contiguous(memory_format=torch.channels_last) if values.ndim == 4 else values
            for name, values in built.inputs.items()
        },
    )


def _exported(built: Built, folder: Path) -> tuple[Trace, Trace]:
    given = with_mask(built)
    return traced(given, folder / "reference"), traced(exported(given), folder / "candidate")


def _compiled(built: Built, folder: Path) -> tuple[Trace, Trace]:
    """Only what a compiled model gives back can be recorded."""
    whole: Any = torch.compile(copy.deepcopy(built.model))
    return traced(built, folder / "reference"), traced(Built(whole, built.inputs), folder / "candidate")


def _first(arrays: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray | None:
    """The leading part of each axis: the first row of a batch, tokens before padding."""
    return _cut(arrays, shape, lambda _, want: slice(0, want))


def _last(arrays: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray | None:
    return _cut(arrays, shape, lambda have, want: slice(have - want, have))


def _cut(arrays: list[np.ndarray], shape: tuple[int, ...], part: Callable[[int, int], slice]) -> np.ndarray | None:
    whole = arrays[0]
    if len(arrays) != 1 or whole.ndim != len(shape) or any(h < w for h, w in zip(whole.shape, shape, strict=True)):
        return None
    return whole[tuple(part(have, want) for have, want in zip(whole.shape, shape, strict=True))]


def _concatenated(arrays: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray | None:
    """The pieces of all steps, where one axis alone is divided among them."""
    for axis in range(len(shape)):
        rest = shape[:axis] + shape[axis + 1 :]
        alike = all(a.ndim == len(shape) and a.shape[:axis] + a.shape[axis + 1 :] == rest for a in arrays)
        if alike and sum(array.shape[axis] for array in arrays) == shape[axis]:
            return np.concatenate(arrays, axis=axis)
    return None


def _key(tensor: Tensor) -> str:
    """Without the step, whose tensors belong together."""
    return str(tensor.key).split("#", maxsplit=1)[0]


def _by_key(trace: Trace) -> Mapping[str, list[Tensor]]:
    found: dict[str, list[Tensor]] = {}
    for tensor in trace:
        if tensor.source is not None:
            found.setdefault(_key(tensor), []).append(tensor)
    return found


def _computed_in(trace: Trace) -> Iterator[tuple[Tensor, np.dtype | None]]:
    tensors = list(trace)
    yield from zip(tensors, coarsest_ancestors(tensors), strict=True)


def _has_attention(built: Built) -> bool:
    return hasattr(built.model, "set_attn_implementation") and "T5" not in type(built.model).__name__


def _is_text(built: Built) -> bool:
    return set(built.inputs) <= {"input_ids", "attention_mask"}


def _is_decoder(built: Built) -> bool:
    return type(built.model).__name__.endswith("ForCausalLM") or "LMHead" in type(built.model).__name__


def _is_picture(built: Built) -> bool:
    return any(isinstance(values, torch.Tensor) and values.ndim == 4 for values in built.inputs.values())


def _caches(built: Built) -> bool:
    return _is_text(built) and _is_decoder(built)


def _batches(built: Built) -> bool:
    return all(isinstance(values, torch.Tensor) and values.ndim > 1 for values in built.inputs.values())


def _exports(built: Built) -> bool:
    return type(built.model).__name__ in ("BertModel", "ViTModel", "LlamaForCausalLM", "ConvNet")


def _in(dtype: torch.dtype) -> Callable[[Built], Built]:
    return lambda built: cast(built, dtype)


_HALF = torch.bfloat16
VARIATIONS: dict[str, Variation] = {
    made.name: made
    for made in (
        Variation("fp64", _second(_in(torch.float64))),
        Variation("bf16", _second(_in(_HALF))),
        Variation("fp16", _second(_in(torch.float16))),
        Variation("order", _other_order()),
        Variation("order, bf16", _other_order(_HALF)),
        Variation("sdpa", _second(_sdpa), _has_attention),
        Variation("sdpa, bf16", _second(_sdpa, _HALF), _has_attention),
        Variation("batch", _one_against_eight(), _batches, _first),
        Variation("batch, bf16", _one_against_eight(_HALF), _batches, _first),
        Variation("right padding", _padded(left=False), _is_text, _first),
        Variation("left padding", _padded(left=True), _caches, _last),
        Variation("cached steps", _stepwise(1), _caches, _concatenated),
        Variation("chunked prefill", _stepwise(_CHUNK), _caches, _concatenated),
        Variation("channels last", _second(_channels_last), _is_picture),
        Variation("export", _exported, _exports),
        Variation("compile", _compiled, _exports),
    )
}
