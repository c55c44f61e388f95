"""Write the offline page: script, style and data in one HTML file below a size limit."""

from __future__ import annotations

import base64
import gzip
import html
import json
from pathlib import Path
from typing import Any

from firstdiff.errors import FirstdiffError, UsageError
from firstdiff.json_text import to_json
from firstdiff.server.context import Context
from firstdiff.server.row_tensors import RowTensors
from firstdiff.server.sharing.answers import heading, inspected_row, opened_row
from firstdiff.server.sharing.blocks import Block, blocks_of
from firstdiff.server.sharing.worth import by_worth

MOST_BYTES = 10_000_000
_BUILT = Path(__file__).parent.parent / "static" / "shared"
_FOR_VALUES = 5_000_000  # packed bytes
_MOST_OPENED = 2_000  # rows in full: more would keep a browser busy
_MOST_INSPECTED = 100
_SMALLEST_BLOCK = 1 << 12
_NOWHERE = (
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
    """The comparison as one HTML text of less than 10 MB."""
    script, style = _built("page.js"), _built("page.css")
    answers = heading(context, comparison)
    wanted = by_worth(answers[""]["comparison"], answers["/rows"]["rows"])
    for row in wanted[:_MOST_OPENED]:
        answers |= opened_row(context, comparison, row)
    blocks: dict[str, list[dict[str, Any]]] = {}
    left = _FOR_VALUES
    for row in wanted[:_MOST_INSPECTED]:
        try:
            seen = RowTensors(context, comparison, row)
            packed = [_packed(block) for block in blocks_of(seen, max(left // 4, _SMALLEST_BLOCK))]
        except FirstdiffError:  # a side that is gone: its row in full says so
            continue
        size = sum(len(block["packed"]) for block in packed)
        if packed and size <= left:
            left -= size
            answers |= inspected_row(context, comparison, seen)
            blocks[str(row)] = packed
    entry = answers[""]["entry"]
    data = {"comparison": comparison, "answers": _squeezed(to_json(answers).encode()), "blocks": blocks}
    text = _PAGE.format(
        policy=_NOWHERE,
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


def _built(name: str) -> str:
    try:
        return (_BUILT / name).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the page that goes into a shared file is not built ({_BUILT / name}); run `make web`"
        ) from error


def _packed(block: Block) -> dict[str, Any]:
    """The sides' bytes one behind the other."""
    raw = b"".join(values for _, values in block.sides.values())
    sides = [{"side": side, "dtype": dtype, "bytes": len(values)} for side, (dtype, values) in block.sides.items()]
    return {"begin": block.begin, "shape": block.shape, "sides": sides, "packed": _squeezed(raw)}


def _squeezed(raw: bytes) -> str:
    return base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode()
