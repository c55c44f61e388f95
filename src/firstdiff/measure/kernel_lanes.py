"""Elements as the compiled loops take them, and the few operations that Python has no word for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from llvmlite.binding import get_host_cpu_features  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

# neither nnan nor ninf: NaN and infinities must come out as such; nor arcp: a quotient is a quotient
_LOOSE = {"contract", "reassoc", "nsz"}
# without an instruction for it, the compiler would call a function for every element
_HAS_HALF = bool(get_host_cpu_features().get("f16c", False))
# code that needs neither Python nor numba's own runtime when it runs
_OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}


def compiled(*, loose: bool = False) -> Callable[[F], F]:
    """Compile for use within compiled code; `loose` lets sums be taken in any order."""
    return cast("Callable[[F], F]", numba.njit(**_OPTIONS, fastmath=_LOOSE if loose else False))


def object_code(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, bytes]:
    """A kernel for arguments of these types as machine code: the name of its symbol, and an object file."""
    dispatcher: Any = numba.njit(**_OPTIONS)(function)
    dispatcher.compile(tuple(map(numba.typeof, arguments)))
    (made,) = dispatcher.overloads.values()
    _, _, (code, _) = made.library.serialize_using_object_code()
    return made.fndesc.llvm_func_name, code


def _choice(test: str) -> Any:
    """The larger or smaller of two floats, NaN left out of account: the form that becomes one vector instruction."""

    def typed(_: Any, left: Any, right: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            flags = ("nnan", "nsz")
            return builder.select(builder.fcmp_ordered(test, *values, flags=flags), *values, flags=flags)

        return left(left, right), generate

    return intrinsic(typed)


larger, smaller = _choice(">"), _choice("<")


def _widest_vectors(_: Any) -> Any:
    """Let the function that calls this use vectors as wide as the processor has."""

    def generate(context: Any, builder: Any, _signature: Any, _values: Any) -> Any:
        attributes = builder.function.attributes
        attributes.add("noinline")  # the caller would not know what it may use
        for wide in ('"prefer-vector-width"="512"', '"min-legal-vector-width"="512"'):
            set.add(attributes, wide)  # llvmlite has a list of attributes, and these are not on it
        return context.get_dummy_value()

    return types.void(), generate


def _bits_of(_: Any, value: Any) -> Any:
    """A float's bits as a signed integer; of floats that are not negative the order is the same."""
    width = value.bitwidth

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.IntType(width))

    return getattr(types, f"int{width}")(value), generate


def _float_of(_: Any, value: Any) -> Any:
    """The float that has these bits."""
    width = value.bitwidth

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.FloatType() if width == 32 else ir.DoubleType())

    return getattr(types, f"float{width}")(value), generate


bits_of: Any = intrinsic(_bits_of)
widest_vectors: Any = intrinsic(_widest_vectors)
float_of: Any = intrinsic(_float_of)


def _number(_: Any, element: Any) -> Any:
    """An element as a float; bfloat16 comes as uint16, float16 as int16."""
    conversion = _CONVERSIONS.get(element)
    if conversion is None:
        return element(element), lambda _context, _builder, _signature, values: values[0]
    return types.float32(element), lambda _context, builder, _signature, values: conversion(builder, values[0])


def _from_bfloat16(builder: Any, bits: Any) -> Any:
    word = builder.zext(bits, ir.IntType(32))
    return builder.bitcast(builder.shl(word, ir.IntType(32)(16)), ir.FloatType())


def _from_float16(builder: Any, bits: Any) -> Any:
    if _HAS_HALF:
        return builder.fpext(builder.bitcast(bits, ir.HalfType()), ir.FloatType())
    return _half_by_hand(builder, bits)


def _half_by_hand(builder: Any, bits: Any) -> Any:
    """Shift the bits into a float32's places, mend the exponent by a product, and put infinities and NaN back."""
    word = ir.IntType(32)
    placed = builder.and_(builder.shl(builder.sext(bits, word), word(13)), word(-0x70000001))
    number = builder.fmul(builder.bitcast(placed, ir.FloatType()), ir.FloatType()(2.0**112))
    exponent = word(0x0F800000)
    is_number = builder.icmp_signed("!=", builder.and_(placed, exponent), exponent)
    other = builder.bitcast(builder.or_(placed, word(0x7F800000)), ir.FloatType())
    return builder.select(is_number, number, other)


_CONVERSIONS = {types.uint16: _from_bfloat16, types.int16: _from_float16}
number: Any = intrinsic(_number)


@compiled()
def wide(element: Any) -> Any:
    """The same as a float64."""
    return types.float64(number(element))
