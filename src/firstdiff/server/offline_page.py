"""Export a comparison as one HTML file: the page, the result and selected values, without a server."""

from __future__ import annotations

import base64
import gzip
import html
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from fastapi import Response

from firstdiff.errors import FirstdiffError, UsageError
from firstdiff.json_text import to_json
from firstdiff.readers import open_trace
from firstdiff.schema import Comparison
from firstdiff.server.context import Context, ServerSettings
from firstdiff.server.jobs import Jobs
from firstdiff.server.responses import little_endian
from firstdiff.server.result_tables import write_tables
from firstdiff.server.routes import comparisons, rows, values
from firstdiff.server.row_tensors import RowTensors
from firstdiff.server.submit import given_path
from firstdiff.store import Store
from firstdiff.store.entry import SideName
from firstdiff.trace import Source, Trace
from firstdiff.trace.order import OrderRule
from firstdiff.viewing import Cut, largest

_STATUS_ORDER = ("failed", "mismatch", "inconclusive", "missing", "extra", "rewritten", "match", "alone")


def by_worth(head: dict[str, Any], rows: list[dict[str, Any]]) -> list[int]:
    """Return the indices of all rows: divergences and origins first, then by status, the worst ratio first."""
    begun = [found["pair"] for found in _divergences(head)]
    origins = [row["index"] for row in rows if row.get("origin") == "introduced"]
    named = list(dict.fromkeys([*begun, *origins]))
    rest = sorted((row for row in rows if row["index"] not in set(named)), key=_worse_first)
    return [*named, *(row["index"] for row in rest)]


def _divergences(head: dict[str, Any]) -> list[dict[str, Any]]:
    first = [head["first_divergence"]] if head.get("first_divergence") else []
    return [*first, *head.get("divergences", [])]


def _worse_first(row: dict[str, Any]) -> tuple[int, float, int]:
    """Return the sort key of a row; a ratio stored as a string is not finite, and the worst."""
    ratio = row.get("ratio")
    size = math.inf if isinstance(ratio, str) else ratio or 0.0
    return _STATUS_ORDER.index(row["status"]), -size, row["index"]


# the parameters of the page's first requests when a view is opened
_LARGEST = 32
_BINS = 64
_LONGEST_PROFILE = 4096


def summary_responses(context: Context, comparison: str) -> dict[str, Any]:
    """Return the responses for the comparison and its list of rows."""
    return {
        "": _body_of(comparisons.get_comparison(comparison, context)),
        "/rows": _body_of(rows.list_rows(comparison, context)),
    }


def row_response(context: Context, comparison: str, row: int) -> dict[str, Any]:
    """Return the response for the details of a row."""
    return {f"/rows/{row}": _body_of(rows.get_row(comparison, row, context))}


def value_responses(context: Context, comparison: str, seen: RowTensors) -> dict[str, Any]:
    """Return the responses for the initial view of a row's values; those that cannot be read are left out."""
    row = seen.pair.index
    found: dict[str, Any] = {}
    for part, ask in _first_requests(context, comparison, seen):
        try:
            address = part if part.startswith("/depth") else f"/rows/{row}/{part}"
            found[address] = _body_of(ask())
        except FirstdiffError:
            continue
    return found


def _first_requests(
    context: Context, comparison: str, seen: RowTensors
) -> Iterator[tuple[str, Callable[[], Response]]]:
    """Yield the addresses below a row, their queries in alphabetical order, each with its route function."""
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
        yield address, lambda at=at: rows.follow_element(comparison, context, seen.pair.index, at)  # type: ignore[misc]


def _body_of(response: Response) -> Any:
    return json.loads(bytes(response.body))


# elements of the last two dimensions, more than a screen shows
_WINDOW = 128


@dataclass(frozen=True, slots=True)
class Block:
    """A box of a tensor on each side that is there.

    begin, shape: where the box lies; one number for each dimension
    sides: type and bytes, in C order
    """

    begin: tuple[int, ...]
    shape: tuple[int, ...]
    sides: dict[str, tuple[str, bytes]]


def blocks_of(seen: RowTensors, most_bytes: int) -> list[Block]:
    """Return the whole tensor if it fits, else the windows at its start and at the largest difference."""
    sources = _sources_of(seen)
    if not sources:
        return []
    shape = next(iter(sources.values())).shape
    width = sum(source.dtype.itemsize for source in sources.values())
    if prod(shape) * width <= most_bytes:
        return [_block(sources, Cut.whole(shape))]
    metrics = seen.pair.metrics
    worst = metrics.argmax if metrics and metrics.argmax and len(metrics.argmax) == len(shape) else None
    boxes = [_box_at(place, shape) for place in (worst, (0,) * len(shape)) if place is not None]
    taken = [box for place, box in enumerate(boxes) if box not in boxes[:place]]
    return [_block(sources, box) for box in taken if box.size * width <= most_bytes]


