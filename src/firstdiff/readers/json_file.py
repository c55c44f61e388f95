"""JSON files: nested lists of numbers as tensors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from math import prod
from typing import Any, final

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob
from firstdiff.readers.format import Format, Found
from firstdiff.readers.sources import check_possible
from firstdiff.trace import HEADER, ArraySource, Source

_NON_FINITE = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
_MAX_DIMS = 32
_EXACT = 1 << 53
_WIDEST = 8


def to_array(value: Any, dtype: Any = None, shape: Any = None) -> np.ndarray:
    """The array of a number or of nested lists.

    dtype: the name of an element type to convert to
    shape: the shape of the result, for values that are a flat list
    """
    flat, found = _flattened(value)
    array = _numbers(flat)
    if dtype is not None:
        array = _converted(array, dtype)
    return array.reshape(found if shape is None else _checked_shape(shape, found))


def _flattened(value: Any) -> tuple[list[Any], tuple[int, ...]]:
    """The numbers in C order, and the shape; level by level, so that depth costs nothing."""
    level, shape = [value], list[int]()
    while (kinds := set(map(type, level))) == {list}:
        lengths = set(map(len, level))
        if len(lengths) > 1:
            raise ReadError(
                f"is ragged: lists of {min(lengths):,} and of {max(lengths):,} values side by side {_depth(shape)}"
            )
        shape.append(lengths.pop())
        level = list(chain.from_iterable(level))
        if len(shape) > _MAX_DIMS:
            raise ReadError(f"is lists nested more than {_MAX_DIMS} deep")
    if list in kinds:
        raise ReadError(f"is ragged: lists and single values side by side {_depth(shape)}")
    return level, tuple(shape)


def _depth(shape: list[int]) -> str:
    return f"at depth {len(shape)}"


def _numbers(flat: list[Any]) -> np.ndarray:
    kinds = set(map(type, flat))
    if kinds == {bool}:
        return np.array(flat, bool)
    if kinds == {int}:
        return _whole_numbers(flat)
    if not kinds <= {int, float, str}:
        raise ReadError(_misfit(kinds))
    return _floats(flat, kinds)


def _misfit(kinds: set[type]) -> str:
    if type(None) in kinds:
        return 'holds null, which is no number; write "nan" where a value is not a number'
    if kinds <= {bool, int, float, str}:
        return "mixes true and false with numbers"
    return "holds objects inside lists; give each tensor a name of its own"


def _whole_numbers(flat: list[int]) -> np.ndarray:
    for dtype in (np.int64, np.uint64):
        try:
            return np.array(flat, dtype)
        except OverflowError:
            continue
    raise ReadError(f"holds whole numbers from {_shown(min(flat))} to {_shown(max(flat))}, which fit no 64-bit integer")


def _floats(flat: list[Any], kinds: set[type]) -> np.ndarray:
    if int in kinds:
        for number in flat:
            if type(number) is int and abs(number) > _EXACT and not _is_exact(number):
                raise ReadError(f"mixes {_shown(number)} with fractions, and as float64 it would lose digits")
    infinite = 0
    if str in kinds:
        stray = next((text for text in flat if type(text) is str and text not in _NON_FINITE), None)
        if stray is not None:
            raise ReadError(f'holds the text {stray!r:.40}; only "nan", "inf" and "-inf" stand for numbers')
        infinite = flat.count("inf") + flat.count("-inf")
        flat = [_NON_FINITE[value] if type(value) is str else value for value in flat]
    array = np.array(flat, np.float64)
    if np.count_nonzero(np.isinf(array)) > infinite:
        raise ReadError('holds a number beyond float64; write "inf" or "-inf" where infinity is meant')
    return array


def _is_exact(number: int) -> bool:
    try:
        return float(number) == number
    except OverflowError:
        return False


def _shown(number: int) -> str:
    text = str(number)
    return text if len(text) <= 40 else f"{text[:20]}… ({len(text):,} digits)"


def _converted(array: np.ndarray, name: Any) -> np.ndarray:
    if not isinstance(name, str) or not dtypes.known(name) or dtypes.kind_of(dtypes.from_name(name)) == "complex":
        raise ReadError(f"has the dtype {name!r:.40}, which JSON numbers cannot be converted to")
    dtype = dtypes.from_name(name)
    with np.errstate(all="ignore"):
        result = array.astype(dtype)
        if dtypes.kind_of(dtype) == "float":
            fits = np.array_equal(np.isfinite(array), np.isfinite(result.astype(np.float64)))
        else:
            fits = np.array_equal(array, result)
    if not fits:
        raise ReadError(f"holds values that do not fit its dtype {name}")
    return result


def _checked_shape(shape: Any, found: tuple[int, ...]) -> tuple[int, ...]:
    if not (isinstance(shape, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in shape)):
        raise ReadError(f"has the shape {shape!r:.40}, which is no list of whole numbers")
    check_possible(tuple(shape), _WIDEST)
    if prod(shape) != prod(found) or (len(found) > 1 and tuple(shape) != found):
        raise ReadError(f"has the shape {shape!s:.40}, but its data has the shape {list(found)}")
    return tuple(shape)


_MAX_BYTES = 512 << 20
_MARK = b"\xef\xbb\xbf"
_NON_FINITE_TEXT = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}


@final
class _Object(list[tuple[str, Any]]):
    """A JSON object as it was written: a name may come twice."""

    @property
    def fields(self) -> dict[str, Any]:
        return dict(self)

    def is_tensor(self) -> bool:
        names = {name for name, _ in self}
        return "data" in names and len(names) > 1 and names <= {"data", "shape", "dtype"}


def _open(blob: Blob) -> list[Found]:
    leaves = list(_leaves(_parse(blob)))
    counts = Counter(name for name, _ in leaves)
    found = [_tensor(name, value) for name, value in leaves if counts[name] == 1]
    return found + [
        Found(name, ReadError(f"is in the file {count} times, so it is not clear which one counts"))
        for name, count in counts.items()
        if count > 1
    ]


def _parse(blob: Blob) -> Any:
    if blob.size > _MAX_BYTES:
        raise ReadError(f"is {blob.size:,} bytes of JSON, which is read whole; convert what is over 512 MB to .npy")
    try:
        text = blob.read(0, blob.size).removeprefix(_MARK).decode("utf-8")
        return json.loads(text, object_pairs_hook=_Object, parse_constant=_NON_FINITE_TEXT.__getitem__)
    except UnicodeDecodeError as error:
        raise ReadError(f"is not JSON: byte {error.start:,} is not UTF-8 text") from error
    except json.JSONDecodeError as error:
        raise ReadError(f"is not JSON: {error.msg} at line {error.lineno:,}, column {error.colno:,}") from error
    except RecursionError as error:
        raise ReadError("is JSON that is nested too deeply to be a tensor") from error
    except ValueError as error:
        raise ReadError("holds a number with thousands of digits, which fits no tensor") from error


def _leaves(root: Any) -> Iterator[tuple[str, Any]]:
    """Named values, in the order of the file."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), root)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, _Object) and not value.is_tensor():
            waiting.extend(((*path, name), inner) for name, inner in reversed(value))
        else:
            # half of a surrogate pair is no text, and would fail when it is shown
            yield ".".join(path).encode("utf-8", "backslashreplace").decode("utf-8"), value


def _tensor(name: str, value: Any) -> Found:
    try:
        return Found(name, _source(value))
    except ReadError as error:
        return Found(name, error)


def _source(value: Any) -> Source:
    if not isinstance(value, _Object):
        return ArraySource(to_array(value))
    fields = value.fields
    if len(fields) < len(value):
        raise ReadError("has data, shape or dtype twice, so it is not clear which one counts")
    return ArraySource(to_array(fields["data"], fields.get("dtype"), fields.get("shape")))


def _sniff(blob: Blob) -> bool:
    if blob.suffix != ".json" or blob.name.rpartition("/")[2] == HEADER:
        return False
    first = blob.head(256).removeprefix(_MARK).lstrip()[:1]
    return first.isdigit() or first in (b"[", b"{", b"-")


FORMAT = Format("json", (".json",), _sniff, _open)
