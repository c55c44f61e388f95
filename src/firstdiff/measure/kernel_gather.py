"""Bringing scattered values together, a piece at a time, so that they are still in the cache when they are measured.

A box is gone through panel by panel: two of its axes, the last one and the one that lies closest in memory. The others
are counted through like the digits of a number.
"""

from __future__ import annotations

import numpy as np

from firstdiff.measure.kernel_lanes import compiled
from firstdiff.measure.kernel_moves import ask, copy, put, turn_square
from firstdiff.measure.kernel_places import (
    ADDRESS,
    AXIS,
    BLOCK,
    BOX,
    END,
    LEADING,
    LENGTH,
    LINE,
    ORIGIN,
    ROW,
    SPAN,
    STEP,
    VECTOR,
)

_AHEAD = 4  # rows from what is copied to what is asked for
_BANDS = 2  # the same, of bands that are turned
_LONG = 1024  # bytes of a row that memory is brought in for unasked
_NEAR = 1 << 13  # bytes that stay in the cache whatever the order they are read in


@compiled()
def arrived(
    side: np.ndarray,
    boxes: np.ndarray,
    start: int,
    first: int,
    size: int,
    begun: int,
    digits: np.ndarray,
    coming: np.ndarray,
) -> int:
    """Where in the window the values begin that are at hand; the next ones are brought where these are at an end."""
    if boxes.shape[0] == 0:
        return 0
    if 0 < first < begun + side.size:
        return begun
    gather(side, boxes, start + first, start + min(first + side.size, size), digits, coming[:0])
    return first


@compiled()
def announced(
    side: np.ndarray, boxes: np.ndarray, start: int, stop: int, size: int, digits: np.ndarray, coming: np.ndarray
) -> None:
    """Write down where the rows of the next block come from, if they lie in rows of memory and are not yet gathered."""
    if boxes.shape[0] == 0:
        return
    coming[:] = 0
    columns = boxes[0, boxes.shape[1] - AXIS :]
    if side.size == BLOCK and stop < size and columns[STEP] == side.itemsize and columns[LENGTH] >= ROW:
        gather(side, boxes, start + stop, start + min(stop + BLOCK, size), digits, coming)


@compiled()
def gather(room: np.ndarray, boxes: np.ndarray, begin: int, end: int, digits: np.ndarray, coming: np.ndarray) -> None:
    """Elements `begin` to `end` of the C order; or, if there is room for that, only where they will come from."""
    for number in range(boxes.shape[0]):
        if boxes[number, ORIGIN] < end and begin < boxes[number, END]:
            _gather_box(room, boxes[number], begin, end, digits, coming)


@compiled()
def _gather_box(
    room: np.ndarray, box: np.ndarray, begin: int, end: int, digits: np.ndarray, coming: np.ndarray
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
        _gather_panel(room, box[BOX + AXIS * outer :], place, address, begin, end, coming)
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
    room: np.ndarray, panel: np.ndarray, place: int, address: int, begin: int, end: int, coming: np.ndarray
) -> None:
    """What lies between the bounds of the rows of a panel, the first of which is at a place of the C order.

    Where a bound is inside a row, columns before and after it have rows of their own.
    """
    rows, step, span = panel[LENGTH], panel[STEP], panel[SPAN]
    columns, width = panel[AXIS + LENGTH], panel[AXIS + STEP]
    low, high = begin - place, end - place
    if low <= 0 and (rows - 1) * span + columns <= high:
        _take_rows(room, -low, span, rows, step, address, columns, width, coming)
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
                _take_rows(room, start, span, bottom - top, step, source, last - first, width, coming)
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
    coming: np.ndarray,
) -> None:
    """Rows that begin `span` elements apart where they come to lie; steps and widths are in bytes, where they lie."""
    if coming.size:
        for row in range(rows):
            to = start + row * span
            for at in range(-(-to // ROW) * ROW, to + columns, ROW):
                coming[at // ROW] = address + row * step + (at - to) * width
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
