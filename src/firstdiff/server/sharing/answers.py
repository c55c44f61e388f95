"""Stored responses for the offline page, equal to those of the server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from fastapi import Response

from firstdiff.errors import FirstdiffError
from firstdiff.server.context import Context
from firstdiff.server.routes import comparisons, depth, rows, values
from firstdiff.server.row_tensors import RowTensors
from firstdiff.viewing import largest

# what the page asks for when a view is opened, before anything is moved
_LARGEST = 32  # however many the page would like
_BINS = 64
_LONGEST_PROFILE = 4096


def heading(context: Context, comparison: str) -> dict[str, Any]:
    """The comparison itself and its rows in short."""
    return {
        "": _plain(comparisons.get_comparison(comparison, context)),
        "/rows": _plain(rows.list_rows(comparison, context)),
    }


def opened_row(context: Context, comparison: str, row: int) -> dict[str, Any]:
    """One row in full."""
    return {f"/rows/{row}": _plain(rows.get_row(comparison, row, context))}


def inspected_row(context: Context, comparison: str, seen: RowTensors) -> dict[str, Any]:
    """Return the responses for the initial view of a row's values; those that cannot be read are left out."""
    row = seen.pair.index
    found: dict[str, Any] = {}
    for part, ask in _asked(context, comparison, seen):
        try:
            address = part if part.startswith("/depth") else f"/rows/{row}/{part}"
            found[address] = _plain(ask())
        except FirstdiffError:
            continue
    return found


def _asked(context: Context, comparison: str, seen: RowTensors) -> Iterator[tuple[str, Callable[[], Response]]]:
    """Parts of the row's address, their queries in alphabetical order, and who answers."""
    yield "inspect", lambda: values.inspect_row(seen)
    shape = seen.shape
    if shape is None:
        return
    sides = "reference,candidate" if seen.third_aligned() is None else "reference,candidate,third"
    yield "largest", lambda: values.largest_of_row(seen, _LARGEST)
    yield f"histogram?bins={_BINS}&sides={sides}", lambda: values.histogram_row(seen, sides, None, _BINS)
    for dim, length in enumerate(shape):
        if length <= _LONGEST_PROFILE:
            yield f"profile?dim={dim}", lambda dim=dim: values.profile_row(seen, dim)  # type: ignore[misc]
    places = [(0,) * len(shape), *(element.index for element in largest(*seen.both(), 1))]
    for at in dict.fromkeys(",".join(map(str, place)) for place in places):
        address = f"/depth?at={at}&row={seen.pair.index}"
        yield address, lambda at=at: depth.follow_element(comparison, context, seen.pair.index, at)  # type: ignore[misc]


def _plain(response: Response) -> Any:
    return json.loads(bytes(response.body))
