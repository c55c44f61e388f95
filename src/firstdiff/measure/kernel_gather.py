"""Bringing scattered values together, a piece at a time, so that they are still in the cache when they are measured.

A box is gone through panel by panel: two of its axes, the last one and the one that lies closest in memory. The others
are counted through like the digits of a number.
"""

from __future__ import annotations

import numpy as np

from firstdiff.measure.kernel_lanes import compiled
from firstdiff.measure.kernel_moves import address_of, ask, copy, put, turn_square
from firstdiff.measure.kernel_places import (
    ADDRESS,
    AXIS,
    BLOCK,
    BOX,
    END,
    FAR_AHEAD,
    IN_A_ROW,
    LEADING,
    LENGTH,
    LINE,
    ORIGIN,
    ROW,
    SPAN,
    STEP,
    STRIDE,
    VECTOR,
    Side,
)

_AHEAD = 4  # rows from what is copied to what is asked for
_BANDS = 2  # the same, of bands that are turned
_LONG = 1024  # bytes of a row that memory is brought in for unasked
_NEAR = 1 << 13  # bytes that stay in the cache whatever the order they are read in


@compiled()
def side_of(
    values: np.ndarray,
    boxes: np.ndarray,
    start: int,
    size: int,
    at_hand: np.ndarray,
    digits: np.ndarray,
    ways: np.ndarray,
) -> Side:
    """A side of a window, as it lies."""
    ways[0] = 0
    at_hand[0], at_hand[1] = 0, 0 if boxes.shape[0] else size
    return Side(values, boxes, start, size, at_hand, digits, _shift_of(values, boxes, start), ways)


@compiled()
def _shift_of(values: np.ndarray, boxes: np.ndarray, start: int) -> int:
    """For the longest runs, up to a row, that begin at multiples of their length wherever they lie."""
    bounds = ROW | start
    for number in range(boxes.shape[0]):
        box = boxes[number]
        columns = box[box.size - AXIS :]
        if columns[STEP] != values.itemsize:
            return IN_A_ROW
        bounds |= box[ORIGIN] | columns[LENGTH]
        for axis in range(BOX, box.size - AXIS, AXIS):
            bounds |= box[axis + SPAN]
    longest = bounds & -bounds
    if boxes.shape[0] == 0 or longest < STRIDE:
        return IN_A_ROW
    shift = 0
    while 1 << shift < longest:
        shift += 1
    return shift


@compiled()
def arrived(side: Side, first: int, stop: int) -> int:
    """See to it that a block can be surveyed; where in `side.values` it begins, or would if it were in a row."""
    if side.shift != IN_A_ROW:
        end = side.start + min(stop + FAR_AHEAD + ROW, side.size)
        gather(side.values, side.boxes, side.start + first, end, side.digits, side.shift, side.ways)
        return 0
    if stop > side.at_hand[1]:
        _go_on(side, first, stop)
    return first - int(side.at_hand[0])


