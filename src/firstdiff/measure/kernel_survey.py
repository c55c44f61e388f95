"""The loops that see every element, written out as vector code.

A compiler makes vectors of a plain loop too, but does not ask for memory ahead of its use, without which reading and
computing take turns; and there are more figures and lines than it can keep in registers. So a row is gone through
twice: once for the figures, then, while the sizes of its values and differences are at hand, for the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any, NamedTuple

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from firstdiff.measure.kernel_lanes import (
    absolute,
    ask_for,
    constant,
    every,
    number_of,
    select_larger,
    select_smaller,
    unsigned,
)
from firstdiff.measure.kernel_places import (
    AHEAD,
    FAR_AHEAD,
    HEIGHTS,
    IN_A_ROW,
    LANE_LINES,
    LEVEL,
    ROW,
    SCALE,
    STRIDE,
    VECTOR,
)

_ROWS = 4  # whose sums are added up before they become float64
_PAUSE = 7  # rows until what did not do is tried again
_LOOSE = ("contract", "reassoc", "nsz")
_INDEX, _WORD, _DOUBLE = ir.IntType(64), ir.IntType(32), ir.DoubleType()
_BYTES = ir.IntType(8).as_pointer()

# numba's, without types
_code: Any = cgutils
_types: Any = types

Value = Any  # of LLVM's: a number, a vector of them, or where one lies


class Sums(NamedTuple):
    """Of r, c and |d|, and of products, where d is c - r."""

    r: Value
    c: Value
    abs: Value
    rr: Value
    dd: Value
    rd: Value


class _Side(NamedTuple):
    """A block: where it would lie as one, the type of its elements, the ways of its runs, and how long these are.

    Without ways, it lies as one.
    """

    data: Value
    element: Any
    ways: Value
    shift: Value


def _block_figures(
    _: Any, r: Any, c: Any, lines: Any, overs: Any, ways_r: Any, ways_c: Any, shift_r: Any, shift_c: Any
) -> Any:
    """The bounds of r and the `Sums` of a block of whole strides, taken in the type of the lines.

    The most that a difference is over the lines, of every row, goes to `overs`. `ways`, `shift`: as in a `Side`.
    """
    result = _types.UniTuple(_types.float64, 2 + len(Sums._fields))

    def generate(context: Any, builder: Any, signature: Any, passed: Any) -> Any:
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args[:6], passed[:6], strict=True)
        ]
        drawn, written = arrays[2:4]
        sides = [
            _Side(array.data, kind.dtype, ways.data, shift)
            for array, kind, ways, shift in zip(arrays[:2], (r, c), arrays[4:], passed[6:], strict=True)
        ]
        lane = context.get_value_type(lines.dtype)
        count = VECTOR * 8 // lines.dtype.bitwidth
        kind = ir.VectorType(lane, count)
        mask = every(builder, unsigned(lane), count)
        first = _loaded(builder, _place(builder, sides[0], _INDEX(0)), r.dtype, _INDEX(0), kind)
        low, high = (_code.alloca_once_value(builder, first) for _ in range(2))
        narrow = _zeros(builder, kind)
        wide = _zeros(builder, ir.VectorType(_DOUBLE, count))
        sizes, differences = (
            builder.bitcast(_code.alloca_once(builder, kind, ROW // count), lane.as_pointer()) for _ in range(2)
        )
        together, each = (_most_over(builder.module, kind, together=how) for how in (True, False))
        pause = _code.alloca_once_value(builder, _INDEX(0))
        total = builder.extract_value(arrays[0].shape, 0)
        are_apart = builder.icmp_unsigned("<", builder.and_(sides[0].shift, sides[1].shift), _INDEX(IN_A_ROW))
        with _code.for_range_slice(builder, _INDEX(0), total, _INDEX(ROW), _INDEX) as (start, _):
            number = builder.udiv(start, _INDEX(ROW))
            length = _smaller(builder, _INDEX(ROW), builder.sub(total, start))
            add_row = partial(_add_row, builder, (start, length), (low, high), narrow, (sizes, differences), mask)
            with builder.if_else(are_apart) as (apart, in_a_row):
                with apart:
                    for side in sides:
                        _find_pages(builder, side, builder.add(start, _INDEX(FAR_AHEAD)))
                    add_row(sides)
                with in_a_row:
                    add_row([side._replace(ways=None) for side in sides])
            over = _over_lines(builder, kind, [sizes, differences, length, drawn.data], together, each, pause)
            builder.store(over, builder.gep(written.data, [number]))
            is_time = builder.icmp_unsigned("==", builder.urem(number, _INDEX(_ROWS)), _INDEX(_ROWS - 1))
            with builder.if_then(is_time):
                _move(builder, narrow, wide)
        _move(builder, narrow, wide)
        bounds = _folded(builder, select_smaller, low), _folded(builder, select_larger, high)
        found = [
            *(_widened(builder, bound, _DOUBLE) for bound in bounds),
            *(_folded(builder, _added, at) for at in wide),
        ]
        return context.make_tuple(builder, result, found)

    return result(r, c, lines, overs, ways_r, ways_c, shift_r, shift_c), generate


def _find_pages(builder: Any, side: _Side, start: Value) -> None:
    """Ask for where the runs of a row begin, if apart: at once, for each takes a while to find its page of memory."""
    with (
        builder.if_then(builder.icmp_unsigned("!=", side.shift, _INDEX(IN_A_ROW))),
        _code.for_range_slice(builder, _INDEX(0), _INDEX(ROW), builder.shl(_INDEX(1), side.shift), _INDEX) as (at, _),
    ):
        ask_for(builder, builder.bitcast(_place(builder, side, builder.add(start, at)), _BYTES))


def _add_row(
    builder: Any,
    row: tuple[Value, Value],
    bounds: tuple[Value, Value],
    sums: Sums,
    kept: tuple[Value, Value],
    mask: Value,
    sides: list[_Side],
) -> None:
    """Take a row, given by its start and length, into bounds and sums; sizes of values and differences are kept."""
    kind = mask.type
    added = _zeros(builder, kind)
    start, length = row
    with _strides(builder, length, kind) as (at, places):
        stride = builder.add(start, at)
        for side in sides:
            ask_for(builder, builder.bitcast(_place(builder, side, builder.add(stride, _INDEX(AHEAD))), _BYTES))
        begins = [_place(builder, side, stride) for side in sides]
        for here in places:
            part = builder.sub(here, at)
            x, y = (
                _loaded(builder, begin, side.element, part, kind) for begin, side in zip(begins, sides, strict=True)
            )
            d = builder.fsub(y, x, flags=_LOOSE)
            size, difference = absolute(builder, x, mask), absolute(builder, d, mask)
            for bound, select in zip(bounds, (select_smaller, select_larger), strict=True):
                builder.store(select(builder, builder.load(bound), x), bound)
            products = (_multiplied(builder, *pair) for pair in ((x, x), (d, d), (x, d)))
            _add(builder, added, Sums(x, y, difference, *products))
            for value, place in zip((size, difference), kept, strict=True):
                builder.store(value, _vector_at(builder, place, here, kind), align=VECTOR)
    _add(builder, sums, Sums._make(map(builder.load, added)))


def _over_lines(
    builder: Any, kind: ir.VectorType, passed: list[Value], together: Any, each: Any, pause: Value
) -> Value:
    """The most that a difference of a row is over the lines; first from all of a stride together, which does where
    differences do not grow with values. Where it does not do, it is not tried for some rows.
    """
    most = _code.alloca_once(builder, kind.element)
    builder.store(kind.element(float("inf")), most)
    rest = builder.load(pause)
    is_tried = builder.icmp_unsigned("==", rest, _INDEX(0))
    with builder.if_then(is_tried):
        builder.store(builder.call(together, passed), most)
    with builder.if_then(builder.fcmp_ordered(">=", builder.load(most), kind.element(0.0))):
        builder.store(builder.call(each, passed), most)
        builder.store(builder.select(is_tried, _INDEX(_PAUSE), builder.sub(rest, _INDEX(1))), pause)
    return builder.load(most)


def _most_over(module: Any, kind: ir.VectorType, *, together: bool) -> Any:
    """The most that a difference of a row is over the lowest of the lines; `together` takes the largest difference and
    the smallest value of some, and may find more than there is.

    A function of its own, so that the figures make room in the registers for the lines.
    """
    lane = kind.element
    values = lane.as_pointer()
    name = f"most_over_{lane}_{'together' if together else 'each'}"
    function = ir.Function(module, ir.FunctionType(lane, [values, values, _INDEX, values]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    sizes, differences, length, drawn = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    lines = [every(builder, builder.load(builder.gep(drawn, [_INDEX(at)])), kind.count) for at in range(LANE_LINES)]
    most = _code.alloca_once_value(builder, constant(kind, float("-inf")))
    with _strides(builder, length, kind) as (_, places):
        points = [tuple(_kept(builder, side, here, kind) for side in (sizes, differences)) for here in places]
        if together:
            joined = zip((select_smaller, select_larger), zip(*points, strict=True), strict=True)
            points = [tuple(reduce(partial(select, builder), side) for select, side in joined)]
        for size, difference in points:
            lowest = select_smaller(builder, _multiplied(builder, lines[0], size), lines[LEVEL])
            for chord in range(1, HEIGHTS):
                line = _added(builder, lines[HEIGHTS + chord], _multiplied(builder, lines[chord], size))
                lowest = select_smaller(builder, line, lowest)
            over = builder.fsub(_multiplied(builder, difference, lines[SCALE]), lowest, flags=_LOOSE)
            builder.store(select_larger(builder, builder.load(most), over), most)
    builder.ret(_folded(builder, select_larger, most))
    return function


@contextmanager
def _strides(builder: Any, length: Value, kind: ir.VectorType) -> Iterator[tuple[Value, list[Value]]]:
    """A loop over a row, and in each stride of it where its vectors begin."""
    with _code.for_range_slice(builder, _INDEX(0), length, _INDEX(STRIDE), _INDEX) as (at, _):
        yield at, [builder.add(at, _INDEX(part)) for part in range(0, STRIDE, kind.count)]


def _added(builder: Any, left: Value, right: Value) -> Value:
    return builder.fadd(left, right, flags=_LOOSE)


def _multiplied(builder: Any, left: Value, right: Value) -> Value:
    return builder.fmul(left, right, flags=_LOOSE)


def _smaller(builder: Any, left: Value, right: Value) -> Value:
    return builder.select(builder.icmp_unsigned("<", left, right), left, right)


def _zeros(builder: Any, kind: ir.VectorType) -> Sums:
    """Where sums lie, all 0 here and now."""
    places = Sums._make(_code.alloca_once(builder, kind) for _ in Sums._fields)
    for place in places:
        builder.store(constant(kind, 0.0), place)
    return places


def _add(builder: Any, places: Sums, values: Sums) -> None:
    for place, value in zip(places, values, strict=True):
        builder.store(_added(builder, builder.load(place), value), place)


def _move(builder: Any, narrow: Sums, wide: Sums) -> None:
    """Add sums to those in float64, and begin them anew."""
    kind = wide.r.type.pointee
    _add(builder, wide, Sums._make(_widened(builder, builder.load(place), kind) for place in narrow))
    for place in narrow:
        builder.store(constant(place.type.pointee, 0.0), place)


def _widened(builder: Any, value: Value, kind: ir.Type) -> Value:
    return value if value.type == kind else builder.fpext(value, kind)


def _vector_at(builder: Any, place: Value, at: Value, kind: ir.VectorType) -> Value:
    return builder.bitcast(builder.gep(place, [at]), kind.as_pointer())


def _kept(builder: Any, place: Value, at: Value, kind: ir.VectorType) -> Value:
    return builder.load(_vector_at(builder, place, at, kind), align=VECTOR)


def _place(builder: Any, side: _Side, at: Value) -> Value:
    """Where an element of a block lies, and with it the rest of its run."""
    if side.ways is None:
        return builder.gep(side.data, [at])
    way = builder.load(builder.gep(side.ways, [builder.lshr(at, side.shift)]))
    together = builder.bitcast(builder.gep(side.data, [at]), _BYTES)
    return builder.bitcast(builder.gep(together, [way]), side.data.type)


def _loaded(builder: Any, data: Value, element: Any, at: Value, kind: ir.VectorType) -> Value:
    """Elements as floats of a kind, as many as it holds."""
    stored = ir.VectorType(data.type.pointee, kind.count)
    value = builder.load(_vector_at(builder, data, at, stored), align=element.bitwidth // 8)
    return _widened(builder, number_of(builder, element, value), kind)


def _folded(builder: Any, join: Callable[[Any, Value, Value], Value], place: Value) -> Value:
    """The parts of a vector as one."""
    vector = builder.load(place)
    count = vector.type.count
    while count > 1:
        count //= 2
        halves = [ir.Constant(ir.VectorType(_WORD, count), [start + at for at in range(count)]) for start in (0, count)]
        vector = join(builder, *(builder.shuffle_vector(vector, vector, half) for half in halves))
    return builder.extract_element(vector, _WORD(0))


block_figures: Any = intrinsic(_block_figures)
