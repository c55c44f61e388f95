"""Moving values from an address to a place in an array: what Python has no word for."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from firstdiff.measure.kernel_lanes import ask_for
from firstdiff.measure.kernel_places import VECTOR

_INDEX, _WORD = ir.IntType(64), ir.IntType(32)
_BYTES = ir.IntType(8).as_pointer()

_code: Any = cgutils  # numba's, without types


def _place(context: Any, builder: Any, signature: Any, passed: Any) -> Any:
    """In the array that is passed first, the place that is passed second."""
    array = context.make_array(signature.args[0])(context, builder, passed[0])
    return builder.gep(array.data, [passed[1]])


def _copied(_: Any, to: Any, place: Any, address: Any, count: Any) -> Any:
    """Copy elements that lie in a row at an address."""

    def generate(context: Any, builder: Any, signature: Any, passed: Any) -> Any:
        target = _place(context, builder, signature, passed)
        source = builder.inttoptr(passed[2], target.type)
        _code.raw_memcpy(builder, target, source, passed[3], to.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(to, place, address, count), generate


def _put_one(_: Any, to: Any, place: Any, address: Any) -> Any:
    """Copy the element at an address."""

    def generate(context: Any, builder: Any, signature: Any, passed: Any) -> Any:
        target = _place(context, builder, signature, passed)
        builder.store(builder.load(builder.inttoptr(passed[2], target.type), align=1), target)
        return context.get_dummy_value()

    return types.void(to, place, address), generate


def _turned_square(_: Any, to: Any, place: Any, span: Any, address: Any, width: Any) -> Any:
    """Vectors that lie `width` bytes apart, as many as one holds elements, turned and put `span` elements apart."""
    side = VECTOR * 8 // to.dtype.bitwidth

    def generate(context: Any, builder: Any, signature: Any, passed: Any) -> Any:
        target, (span, address, width) = _place(context, builder, signature, passed), passed[2:]
        kind = ir.VectorType(target.type.pointee, side).as_pointer()
        vectors = []
        for column in range(side):
            source = builder.add(address, builder.mul(width, _INDEX(column)))
            vectors.append(builder.load(builder.inttoptr(source, kind), align=1))
        for row, vector in enumerate(_turned(builder, vectors)):
            at = builder.bitcast(builder.gep(target, [builder.mul(span, _INDEX(row))]), kind)
            builder.store(vector, at, align=to.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(to, place, span, address, width), generate


def _turned(builder: Any, vectors: list[Any]) -> list[Any]:
    """Rows as columns: halves change places across the middle, then quarters within the halves, and so on."""
    side = len(vectors)
    apart = side // 2
    while apart:
        upper = [at + side - apart if at & apart else at for at in range(side)]
        lower = [at + side if at & apart else at + apart for at in range(side)]
        masks = [ir.Constant(ir.VectorType(_WORD, side), places) for places in (upper, lower)]
        for at in range(side):
            if not at & apart:
                pair = vectors[at], vectors[at + apart]
                vectors[at], vectors[at + apart] = (builder.shuffle_vector(*pair, mask) for mask in masks)
        apart //= 2
    return vectors


def _asked(_: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, passed: Any) -> Any:
        ask_for(builder, builder.inttoptr(passed[0], _BYTES))
        return context.get_dummy_value()

    return types.void(address), generate


def _address_of(_: Any, array: Any) -> Any:
    """Where the elements of an array begin."""

    def generate(context: Any, builder: Any, signature: Any, passed: Any) -> Any:
        return builder.ptrtoint(context.make_array(signature.args[0])(context, builder, passed[0]).data, _INDEX)

    return types.int64(array), generate


copy: Any = intrinsic(_copied)
put: Any = intrinsic(_put_one)
turn_square: Any = intrinsic(_turned_square)
ask: Any = intrinsic(_asked)
address_of: Any = intrinsic(_address_of)
