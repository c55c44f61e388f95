"""Normalisations, and the calls recorded of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from firstdiff.dtypes import doubles
from firstdiff.ops.arrays import mean, operator, per_channel, weight_norm
from firstdiff.ops.plan import Function, Plan
from firstdiff.ops.recorded_call import Call, Row, UnrecordedError, named


@operator
def layer_norm(
    input: np.ndarray,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    *,
    axes: Sequence[int] = (-1,),
    eps: float = 1e-5,
    one_plus: bool = False,
    unbiased: bool = False,
    eps_outside: bool = False,
) -> Any:
    """`(x - mean) / sqrt(variance + eps) * weight + bias`, mean and variance taken over `axes`.

    one_plus: multiply with `1 + weight`
    unbiased: divide the variance by n - 1
    eps_outside: add eps to the deviation instead of the variance
    """
    x, across = doubles(input), tuple(axes)
    centred = x - mean(x, across)
    scaled = _divided(centred, _variance(centred, across, unbiased), eps, eps_outside)
    return _affine(scaled, weight, bias, across, one_plus)


@operator
def rms_norm(
    input: np.ndarray,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    *,
    axes: Sequence[int] = (-1,),
    eps: float = 1e-6,
    one_plus: bool = False,
    eps_outside: bool = False,
) -> Any:
    """`x / sqrt(mean(x^2) + eps) * weight`, the mean taken over `axes`.

    one_plus: multiply with `1 + weight`, as Gemma does
    eps_outside: add eps to the root instead of the mean
    """
    x, across = doubles(input), tuple(axes)
    square = mean(x * x, across)
    return _affine(_divided(x, square, eps, eps_outside), weight, bias, across, one_plus)


@operator
def group_norm(
    input: np.ndarray,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    *,
    groups: int,
    eps: float = 1e-5,
    one_plus: bool = False,
    unbiased: bool = False,
) -> Any:
    """Normalise each group of channels (axis 1); weight and bias have one value for each channel."""
    x = doubles(input)
    grouped = x.reshape(x.shape[0], groups, -1)
    scaled = layer_norm(grouped, axes=(2,), eps=eps, unbiased=unbiased).reshape(x.shape)
    return _affine(scaled, weight, bias, (1,), one_plus)


@operator
def batch_norm(
    input: np.ndarray,
    running_mean: np.ndarray | None = None,
    running_var: np.ndarray | None = None,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    *,
    eps: float = 1e-5,
    batch_statistics: bool = False,
    unbiased: bool = False,
    eps_outside: bool = False,
) -> Any:
    """Normalise each channel (axis 1) by its running mean and variance, or by those of the batch.

    batch_statistics: use the batch's, as in training; without running ones there is no choice
    """
    x = doubles(input)
    across = (0, *range(2, x.ndim))
    if batch_statistics or running_mean is None or running_var is None:
        centre = mean(x, across)
        variance = _variance(x - centre, across, unbiased)
    else:
        centre, variance = (per_channel(doubles(item), x.ndim) for item in (running_mean, running_var))
    return _affine(_divided(x - centre, variance, eps, eps_outside), weight, bias, (1,), False)


@operator
def lp_norm(input: np.ndarray, *, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """`x / max(|x|_p, eps)`, the norm taken along `dim` (`normalize` in torch)."""
    x = doubles(input)
    length = np.linalg.norm(x, ord=p, axis=dim, keepdims=True)
    return x / np.maximum(length, eps)


def _variance(centred: np.ndarray, axes: tuple[int, ...], unbiased: bool) -> Any:
    square = mean(centred * centred, axes)
    if not unbiased:
        return square
    count = np.float64(prod(centred.shape[axis] for axis in axes))
    return square * (count / np.maximum(count - 1.0, 0.0))


def _divided(x: np.ndarray, variance: np.ndarray, eps: float, outside: bool) -> Any:
    return x / (np.sqrt(variance) + eps if outside else np.sqrt(variance + eps))


def _affine(
    x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, axes: tuple[int, ...], one_plus: bool
) -> np.ndarray:
    kept = {axis % x.ndim for axis in axes}
    shape = [size if axis in kept else 1 for axis, size in enumerate(x.shape)]
    if weight is not None:
        x = x * (doubles(weight).reshape(shape) + (1.0 if one_plus else 0.0))
    return x if bias is None else x + doubles(bias).reshape(shape)


@operator
def normalise(
    input: np.ndarray,
    mean: np.ndarray | Sequence[float] | float,
    std: np.ndarray | Sequence[float] | float,
    *,
    axis: int = -3,
    rescale: float = 1.0,
) -> Any:
    """`(x * rescale - mean) / std`.

    mean, std: one number, or one for each channel of `axis`
    rescale: what the values are multiplied with first, such as 1 / 255
    """
    x = doubles(input)
    centre, width = (_broadcast_along(doubles(item), x.ndim, axis) for item in (mean, std))
    return (x * rescale - centre) / width


@operator
def standardise(
    input: np.ndarray,
    *,
    axes: Sequence[int] = (-1,),
    eps: float = 1e-7,
    unbiased: bool = False,
    eps_outside: bool = False,
) -> Any:
    """`(x - mean) / sqrt(variance + eps)` by the values' own mean and variance over `axes`.

    unbiased: divide the variance by n - 1
    eps_outside: add eps to the deviation instead of the variance
    """
    return layer_norm(input, axes=axes, eps=eps, unbiased=unbiased, eps_outside=eps_outside)


def _broadcast_along(values: np.ndarray, ndim: int, axis: int) -> np.ndarray:
    return values.reshape(()) if values.size == 1 else per_channel(values, ndim, axis)


_EPS = ("eps", "variance_epsilon", "epsilon", "norm_eps", "layer_norm_eps", "rms_norm_eps")
_USUAL_EPS = (1e-5, 1e-6, 1e-12, 1e-8)
_WEIGHTS = ("weight", "gamma", "g", "scale")
_BIASES = ("bias", "beta")
_ONE_PLUS = ("unit_offset", "add_unit_offset", "zero_centered_gamma")

_NORM_LIKE = re.compile(r"Norm(alization)?(1P|2d)?$")
_NO_LAYER = re.compile(r"(Batch|Group|Instance|Weight|Spectral)Norm")
_RMS_BY_NAME = re.compile(r"RMS|T5LayerNorm", re.IGNORECASE)
_ONE_PLUS_BY_NAME = re.compile(r"Gemma(?!3n)|Qwen3Next(?!.*Gated)|1P$")


def _recorded_eps(call: Call, usual: tuple[float, ...] = _USUAL_EPS) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Return the recorded eps; else the default of torch for functions, the usual ones for modules."""
    told = call.told(*_EPS)
    if told is not None:
        return (float(told),), ()
    return (usual[:1], ()) if call.is_function else (usual, ("eps",))


