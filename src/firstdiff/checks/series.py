"""Checks over the steps and calls of one tensor: order, variation, and the share of elements that change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from firstdiff.checks.blocks import BLOCK, SlicedSource, comparable, index_of, windows
from firstdiff.checks.report import Failure
from firstdiff.checks.rows import in_order, order_words
from firstdiff.errors import UsageError
from firstdiff.trace import Key, Source, Tensor

Limits = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Moment:
    """A tensor at one step and call."""

    key: Key
    source: Source


@dataclass(frozen=True, slots=True)
class Series:
    """The same tensor at every step and call, in order."""

    name: str
    moments: tuple[Moment, ...]


def series_of(tensors: Sequence[Tensor], part: str | None) -> list[Series]:
    """Group tensors that differ in step and call only; `part` is the slice of each that is looked at."""
    groups: dict[str, list[Moment]] = {}
    for tensor in tensors:
        key = tensor.key
        source = tensor.values() if part is None else SlicedSource(tensor.values(), part)
        group = groups.setdefault(str(Key(key.name, key.role, key.slot, rank=key.rank)), [])
        group.append(Moment(key, source))
    ordered = {
        name: sorted(group, key=lambda moment: (moment.key.step, moment.key.call)) for name, group in groups.items()
    }
    return [Series(name, tuple(group)) for name, group in ordered.items()]


def check_monotone(series: Series, limits: Limits) -> Iterator[Failure]:
    """Compare every element with itself one step earlier."""
    _several(series, "give axis to look along an axis of the tensor instead")
    for before, after in pairwise(series.moments):
        if not _same_shape(before, after):
            yield _other_shape(before, after)
            continue
        count, first, value = 0, 0, None
        for start, values in windows(after.source):
            wrong = ~in_order(_window(before, start, values.size), values, limits)
            if wrong.any():
                if not count:
                    first, value = start + int(wrong.argmax()), values[int(wrong.argmax())].item()
                count += int(np.count_nonzero(wrong))
        if count:
            index = index_of(first, after.source.shape)
            shown = f"{value:.9g}" if isinstance(value, float) else value
            text = f"{shown} at {list(index)} {order_words(limits)} its value in {before.key}"
            yield Failure(str(after.key), index, value, count, text)


def check_varies(series: Series, _limits: Limits) -> Iterator[Failure]:
    """Fail where a call gives, bit for bit, what an earlier one gave."""
    _several(series, "varies compares the calls or steps of a tensor")
    seen: dict[bytes, Key] = {}
    for moment in series.moments:
        digest = hashlib.blake2b(repr((moment.source.shape, moment.source.dtype.name)).encode())
        for start in range(0, moment.source.size, BLOCK):
            digest.update(np.ascontiguousarray(_window(moment, start, BLOCK, raw=True)).data)
        earlier = seen.setdefault(digest.digest(), moment.key)
        if earlier is not moment.key:
            value = _window(moment, 0, 1)[0].item() if moment.source.size else None
            index = (0,) * len(moment.source.shape)
            text = f"has the same values as {earlier}: a generator that does not go on?"
            yield Failure(str(moment.key), index, value, moment.source.size, text)


@dataclass(frozen=True, slots=True)
class Band:
    """The shares of changed elements that a reference had, step by step."""

    low: tuple[float, ...]
    high: tuple[float, ...]


def check_changed(series: Series, other: Series | None, limits: Limits, band: Band | None) -> Iterator[Failure]:
    """Compare the share of elements that each step changes with a band.

    other: the tensor that holds each step's outcome; the next step's own values if None
    """
    changes = list(_changes(series, other))
    if band is not None and len(changes) != len(band.low):
        text = f"changes {len(changes)} times, but its band was measured over {len(band.low)} steps"
        yield Failure(series.name, None, len(changes), 1, text)
        return
    low, high = limits["low"] or 0.0, 1.0 if limits["high"] is None else limits["high"]
    for number, (before, after) in enumerate(changes):
        if not _same_shape(before, after):
            yield _other_shape(before, after)
            continue
        if band is not None:
            low, high = band.low[number], band.high[number]
        shares = changed_shares(before, after, limits["axis"])
        wrong = ~((shares >= low) & (shares <= high))
        if wrong.any():
            entry = int(wrong.argmax())
            share = float(shares[entry])
            index = None if limits["axis"] is None else (entry,)
            text = f"{share:.1%} of its elements change to {after.key}, where {low:.1%} to {high:.1%} do"
            yield Failure(str(before.key), index, share, int(np.count_nonzero(wrong)), text)


def measure_changes(series: Series, other: Series | None, axis: int | None) -> list[np.ndarray]:
    """Return the shares of each step, one per entry along the axis."""
    changes = list(_changes(series, other))
    for before, after in changes:
        if not _same_shape(before, after):
            raise UsageError(_other_shape(before, after).text)
    return [changed_shares(before, after, axis) for before, after in changes]


def changed_shares(before: Moment, after: Moment, axis: int | None) -> np.ndarray:
    """Return the share of elements that differ, in all or for each entry along an axis."""
    shape = before.source.shape
    if axis is not None and not -len(shape) <= axis < len(shape):
        raise UsageError(f"{before.key}: has the shape {list(shape)}, which has no axis {axis}")
    entries = 1 if axis is None else shape[axis]
    inner = before.source.size if axis is None else int(np.prod(shape[axis % len(shape) + 1 :], dtype=np.int64))
    counts = np.zeros(entries, np.int64)
    for start, values in windows(after.source):
        differs = np.flatnonzero(_window(before, start, values.size) != values) + start
        counts += np.bincount(differs // max(inner, 1) % max(entries, 1), minlength=entries)
    return counts / max(before.source.size // max(entries, 1), 1)


def _changes(series: Series, other: Series | None) -> Iterator[tuple[Moment, Moment]]:
    if other is None:
        _several(series, "changed compares its steps; give with to compare it with another tensor of the same step")
        yield from pairwise(series.moments)
        return
    outcomes = {(moment.key.step, moment.key.call): moment for moment in other.moments}
    for moment in series.moments:
        after = outcomes.get((moment.key.step, moment.key.call))
        if after is None:
            raise UsageError(f"{moment.key}: there is no {other.name} of the same step")
        yield moment, after


def _several(series: Series, otherwise: str) -> None:
    if len(series.moments) < 2:
        raise UsageError(f"{series.name}: was recorded once only; {otherwise}")


def _window(moment: Moment, start: int, size: int, *, raw: bool = False) -> np.ndarray:
    values = moment.source.window(start, min(start + size, moment.source.size))
    return values if raw else comparable(values)


def _same_shape(before: Moment, after: Moment) -> bool:
    return before.source.shape == after.source.shape


def _other_shape(before: Moment, after: Moment) -> Failure:
    reference, candidate = list(after.source.shape), list(before.source.shape)
    return Failure(str(after.key), None, reference, 1, f"has the shape {reference}, but {before.key} has {candidate}")
