"""Checks of rows along an axis: sums, norms, order, repeated values, constant rows and uniform logits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np

from firstdiff.checks.blocks import BLOCK, RowBlock, RowShape, row_blocks
from firstdiff.checks.report import Failure
from firstdiff.errors import UsageError
from firstdiff.trace import Source

Limits = Mapping[str, Any]


@final
class _Tally:
    """Count rows that fail and remember the first."""

    def __init__(self, rows: RowShape) -> None:
        self.rows = rows
        self.count = 0
        self.index: tuple[int, ...] | None = None
        self.value: Any = None

    def add(self, failed: np.ndarray, values: np.ndarray, block: RowBlock, positions: np.ndarray | None = None) -> None:
        """Add rows [outer, inner] that fail, with what was found in each and, where known, at which element."""
        if not failed.any():
            return
        if not self.count:
            outer, inner = (int(part) for part in np.unravel_index(int(failed.argmax()), failed.shape))
            place = None if positions is None else int(positions[outer, inner])
            self.index = self.rows.index(block.outer + outer, block.inner + inner, place)
            self.value = values[outer, inner].item()
        self.count += int(np.count_nonzero(failed))

    def failures(self, key: str, text: str) -> Iterator[Failure]:
        if self.count:
            total = self.rows.outer * self.rows.inner
            more = f"; {self.count:,} of {total:,} rows fail" if self.count > 1 else ""
            yield Failure(key, self.index, self.value, self.count, text + more)


def check_sum(key: str, source: Source, limits: Limits) -> Iterator[Failure]:
    yield from _reduced(key, source, limits, "sums to", squared=False)


def check_norm(key: str, source: Source, limits: Limits) -> Iterator[Failure]:
    yield from _reduced(key, source, limits, "has the norm", squared=True)


def _reduced(key: str, source: Source, limits: Limits, verb: str, *, squared: bool) -> Iterator[Failure]:
    rows = RowShape.of(source.shape, limits["axis"])
    tally = _Tally(rows)
    total = np.zeros((0, 0))
    with np.errstate(all="ignore"):  # NaN and overflow fail below
        for block in row_blocks(source, rows):
            values = _wide(block.values)
            part = (np.abs(values) ** 2 if squared else values).sum(axis=1)
            total = total + part if block.position else part
            if block.is_last:
                found = np.sqrt(total) if squared else total
                tally.add(~(np.abs(found - limits["value"]) <= limits["atol"]), found, block)
    wanted = f"{limits['value']:g} within {limits['atol']:g} is expected"
    yield from tally.failures(key, f"the row at {_row(tally, rows)} {verb} {_shown(tally.value)}, where {wanted}")


def check_no_constant_rows(key: str, source: Source, limits: Limits) -> Iterator[Failure]:
    rows = RowShape.of(source.shape, limits["axis"])
    if rows.length < 2:
        raise UsageError(f"has the shape {list(source.shape)}: rows of {rows.length} elements are always constant")
    tally = _Tally(rows)
    first = np.zeros((0, 0))
    same = np.zeros((0, 0), bool)
    for block in row_blocks(source, rows):
        if not block.position:
            first, same = block.values[:, 0], np.ones((block.values.shape[0], block.values.shape[2]), bool)
        equal = (block.values == first[:, None]) | (np.isnan(block.values) & np.isnan(first)[:, None])
        same &= equal.all(axis=1)
        if block.is_last:
            tally.add(same, first, block)
    yield from tally.failures(key, f"every value of the row at {_row(tally, rows)} is {_shown(tally.value)}")


def check_not_uniform(key: str, source: Source, limits: Limits) -> Iterator[Failure]:
    """Fail where logits hardly differ: their mean deviation along the axis is below a limit."""
    rows = RowShape.of(source.shape, limits["axis"])
    total, count = 0.0, 0
    flattest: tuple[float, tuple[int, ...]] | None = None
    mean = squares = np.zeros((0, 0))
    seen = 0
    with np.errstate(all="ignore"):
        for block in row_blocks(source, rows):
            values = _wide(block.values)
            part_mean = values.mean(axis=1)
            part_squares = (np.abs(values - part_mean[:, None]) ** 2).sum(axis=1)
            size = values.shape[1]
            if block.position:  # Chan's merge of two means and sums of squared deviations
                gap = part_mean - mean
                squares = squares + part_squares + np.abs(gap) ** 2 * (seen * size / (seen + size))
                mean, seen = mean + gap * (size / (seen + size)), seen + size
            else:
                mean, squares, seen = part_mean, part_squares, size
            if block.is_last:
                deviation = np.sqrt(squares / seen)
                total, count = total + float(deviation.sum()), count + deviation.size
                outer, inner = np.unravel_index(
                    int(np.nanargmin(np.nan_to_num(deviation, nan=np.inf))), deviation.shape
                )
                if flattest is None or deviation[outer, inner] < flattest[0]:
                    index = rows.index(block.outer + int(outer), block.inner + int(inner))
                    flattest = float(deviation[outer, inner]), index
    if count and not total / count >= limits["min_std"]:  # NaN fails, too
        mean_deviation = total / count
        text = f"the mean standard deviation of its rows is {mean_deviation:.3g}, below {limits['min_std']:g}: "
        text += "nearly uniform, as if the weights had not been loaded"
        if not np.isfinite(mean_deviation):
            text = "has rows that are not finite, so that their deviation is no number"
        yield Failure(key, flattest[1] if flattest else None, mean_deviation, count, text)


def check_monotone_along(key: str, source: Source, limits: Limits) -> Iterator[Failure]:
    rows = RowShape.of(source.shape, limits["axis"])
    tally = _Tally(rows)
    joined = np.zeros((0, 0, 0))
    failed: np.ndarray = np.zeros((0, 0), bool)
    places: np.ndarray = np.zeros((0, 0), np.intp)
    found: np.ndarray = np.zeros((0, 0))
    for block in row_blocks(source, rows):
        # the piece before lends its last element, so that nothing falls between two pieces
        joined = np.concatenate([joined[:, -1:], block.values], axis=1) if block.position else block.values
        offset = block.position + block.values.shape[1] - joined.shape[1]
        wrong, at, values = _first_out_of_order(joined, limits)
        if block.position:
            fresh = wrong & ~failed
            found, places = np.where(fresh, values, found), np.where(fresh, at + offset, places)
            failed = failed | wrong
        else:
            failed, places, found = wrong, at + offset, values
        if block.is_last:
            tally.add(failed, found, block, places)
    text = f"{_shown(tally.value)} at {list(tally.index or ())} {order_words(limits)} the value before it"
    yield from tally.failures(key, text)


def _first_out_of_order(values: np.ndarray, limits: Limits) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each row whether it is out of order, at which element first, and the value there."""
    wrong = ~in_order(values[:, :-1], values[:, 1:], limits)
    padded = np.concatenate([np.zeros_like(wrong, shape=(wrong.shape[0], 1, wrong.shape[2])), wrong], axis=1)
    at = padded.argmax(axis=1)
    return np.asarray(padded.any(axis=1)), at, np.take_along_axis(values, at[:, None], axis=1)[:, 0]