def _recorded_affine(call: Call, switch: str) -> dict[str, np.ndarray | None]:
    """Return weight and bias; a module has a weight unless an attribute denies it."""
    if call.told(switch, default=True) is False:
        return {"weight": None, "bias": None}
    weight = call.optional("weight") if call.is_function else call.array("weight")
    return {"weight": weight, "bias": call.optional("bias")}


def _normalised_axes(call: Call) -> tuple[int, ...]:
    shape = call.needed("normalized_shape")
    return tuple(range(-len(shape), 0)) if isinstance(shape, list | tuple) else (-1,)


def _layer_norm(call: Call) -> Iterator[Plan]:
    choices, assumed = _recorded_eps(call)
    for eps in choices:
        arrays = {"input": call.main(), **_recorded_affine(call, "elementwise_affine")}
        yield Plan.of(layer_norm, arrays, axes=_normalised_axes(call), eps=eps, assumed=assumed)


def _rms_norm(call: Call) -> Iterator[Plan]:
    """Read an RMS norm; without an eps torch uses that of the dtype it computes in, older ones the input's."""
    x = call.main()
    own = float(np.finfo(x.dtype).eps) if x.dtype.name in ("float64", "float32", "float16") else 2.0**-7
    computing = own if x.dtype.itemsize > 2 else 2.0**-23
    told = call.told(*_EPS)
    choices = (float(told),) if told is not None else tuple(dict.fromkeys((computing, own)))
    for eps in choices:
        arrays = {"input": x, **_recorded_affine(call, "elementwise_affine")}
        yield Plan.of(rms_norm, arrays, axes=_normalised_axes(call), eps=eps, assumed=("eps",) * (len(choices) > 1))


def _group_norm(call: Call) -> Iterator[Plan]:
    choices, assumed = _recorded_eps(call)
    for eps in choices:
        arrays = {"input": call.main(), **_recorded_affine(call, "affine")}
        yield Plan.of(group_norm, arrays, groups=call.needed("num_groups"), eps=eps, assumed=assumed)


def _batch_norm(call: Call) -> Iterator[Plan]:
    of_batch = bool(call.told("training", default=False)) or call.told("track_running_stats") is False
    kept: dict[str, Any] = {"running_mean": None, "running_var": None}
    if not of_batch:
        kept = {name: call.array(name) for name in kept}
    choices, assumed = _recorded_eps(call)
    for eps in choices:
        arrays = {"input": call.main(), **kept, **_recorded_affine(call, "affine")}
        yield Plan.of(batch_norm, arrays, eps=eps, batch_statistics=of_batch, assumed=assumed)


