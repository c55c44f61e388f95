"""Checks of single elements, and of what a tensor is: finite, range, positive, ids, equal, dtype, shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from firstdiff import dtypes
from firstdiff.checks.blocks import index_of, windows
from firstdiff.checks.report import Failure
from firstdiff.trace import Source

Limits = Mapping[str, Any]
ElementTest = Callable[[np.ndarray, int], np.ndarray]


def check_finite(key: str, source: Source, _limits: Limits) -> Iterator[Failure]:
    yield from _elements(key, source, lambda values, _: ~np.isfinite(values), "not finite")


def check_range(key: str, source: Source, limits: Limits) -> Iterator[Failure]:
    low, high = limits["min"], limits["max"]

    def outside(values: np.ndarray, _: int) -> np.ndarray:
        inside = np.ones(values.shape, bool)
        if low is not None:
            inside &= values >= low
        if high is not None:
            inside &= values <= high
        return ~inside  # NaN is not inside either

    if low is not None and high is not None:
        wanted = f"outside {low:g} to {high:g}"
    else:
        wanted = f"below {low:g}" if high is None else f"above {high:g}"
    yield from _ordered(key, source, outside, wanted)


def check_positive(key: str, source: Source, limits: Limits) -> Iterator[Failure]:
    if limits["allow_zero"]:
        yield from _ordered(key, source, lambda values, _: ~(values >= 0), "below 0")
    else:
        yield from _ordered(key, source, lambda values, _: ~(values > 0), "not positive")


def check_ids(key: str, source: Source, limits: Limits) -> Iterator[Failure]:
    size, allowed = limits["vocab_size"], limits["allow"]

    def invalid(values: np.ndarray, _: int) -> np.ndarray:
        valid: np.ndarray = (values >= 0) & (values < size)
        if values.dtype.kind == "f":
            valid &= values == np.floor(values)
        return np.asarray(~(valid | np.isin(values, allowed)) if allowed else ~valid)

    yield from _ordered(key, source, invalid, f"no id of a vocabulary of {size:,}")


def check_equal(key: str, source: Source, limits: Limits) -> Iterator[Failure]:
    expected = np.array(limits["values"])
    if source.size != expected.size:
        text = f"has {source.size:,} values, where {expected.size:,} are expected"
        yield Failure(key, None, list(source.shape), 1, text)
        return
    atol = limits["atol"]

    def differs(values: np.ndarray, start: int) -> np.ndarray:
        wanted = expected[start : start + values.size]
        with np.errstate(invalid="ignore"):  # inf - inf
            return np.asarray(~((np.abs(values - wanted) <= atol) | (values == wanted)))

    def wanted(flat: int) -> str:
        return f"not the expected {expected[flat]:.9g}"

    yield from _elements(key, source, differs, wanted)


def check_dtype(key: str, source: Source, limits: Limits) -> Iterator[Failure]:
    name = dtypes.name_of(source.dtype)
    if name not in limits["dtype"]:
        yield Failure(key, None, name, 1, f"is {name}, where {' or '.join(limits['dtype'])} is expected")


def check_shape(key: str, source: Source, limits: Limits, sizes: dict[str, tuple[int, str]]) -> Iterator[Failure]:
    """Compare a shape with a pattern such as `1 seq vocab`; `*` is any size and `...` any number of axes.

    sizes: what each name of a pattern stands for and where that is from; new names are added
    """
    parts = limits["shape"].replace(",", " ").strip("[]() ").split()
    shape = source.shape
    found: dict[str, tuple[int, str]] = {}
    if "..." in parts:
        place = parts.index("...")
        after = len(parts) - place - 1
        fits = len(shape) >= len(parts) - 1
        pairs = [
            *zip(parts[:place], shape, strict=False),
            *zip(parts[place + 1 :], shape[len(shape) - after :], strict=False),
        ]
    else:
        fits = len(parts) == len(shape)
        pairs = list(zip(parts, shape, strict=False))
    if not fits:
        yield Failure(key, None, list(shape), 1, f"has the shape {list(shape)}, which {limits['shape']!r} does not fit")
        return
    for part, size in pairs:
        if part == "*" or (part.isdigit() and int(part) == size):
            continue
        known = None if part.isdigit() else {**sizes, **found}.get(part)
        if not part.isdigit() and known is None:
            found[part] = (size, key)
        elif known is None or known[0] != size:
            why = f", where {part} is {known[0]} ({known[1]})" if known else ""
            text = f"has the shape {list(shape)}, which {limits['shape']!r} does not fit{why}"
            yield Failure(key, None, list(shape), 1, text)
            return
    sizes.update(found)


def _ordered(key: str, source: Source, fails: ElementTest, wanted: str) -> Iterator[Failure]:
    if source.dtype.kind == "c":
        yield Failure(key, None, source.dtype.name, 1, f"is {source.dtype.name}, whose values have no order")
        return
    yield from _elements(key, source, fails, wanted)


def _elements(key: str, source: Source, fails: ElementTest, wanted: str | Callable[[int], str]) -> Iterator[Failure]:
    """Yield one failure with the first element that fails and how many do."""
    count, first, value = 0, 0, None
    for start, values in windows(source):
        failed = fails(values, start)
        if failed.any():
            if not count:
                place = int(failed.argmax())
                first, value = start + place, values[place].item()
            count += int(np.count_nonzero(failed))
    if count:
        index = index_of(first, source.shape)
        words = wanted if isinstance(wanted, str) else wanted(first)
        more = f"; {count:,} of {source.size:,} elements fail" if count > 1 and isinstance(wanted, str) else ""
        if count > 1 and not more:
            more = f"; {count:,} of {source.size:,} elements differ"
        yield Failure(key, index, value, count, f"{shown_number(value)} at {list(index)} is {words}{more}")


def shown_number(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)
