"""The loop that sees every element, written out as vector code.

A compiler makes vectors of a plain loop too, but does not ask for memory ahead of its use, without which reading and
computing take turns; and it keeps the lines in registers, which are too few for them and the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from firstdiff.measure.kernel_lanes import absolute, ask_for, every, number_of, select_larger, select_smaller, unsigned
from firstdiff.measure.kernel_places import HEIGHTS, LANE_LINES, LEVEL, SCALE, VECTOR

_TURNS = 2  # vectors between two requests for memory; more of them, and figures would not stay in registers
_AHEAD = 2048  # bytes from what is computed with to what is asked for
_LOOSE = ("contract", "reassoc", "nsz")
_INDEX, _WORD = ir.IntType(64), ir.IntType(32)
_BYTES = ir.IntType(8).as_pointer()

# numba's, without types
_code: Any = cgutils
_types: Any = types

Value = Any  # of LLVM's: a number or a vector of them


class Figures(NamedTuple):
    """What a row tells: bounds of r and |r|, the most that a difference is over the lines, and sums."""

    low_r: Value
    high_r: Value
    least: Value
    over: Value
    sum_r: Value
    sum_c: Value
    sum_abs: Value
    rr: Value
    dd: Value
    rd: Value


def _added(builder: Any, left: Value, right: Value) -> Value:
    return builder.fadd(left, right, flags=_LOOSE)


# how the figures of two parts become those of both
_JOINED = Figures(select_smaller, select_larger, select_smaller, select_larger, *[_added] * 6)


def _taken_in(builder: Any, so_far: Figures, x: Value, y: Value, lines: list[Value]) -> Figures:
    """The figures with some more elements of the reference and the candidate; after the lines stands `unsigned`."""

    def plus_product(summed: Value, left: Value, right: Value) -> Value:
        return _added(builder, summed, builder.fmul(left, right, flags=_LOOSE))

    def line(number: int) -> Value:
        return plus_product(lines[HEIGHTS + number], lines[number], size)

    d = builder.fsub(y, x, flags=_LOOSE)
    size, difference = absolute(builder, x, lines[-1]), absolute(builder, d, lines[-1])
    ray = builder.fmul(lines[0], size, flags=_LOOSE)
    lowest = select_smaller(builder, ray, lines[LEVEL])
    for chord in range(1, HEIGHTS):
        lowest = select_smaller(builder, line(chord), lowest)
    over = builder.fsub(builder.fmul(difference, lines[SCALE], flags=_LOOSE), lowest, flags=_LOOSE)
    return Figures(
        low_r=select_smaller(builder, so_far.low_r, x),
        high_r=select_larger(builder, so_far.high_r, x),
        least=select_smaller(builder, so_far.least, size),
        over=select_larger(builder, so_far.over, over),
        sum_r=_added(builder, so_far.sum_r, x),
        sum_c=_added(builder, so_far.sum_c, y),
        sum_abs=_added(builder, so_far.sum_abs, difference),
        rr=plus_product(so_far.rr, x, x),
        dd=plus_product(so_far.dd, d, d),
        rd=plus_product(so_far.rd, x, d),
    )


def _row_figures(_: Any, r: Any, c: Any, lines: Any, coming_r: Any, coming_c: Any) -> Any:
    """`Figures` of a row in the type of the lines; `coming`: the address of one to come, or 0."""
    result = _types.UniTuple(lines.dtype, len(Figures._fields))

    def generate(context: Any, builder: Any, signature: Any, passed: Any) -> Any:
        reference, candidate, drawn = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args[:3], passed[:3], strict=True)
        )
        sides = [(reference.data, r.dtype), (candidate.data, c.dtype)]
        lane = context.get_value_type(lines.dtype)
        values = [builder.load(builder.gep(drawn.data, [_INDEX(at)])) for at in range(LANE_LINES)] + [unsigned(lane)]

        first = _loaded(builder, *sides[0], _INDEX(0), lane)
        nothing = Figures(first, first, absolute(builder, first, values[-1]), *[lane(0.0)] * 7)
        count = VECTOR * 8 // lines.dtype.bitwidth
        size = builder.extract_value(reference.shape, 0)
        whole = builder.and_(size, _INDEX(-count * _TURNS))
        asked = [_asked(builder, data, coming) for (data, _), coming in zip(sides, passed[3:], strict=True)]
        vectors = _loop(builder, sides, values, nothing, (_INDEX(0), whole), count, _TURNS, asked)
        folded = Figures._make(_folded(builder, join, vector) for join, vector in zip(_JOINED, vectors, strict=True))
        return context.make_tuple(builder, result, _loop(builder, sides, values, folded, (whole, size), 1, 1, ()))

    return result(r, c, lines, coming_r, coming_c), generate


def _loop(
    builder: Any,
    sides: list[tuple[Value, Any]],
    lines: list[Value],
    before: Figures,
    bounds: tuple[Value, Value],
    count: int,
    turns: int,
    asked: Sequence[Value],
) -> Figures:
    """Take in the elements between the bounds, so many at a time, in several turns between two requests for memory."""
    places = [_code.alloca_once_value(builder, every(builder, value, count)) for value in before]
    lines = [every(builder, value, count) for value in lines]
    kind = lines[0].type
    kept = _code.alloca_once(builder, kind, len(lines))
    kept_lines = [builder.gep(kept, [_INDEX(at)]) for at in range(len(lines))]
    for value, place in zip(lines, kept_lines, strict=True):
        builder.store(value, place)
    with _code.for_range_slice(builder, *bounds, _INDEX(count * turns), _INDEX) as (at, _):
        for place, (_, element) in zip(asked, sides, strict=False):
            ask_for(builder, builder.gep(place, [builder.mul(at, _INDEX(element.bitwidth // 8))]))
        figures = Figures._make(map(builder.load, places))
        for turn in range(turns):
            _forget(builder, kept)
            here = builder.add(at, _INDEX(turn * count))
            x, y = (_loaded(builder, *side, here, kind) for side in sides)
            figures = _taken_in(builder, figures, x, y, list(map(builder.load, kept_lines)))
        for value, place in zip(figures, places, strict=True):
            builder.store(value, place)
    return Figures._make(map(builder.load, places))


def _loaded(builder: Any, data: Value, element: Any, at: Value, kind: ir.Type) -> Value:
    """Elements as floats of a kind, as many as it holds."""
    place = builder.gep(data, [at])
    if isinstance(kind, ir.VectorType):
        stored = ir.VectorType(data.type.pointee, kind.count)
        value = builder.load(builder.bitcast(place, stored.as_pointer()), align=element.bitwidth // 8)
    else:
        value = builder.load(place)
    value = number_of(builder, element, value)
    return value if value.type == kind else builder.fpext(value, kind)


def _forget(builder: Any, memory: Value) -> None:
    """Have what lies there read where it is used, lest it take up the vectors that the figures need."""
    builder.asm(ir.FunctionType(ir.VoidType(), [memory.type]), "", "r,~{memory}", [memory], True)


def _asked(builder: Any, data: Value, coming: Value) -> Value:
    """What to ask for while a row is measured: the one to come, or this row some way on, where that is not known."""
    some_way_on = builder.gep(builder.bitcast(data, _BYTES), [_INDEX(_AHEAD)])
    is_known = builder.icmp_signed("!=", coming, _INDEX(0))
    return builder.select(is_known, builder.inttoptr(coming, _BYTES), some_way_on)


def _folded(builder: Any, join: Any, vector: Value) -> Value:
    """The parts of a vector as one."""
    count = vector.type.count
    while count > 1:
        count //= 2
        halves = [ir.Constant(ir.VectorType(_WORD, count), [start + at for at in range(count)]) for start in (0, count)]
        vector = join(builder, *(builder.shuffle_vector(vector, vector, half) for half in halves))
    return builder.extract_element(vector, _WORD(0))


row_figures: Any = intrinsic(_row_figures)
