"""Table rows: pooling and interpolation."""

from __future__ import annotations

from collections.abc import Iterator

from firstdiff.ops.plan import Plan
from firstdiff.ops.pooling import adaptive_avg_pool, avg_pool, max_pool
from firstdiff.ops.resizing import interpolate
from firstdiff.ops.table.call import Call, UnrecordedError
from firstdiff.ops.table.row import Row, named


def _each(*stems: str) -> str:
    return " ".join(f"{stem}{n}{'d'}" for stem in stems for n in (1, 2, 3))


def _axes(call: Call) -> int:
    return int(call.op[-2])


def _avg(call: Call) -> Iterator[Plan]:
    _refuse_ceil(call)
    read = call.read("kernel_size", "stride", "padding", "count_include_pad").settings
    yield Plan.of(
        avg_pool, {"input": call.main()}, axes=_axes(call), **{"kernel_size": call.needed("kernel_size"), **read}
    )


def _max(call: Call) -> Iterator[Plan]:
    _refuse_ceil(call)
    read = call.read("stride", "padding", "dilation").settings
    yield Plan.of(max_pool, {"input": call.main()}, axes=_axes(call), kernel_size=call.needed("kernel_size"), **read)


def _adaptive(call: Call) -> Iterator[Plan]:
    size = call.needed("output_size")
    yield Plan.of(adaptive_avg_pool, {"input": call.main()}, axes=_axes(call), output_size=size)


def _interpolate(call: Call) -> Iterator[Plan]:
    if call.told("antialias", default=False):
        raise UnrecordedError(f"{call.name} smooths as it shrinks, which is not replayed", "capture with level='op'")
    read = call.read("size", "scale_factor", "mode", "align_corners").settings
    if call.told("recompute_scale_factor", default=False):
        lengths, factors = call.main().shape[2:], read.pop("scale_factor")
        each = factors if isinstance(factors, list) else [factors] * len(lengths)
        read["size"] = [int(length * factor) for length, factor in zip(lengths, each, strict=True)]
    yield Plan.of(interpolate, {"input": call.main()}, **read)


def _refuse_ceil(call: Call) -> None:
    if call.told("ceil_mode", default=False):
        raise UnrecordedError(f"{call.name} pools in ceil_mode, which is not replayed", "capture with level='op'")


ROWS = (
    Row(supports=named(_each("AvgPool", "avg_pool")), plans=_avg, each_token_alone=False),
    Row(supports=named(_each("MaxPool", "max_pool")), plans=_max, each_token_alone=False),
    Row(supports=named(_each("AdaptiveAvgPool", "adaptive_avg_pool")), plans=_adaptive, each_token_alone=False),
    Row(supports=named("interpolate Upsample"), plans=_interpolate, each_token_alone=False),
)
