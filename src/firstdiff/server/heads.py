"""The head of a comparison: all but its rows, and what there is to filter them by."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from firstdiff.json_text import from_plain
from firstdiff.server.lines import RowLine
from firstdiff.store.results import Result


def head_of(result: Result) -> dict[str, Any]:
    """The fields of `wire.Head`."""
    return {**result.head(), **(result.choices() or _from_rows(result))}


def choices_of(lines: Iterable[RowLine]) -> dict[str, list[Any]]:
    """What there is to filter rows by: layers and types in their order, stages as they come."""
    rows = list(lines)
    types = {dtype for row in rows for dtype in (row.reference_dtype, row.candidate_dtype) if dtype is not None}
    return {
        "layers": sorted({row.layer for row in rows if row.layer is not None}),
        "stages": list(dict.fromkeys(row.stage for row in rows if row.stage)),
        "dtypes": sorted(types),
    }


def _from_rows(result: Result) -> dict[str, list[Any]]:
    """Of a result that an earlier version wrote."""
    return choices_of(from_plain(RowLine, row) for row in json.loads(result.rows_text())["rows"])
