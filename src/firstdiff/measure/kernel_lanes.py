"""Elements as the compiled loops take them, and the few operations that Python has no word for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from llvmlite.binding import get_host_cpu_features  # type: ignore[import-untyped]
from numba import types
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic

_WORD = ir.IntType(32)
_BYTES = ir.IntType(8).as_pointer()
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


def object_code(function: Callable[..., Any], arguments: tuple[Any, ...], entry: str) -> bytes:
    """A kernel for arguments of these types as an object file. Its entry takes two addresses: for the result, and of
    the arguments, eight bytes each.
    """
    dispatcher: Any = numba.njit(**_OPTIONS)(function)
    dispatcher.compile(tuple(map(numba.typeof, arguments)))
    (made,) = dispatcher.overloads.values()
    library = made.library.codegen.create_library(entry)
    library.enable_object_caching()
    library.add_linking_library(made.library)
    library.add_ir_module(_entry_module(library, made, entry))
    with global_compiler_lock:
        library.finalize()
    _, _, (code, _) = library.serialize_using_object_code()
    return bytes(code)


def _entry_module(library: Any, kernel: Any, name: str) -> Any:
    described = kernel.fndesc
    kind = kernel.target_context.call_conv.get_function_type(described.restype, described.argtypes)
    module = library.create_ir_module(name)
    called = ir.Function(module, kind, described.llvm_func_name)
    eights = ir.IntType(64).as_pointer()
    entry = ir.Function(module, ir.FunctionType(_WORD, [eights, eights]), name)
    builder = ir.IRBuilder(entry.append_basic_block())
    result = builder.bitcast(entry.args[0], kind.args[0])
    error = builder.alloca(kind.args[1].pointee)
    passed = []
    for at, wanted in enumerate(kind.args[2:]):
        place = builder.gep(entry.args[1], [_WORD(at)])
        passed.append(builder.load(builder.bitcast(place, wanted.as_pointer())))
    builder.ret(builder.call(called, [result, error, *passed]))
    return module


def _selected(builder: Any, test: str, left: Any, right: Any) -> Any:
    """The form that becomes one vector instruction; NaN is left out of account."""
    flags = ("nnan", "nsz")
    return builder.select(builder.fcmp_ordered(test, left, right, flags=flags), left, right, flags=flags)


def select_larger(builder: Any, left: Any, right: Any) -> Any:
    return _selected(builder, ">", left, right)


def select_smaller(builder: Any, left: Any, right: Any) -> Any:
    return _selected(builder, "<", left, right)


def _choice(select: Callable[[Any, Any, Any], Any]) -> Any:
    def typed(_: Any, left: Any, right: Any) -> Any:
        return left(left, right), lambda _context, builder, _signature, values: select(builder, *values)

    return intrinsic(typed)


larger, smaller = _choice(select_larger), _choice(select_smaller)


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
float_of: Any = intrinsic(_float_of)


def _number(_: Any, element: Any) -> Any:
    """An element as a float."""
    result = types.float32 if element in _CONVERSIONS else element
    return result(element), lambda _context, builder, _signature, values: number_of(builder, element, values[0])


def number_of(builder: Any, element: Any, value: Any) -> Any:
    """Elements, one or a vector of them, as floats; bfloat16 comes as uint16, float16 as int16."""
    conversion = _CONVERSIONS.get(element)
    return conversion(builder, value) if conversion else value


def _from_bfloat16(builder: Any, bits: Any) -> Any:
    word = builder.zext(bits, _shaped(ir.IntType(32), bits))
    return builder.bitcast(builder.shl(word, constant(word.type, 16)), _shaped(ir.FloatType(), bits))


def _from_float16(builder: Any, bits: Any) -> Any:
    if _HAS_HALF:
        return builder.fpext(builder.bitcast(bits, _shaped(ir.HalfType(), bits)), _shaped(ir.FloatType(), bits))
    return _half_by_hand(builder, bits)


def _half_by_hand(builder: Any, bits: Any) -> Any:
    """Shift the bits into a float32's places, mend the exponent by a product, and put infinities and NaN back."""
    word, single = _shaped(ir.IntType(32), bits), _shaped(ir.FloatType(), bits)
    placed = builder.and_(builder.shl(builder.sext(bits, word), constant(word, 13)), constant(word, -0x70000001))
    number = builder.fmul(builder.bitcast(placed, single), constant(single, 2.0**112))
    exponent = constant(word, 0x0F800000)
    is_number = builder.icmp_signed("!=", builder.and_(placed, exponent), exponent)
    other = builder.bitcast(builder.or_(placed, constant(word, 0x7F800000)), single)
    return builder.select(is_number, number, other)


def _shaped(kind: ir.Type, like: Any) -> ir.Type:
    return ir.VectorType(kind, like.type.count) if isinstance(like.type, ir.VectorType) else kind


def constant(kind: ir.Type, value: float) -> Any:
    """One of LLVM's, in every place if the kind is a vector."""
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def unsigned(lane: ir.Type) -> Any:
    """The float of a type that has every bit but the sign."""
    bits = 32 if lane == ir.FloatType() else 64
    return ir.Constant(ir.IntType(bits), (1 << (bits - 1)) - 1).bitcast(lane)


def absolute(builder: Any, value: Any, mask: Any) -> Any:
    """Floats, one or a vector of them, without their signs; `mask` is `unsigned`."""
    single = (value.type.element if isinstance(value.type, ir.VectorType) else value.type) == ir.FloatType()
    bits = _shaped(ir.IntType(32 if single else 64), value)
    return builder.bitcast(builder.and_(builder.bitcast(value, bits), builder.bitcast(mask, bits)), value.type)


def every(builder: Any, value: Any, count: int) -> Any:
    """A value in every place of a vector; of one place, the value itself."""
    if count == 1:
        return value
    placed = builder.insert_element(ir.Constant(ir.VectorType(value.type, count), ir.Undefined), value, _WORD(0))
    return builder.shuffle_vector(placed, placed, constant(ir.VectorType(_WORD, count), 0))


def ask_for(builder: Any, place: Any) -> None:
    """Have memory brought near before it is used; where there is none, nothing happens."""
    asked = builder.module.declare_intrinsic(
        "llvm.prefetch", [_BYTES], ir.FunctionType(ir.VoidType(), [_BYTES, _WORD, _WORD, _WORD])
    )
    builder.call(asked, [place, _WORD(0), _WORD(3), _WORD(1)])


_CONVERSIONS = {types.uint16: _from_bfloat16, types.int16: _from_float16}
number: Any = intrinsic(_number)


@compiled()
def wide(element: Any) -> Any:
    """The same as a float64."""
    return types.float64(number(element))