def _instance_norm(call: Call) -> Iterator[Plan]:
    """Read an instance norm: one group for each channel, or a batch norm in eval with running statistics."""
    running = {name: call.optional(name) for name in ("running_mean", "running_var")}
    by_input = call.told("use_input_stats", "training", default=running["running_mean"] is None)
    arrays = {"input": call.main(), "weight": call.optional("weight"), "bias": call.optional("bias")}
    choices, assumed = _recorded_eps(call)
    for eps in choices:
        if running["running_mean"] is not None and not by_input:
            yield Plan.of(batch_norm, {**arrays, **running}, eps=eps, assumed=assumed)
        else:
            yield Plan.of(group_norm, arrays, groups=arrays["input"].shape[1], eps=eps, assumed=assumed)  # type: ignore[union-attr]


def _normalize(call: Call) -> Iterator[Plan]:
    yield Plan.of(lp_norm, {"input": call.main()}, **call.read("p", "dim", "eps").settings)


def _weight_norm(call: Call) -> Iterator[Plan]:
    yield Plan.of(weight_norm, {"length": call.array("0"), "direction": call.array("1")})


def _like_norm(call: Call) -> Iterator[Plan]:
    """Read a custom norm: settings that name, shapes and attributes leave open are tried, the likeliest first."""
    x, weight, bias = call.main(), call.optional(*_WEIGHTS), call.optional(*_BIASES)
    if weight is None:
        raise UnrecordedError.of_params(f"the weight of {call.name} was not recorded")
    axes = list(_axes_of(x, weight, call.told("data_format")))
    if not axes:
        shapes = f"a weight of {list(weight.shape)} and an input of {list(x.shape)}"
        raise UnrecordedError(f"{call.name} has {shapes}, which do not fit", "capture with level='op'")
    kinds, (choices, no_eps), signs = _kinds(call, bias), _recorded_eps(call), _one_plus(call)
    open_settings = (("axes", len(axes) > 1), ("one_plus", len(signs) > 1), ("function", len(kinds) > 1))
    assumed = (*no_eps, *(name for name, is_open in open_settings if is_open))
    arrays = {"input": x, "weight": weight, "bias": bias}
    for kind, across, one_plus, eps in product(kinds, axes, signs, choices):
        yield Plan.of(kind, arrays, axes=across, eps=eps, one_plus=one_plus, assumed=assumed)


def _axes_of(x: np.ndarray, weight: np.ndarray, data_format: object) -> Iterator[tuple[int, ...]]:
    size = weight.size
    if data_format != "channels_first" and x.shape[x.ndim - max(1, _rank(weight)) :] == _squeezed(weight):
        yield tuple(range(-max(1, _rank(weight)), 0))
    if x.ndim > 2 and _rank(weight) <= 1 and x.shape[1] == size:
        yield (1,)


def _squeezed(weight: np.ndarray) -> tuple[int, ...]:
    shape = tuple(size for size in weight.shape if size != 1)
    return shape or (1,)


def _rank(weight: np.ndarray) -> int:
    return len(_squeezed(weight))


def _kinds(call: Call, bias: np.ndarray | None) -> tuple[Function, ...]:
    if _RMS_BY_NAME.search(call.op):
        return (rms_norm,)
    return (layer_norm, rms_norm) if bias is None else (layer_norm,)


def _one_plus(call: Call) -> tuple[bool, ...]:
    told = call.told(*_ONE_PLUS)
    if isinstance(told, bool):
        return (told,)
    return (True, False) if _ONE_PLUS_BY_NAME.search(call.op) else (False, True)


def _is_like_norm(call: Call) -> bool:
    return not call.is_function and bool(_NORM_LIKE.search(call.op)) and not _NO_LAYER.search(call.op)


def _with_shape(*names: str) -> Any:
    exact = named(*names)
    return lambda call: exact(call) and "normalized_shape" in call.attrs


ROWS = (
    Row(supports=_with_shape("LayerNorm layer_norm FusedLayerNorm MixedFusedLayerNorm"), plans=_layer_norm),
    Row(supports=_with_shape("RMSNorm rms_norm FusedRMSNorm MixedFusedRMSNorm"), plans=_rms_norm),
    Row(supports=named("GroupNorm group_norm"), plans=_group_norm, each_token_alone=False),
    Row(
        supports=lambda call: call.op == "batch_norm" or bool(re.search(r"BatchNorm(\dd)?$", call.op)),
        plans=_batch_norm,
        each_token_alone=False,
    ),
    Row(
        supports=named("InstanceNorm1d InstanceNorm2d InstanceNorm3d instance_norm"),
        plans=_instance_norm,
        each_token_alone=False,
    ),
    Row(supports=named("normalize"), plans=_normalize),
    Row(supports=named("_WeightNorm"), plans=_weight_norm, each_token_alone=False),
    Row(supports=_is_like_norm, plans=_like_norm),
)
