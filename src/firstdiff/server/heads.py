"""The head of a comparison: all but its rows, and what there is to filter them by."""

from __future__ import annotations

import json
from typing import Any

from firstdiff.store.results import Result


def head_of(result: Result) -> dict[str, Any]:
    """The fields of `wire.Head`."""
    rows = json.loads(result.rows_text())["rows"]
    types = {row[side] for row in rows for side in ("reference_dtype", "candidate_dtype")} - {None}
    return {
        **result.head(),
        "layers": sorted({row["layer"] for row in rows} - {None}),
        "stages": list(dict.fromkeys(row["stage"] for row in rows if row["stage"])),
        "dtypes": sorted(types),
    }