def _sources_of(seen: RowTensors) -> dict[str, Source]:
    """Return the sources in the layout of the comparison, or the only side as recorded."""
    if seen.shape is not None:
        reference, candidate = seen.both()
        third = seen.third_aligned()
        return {"reference": reference, "candidate": candidate} | ({"third": third} if third is not None else {})
    sides: tuple[SideName, ...] = ("reference", "candidate")
    there = [side for side in sides if seen.tensor(side) is not None]
    return {side: seen.original(side) for side in there[:1]}


def _box_at(index: tuple[int, ...], shape: tuple[int, ...]) -> Cut:
    """Return a window of the last two dimensions around an element."""
    parts = []
    for dim, (at, length) in enumerate(zip(index, shape, strict=True)):
        wide = min(length, _WINDOW if dim >= len(shape) - 2 else 1)
        begin = min(max(at - wide // 2, 0), length - wide)
        parts.append(range(begin, begin + wide))
    return Cut(tuple(parts))


def _block(sources: dict[str, Source], cut: Cut) -> Block:
    return Block(
        begin=tuple(part.start for part in cut.ranges),
        shape=cut.shape,
        sides={side: (source.dtype.name, little_endian(cut.read(source))) for side, source in sources.items()},
    )


MOST_BYTES = 10_000_000
_ASSETS = Path(__file__).parent / "static" / "shared"
_MOST_VALUE_BYTES = 5_000_000  # compressed
_MOST_OPENED = 2_000  # rows with details: more slow down a browser
_MOST_INSPECTED = 100
_SMALLEST_BLOCK = 1 << 12
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "form-action 'none'; base-uri 'none'"
)
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="app"></div>
<noscript>This page needs JavaScript; nothing in it asks anyone for anything.</noscript>
<script type="application/json" id="firstdiff-shared">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def shared_page(context: Context, comparison: str) -> str:
    """Return the comparison as one HTML text of less than 10 MB."""
    script, style = _read_asset("page.js"), _read_asset("page.css")
    answers = summary_responses(context, comparison)
    wanted = by_worth(answers[""]["comparison"], answers["/rows"]["rows"])
    for row in wanted[:_MOST_OPENED]:
        answers |= row_response(context, comparison, row)
    blocks: dict[str, list[dict[str, Any]]] = {}
    left = _MOST_VALUE_BYTES
    for row in wanted[:_MOST_INSPECTED]:
        try:
            seen = RowTensors(context, comparison, row)
            packed = [_packed_block(block) for block in blocks_of(seen, max(left // 4, _SMALLEST_BLOCK))]
        except FirstdiffError:  # a missing side: the row's details say so
            continue
        size = sum(len(block["packed"]) for block in packed)
        if packed and size <= left:
            left -= size
            answers |= value_responses(context, comparison, seen)
            blocks[str(row)] = packed
    entry = answers[""]["entry"]
    data = {"comparison": comparison, "answers": _compressed(to_json(answers).encode()), "blocks": blocks}
    text = _PAGE.format(
        policy=_CONTENT_POLICY,
        title=html.escape(f"{entry['name']} · firstdiff"),
        style=style.replace("</style", "<\\/style"),
        data=json.dumps(data).replace("<", "\\u003c"),
        script=script.replace("</script", "<\\/script").replace("<!--", "<\\!--"),
    )
    if len(text.encode()) >= MOST_BYTES:
        raise UsageError(
            f"a page of {len(wanted):,} rows does not fit into {MOST_BYTES // 1_000_000} MB; "
            "filter what is captured, or hand on the JSON report"
        )
    return text


def _read_asset(name: str) -> str:
    try:
        return (_ASSETS / name).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the page that goes into a shared file is not built ({_ASSETS / name}); run `make web`"
        ) from error


def _packed_block(block: Block) -> dict[str, Any]:
    """Encode the bytes of all sides, concatenated and compressed."""
    raw = b"".join(values for _, values in block.sides.values())
    sides = [{"side": side, "dtype": dtype, "bytes": len(values)} for side, (dtype, values) in block.sides.items()]
    return {"begin": block.begin, "shape": block.shape, "sides": sides, "packed": _compressed(raw)}


def _compressed(raw: bytes) -> str:
    return base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode()


def page_of(
    comparison: Comparison,
    reference: str | os.PathLike[str],
    candidate: str | os.PathLike[str],
    order: OrderRule | None = None,
) -> str:
    """Return the offline page of a comparison of two paths.

    order: the rule the two were opened with
    """
    paths: dict[SideName, str | os.PathLike[str]] = {"reference": reference, "candidate": candidate}
    sides = {side: given_path(os.fspath(path), side) for side, path in paths.items()}
    traces: dict[str, Trace] = {side: open_trace(path, order=order) for side, path in paths.items()}
    with tempfile.TemporaryDirectory(prefix="firstdiff-shared-") as home:
        store = Store(home)
        jobs = Jobs(store)
        try:
            made = store.comparisons.add("pair", sides, {}, None)
            owner = store.own()
            job = store.comparisons.claim(owner.id)
            assert job is not None, "it was added just now"
            outcome = write_tables(store.home.result(job.id, job.run), "pair", comparison, traces)
            store.comparisons.finish(job, owner.id, outcome)
            owner.close()
            return shared_page(Context(store, jobs, ServerSettings()), made)
        finally:
            jobs.close()
            store.close()
