"""Read JSON: nested lists of numbers, or objects of such lists; parsed whole, since the shapes need all of it.

An object with `data` and `shape` or `dtype` (and nothing else) is one tensor; any other object holds named ones, and
names inside names are joined by dots. Whole numbers become int64 (uint64 where they need it), others float64.
A list that mixes whole numbers with others is float64, and fails if a whole number would lose digits by that.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, final

from firstdiff.errors import ReadError
from firstdiff.readers.blob import Blob
from firstdiff.readers.format import Format, Found
from firstdiff.readers.json_numbers import to_array
from firstdiff.trace import HEADER, ArraySource, Source

_MAX_BYTES = 512 << 20
_MARK = b"\xef\xbb\xbf"
_NON_FINITE = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}


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
        return json.loads(text, object_pairs_hook=_Object, parse_constant=_NON_FINITE.__getitem__)
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