def in_order(before: np.ndarray, after: np.ndarray, limits: Limits) -> np.ndarray:
    """Return True where two values follow each other as the rule says; NaN never does."""
    if limits["direction"] == "up":
        return np.asarray(after > before if limits["strict"] else after >= before)
    return np.asarray(after < before if limits["strict"] else after <= before)


def order_words(limits: Limits) -> str:
    words = {("up", False): "is below", ("up", True): "is not above", ("down", False): "is above"}
    return words.get((limits["direction"], limits["strict"]), "is not below")


def check_unique(key: str, source: Source, limits: Limits) -> Iterator[Failure]:
    rows = RowShape.of(source.shape, limits["axis"])
    tally = _Tally(rows)
    if rows.length * rows.inner <= BLOCK:
        for block in row_blocks(source, rows):
            ordered = np.sort(block.values, axis=1)
            again = ordered[:, 1:] == ordered[:, :-1]
            if again.shape[1]:
                at = again.argmax(axis=1)
                tally.add(again.any(axis=1), np.take_along_axis(ordered, at[:, None], axis=1)[:, 0], block)
    else:
        for outer in range(rows.outer):
            for inner in range(rows.inner):
                _unique_long(source, rows, outer, inner, tally)
    text = f"{_shown(tally.value)} occurs more than once in the row at {_row(tally, rows)}"
    yield from tally.failures(key, text)


def _unique_long(source: Source, rows: RowShape, outer: int, inner: int, tally: _Tally) -> None:
    """Look for repeats in a row that is too long to hold: in parts, each with the values of one share of all bits."""
    parts = -(-rows.length // BLOCK)
    for part in range(parts):
        kept = [values[_share(values, parts) == part] for values in _pieces(source, rows, outer, inner)]
        ordered = np.sort(np.concatenate(kept))
        again = ordered[1:] == ordered[:-1]
        if again.any():
            found = np.array([[ordered[int(again.argmax())]]])
            block = RowBlock(found[None], outer, inner, 0, True)
            tally.add(np.ones((1, 1), bool), found, block)
            return


def _pieces(source: Source, rows: RowShape, outer: int, inner: int) -> Iterator[np.ndarray]:
    from firstdiff.checks.blocks import comparable

    start = outer * rows.length * rows.inner
    step = max(1, BLOCK // rows.inner)
    for position in range(0, rows.length, step):
        stop = min(position + step, rows.length)
        flat = source.window(start + position * rows.inner, start + stop * rows.inner)
        yield comparable(flat)[inner :: rows.inner]


def _share(values: np.ndarray, parts: int) -> np.ndarray:
    """Return a number below `parts` that is the same for equal values."""
    # -0.0 equals 0.0, but has other bits
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64) + 0.0
    bits = wide.view(np.uint64).reshape(values.size, -1)
    mixed = (bits * np.uint64(0x9E3779B97F4A7C15)).sum(axis=1, dtype=np.uint64) >> np.uint64(32)
    return np.asarray(mixed % np.uint64(parts))


def _wide(values: np.ndarray) -> np.ndarray:
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64, copy=False)


def _row(tally: _Tally, rows: RowShape) -> str:
    """Show the index of a row, with `:` along its axis."""
    parts = [str(part) for part in tally.index or ()]
    if parts:
        parts[rows.axis] = ":"
    return f"[{', '.join(parts)}]"


def _shown(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)
