"""Route: one element through all layers."""

from __future__ import annotations

import json
import re
from typing import Any

from fastapi import APIRouter, Response

from firstdiff.errors import FirstdiffError
from firstdiff.measure.numerics import scalar
from firstdiff.server.context import Shared
from firstdiff.server.responses import answer
from firstdiff.server.row_tensors import RowTensors
from firstdiff.trace import Source
from firstdiff.viewing import Cut

router = APIRouter(prefix="/comparisons/{comparison}")

_MOST = 1024


@router.get("/depth")
def follow_element(comparison: str, context: Shared, row: int, at: str) -> Response:
    """The element at an index in every row that is the same tensor of another layer."""
    lines: list[dict[str, Any]] = json.loads(context.result(comparison).rows_text())["rows"]
    wanted = next((line for line in lines if line["index"] == row), None)
    alike = [line for line in lines if wanted and _pattern(line) == _pattern(wanted)][:_MOST]
    points = [_point(RowTensors(context, comparison, line["index"]), line, at) for line in alike]
    return answer({"points": [point for point in points if point is not None]})


def _pattern(line: dict[str, Any]) -> str:
    """The key with its layer left out."""
    key = str(line["key"])
    return key if line["layer"] is None else re.sub(rf"(?<!\d)0*{line['layer']}(?!\d)", "*", key, count=1)


def _point(seen: RowTensors, line: dict[str, Any], at: str) -> dict[str, Any] | None:
    """None where the tensor of that layer has no such element."""
    try:
        reference, candidate = seen.both()
        cut = Cut.parse(at, reference.shape)
        values = [_number(source, cut) for source in (reference, candidate)]
    except FirstdiffError:
        return None
    return {
        "index": line["index"],
        "key": line["key"],
        "layer": line["layer"],
        "reference": values[0],
        "candidate": values[1],
        "third": _third(seen, cut),
    }


def _third(seen: RowTensors, cut: Cut) -> float | None:
    """None where there is none, or it cannot be read: the other two are followed all the same."""
    try:
        source = seen.third_aligned()
        return None if source is None else _number(source, cut)
    except FirstdiffError:
        return None


def _number(source: Source, cut: Cut) -> float:
    found = scalar(cut.read(source))
    return abs(found) if isinstance(found, complex) else float(found)