@compiled()
def _go_on(side: Side, first: int, stop: int) -> None:
    """Gather more pieces; what is left of the last one goes before them. They end where they would in any window."""
    begun, end, piece = side.at_hand[0], side.at_hand[1], side.values.size - BLOCK
    for i in range(end - first):
        side.values[i] = side.values[first - begun + i]
    while end < stop:
        begin = side.start + end
        room = side.values[end - first :]
        end = min((begin // piece + 1) * piece - side.start, side.size)
        gather(room, side.boxes, begin, side.start + end, side.digits, side.shift, side.ways[:0])
    side.at_hand[0], side.at_hand[1] = first, end


@compiled()
def brought(side: Side, first: int, stop: int) -> int:
    """Where in `side.values` those of a block begin that are wanted; it has arrived."""
    if side.shift == IN_A_ROW:
        return first - int(side.at_hand[0])
    gather(side.values, side.boxes, side.start + first, side.start + stop, side.digits, side.shift, side.ways[:0])
    return 0


@compiled()
def gather(
    room: np.ndarray, boxes: np.ndarray, begin: int, end: int, digits: np.ndarray, shift: int, ways: np.ndarray
) -> None:
    """Elements `begin` to `end` of the C order; or, if there is room for that, only the ways to them."""
    for number in range(boxes.shape[0]):
        if boxes[number, ORIGIN] < end and begin < boxes[number, END]:
            _gather_box(room, boxes[number], begin, end, digits, shift, ways)


@compiled()
def _gather_box(
    room: np.ndarray, box: np.ndarray, begin: int, end: int, digits: np.ndarray, shift: int, ways: np.ndarray
) -> None:
    outer = (box.size - BOX) // AXIS - 2
    place, address = box[ORIGIN], box[ADDRESS]
    for axis in range(outer):
        at = BOX + AXIS * axis
        digit = min(max((begin - place) // box[at + SPAN], 0), box[at + LENGTH] - 1) if axis < box[LEADING] else 0
        digits[axis] = digit
        place += digit * box[at + SPAN]
        address += digit * box[at + STEP]
    while True:
        _gather_panel(room, box[BOX + AXIS * outer :], place, address, begin, end, shift, ways)
        axis = outer - 1
        while axis >= 0:
            at = BOX + AXIS * axis
            digits[axis] += 1
            place += box[at + SPAN]
            address += box[at + STEP]
            if digits[axis] < box[at + LENGTH]:
                break
            digits[axis] = 0
            place -= box[at + LENGTH] * box[at + SPAN]
            address -= box[at + LENGTH] * box[at + STEP]
            axis -= 1
        if axis < 0 or (axis < box[LEADING] and place >= end):
            return


@compiled()
def _gather_panel(
    room: np.ndarray, panel: np.ndarray, place: int, address: int, begin: int, end: int, shift: int, ways: np.ndarray
) -> None:
    """What lies between the bounds of the rows of a panel, the first of which is at a place of the C order.

    Where a bound is inside a row, columns before and after it have rows of their own.
    """
    rows, step, span = panel[LENGTH], panel[STEP], panel[SPAN]
    columns, width = panel[AXIS + LENGTH], panel[AXIS + STEP]
    low, high = begin - place, end - place
    if low <= 0 and (rows - 1) * span + columns <= high:
        _take_rows(room, -low, span, rows, step, address, columns, width, shift, ways)
        return
    first_row, first_cut = low // span, low % span
    last_row, last_cut = high // span, high % span
    first = 0
    for turn in range(3):
        last = columns
        if turn == 0:
            last = min(columns, first_cut, last_cut)
        elif turn == 1:
            last = min(columns, max(first_cut, last_cut))
        if first < last:
            top = max(first_row + int(first < first_cut), 0)
            bottom = min(last_row + int(first < last_cut), rows)
            if top < bottom:
                start = top * span + first - low
                source = address + top * step + first * width
                _take_rows(room, start, span, bottom - top, step, source, last - first, width, shift, ways)
            first = last


@compiled()
def _take_rows(
    room: np.ndarray,
    start: int,
    span: int,
    rows: int,
    step: int,
    address: int,
    columns: int,
    width: int,
    shift: int,
    ways: np.ndarray,
) -> None:
    """Rows that begin `span` elements apart where they come to lie; steps and widths are in bytes, where they lie."""
    if ways.size:
        way, further = address - address_of(room) - start * width, step - span * width
        for row in range(rows):
            to = start + row * span
            for run in range(to >> shift, (to + columns) >> shift):
                ways[run] = way + row * further
    elif width == room.itemsize:
        length = columns * width
        for row in range(rows):
            if length <= _LONG:
                for line in range(0, length, LINE):
                    ask(address + (row + _AHEAD) * step + line)
            copy(room, start + row * span, address + row * step, columns)
    elif step == room.itemsize and abs(width) * columns > _NEAR:
        _turn(room, start, span, rows, address, columns, width)
    else:
        _copy_each(room, start, span, rows, step, address, columns, width)


@compiled()
def _copy_each(
    room: np.ndarray, start: int, span: int, rows: int, step: int, address: int, columns: int, width: int
) -> None:
    for row in range(rows):
        for column in range(columns):
            put(room, start + row * span + column, address + row * step + column * width)


@compiled()
def _turn(room: np.ndarray, start: int, span: int, rows: int, address: int, columns: int, width: int) -> None:
    """What lies in a row comes to lie in a column: square by square, as many as fill a line, then what sticks out."""
    step, side, band = room.itemsize, VECTOR // room.itemsize, LINE // room.itemsize
    whole_rows, whole_columns = rows // side * side, columns // band * band
    for first in range(0, whole_columns, band):
        source, to = address + first * width, start + first
        for top in range(0, whole_rows, side):
            if top % band == 0:
                for column in range(_BANDS * band, (_BANDS + 1) * band):
                    ask(source + column * width + top * step)
            for column in range(0, band, side):
                turn_square(room, to + top * span + column, span, source + top * step + column * width, width)
        low = source + whole_rows * step
        _copy_each(room, to + whole_rows * span, span, rows - whole_rows, step, low, band, width)
    right = address + whole_columns * width
    _copy_each(room, start + whole_columns, span, rows, step, right, columns - whole_columns, width)
