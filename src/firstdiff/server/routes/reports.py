"""Routes of reports to take away."""

from __future__ import annotations

from fastapi import APIRouter, Response

from firstdiff.reports import report_named
from firstdiff.server.context import Shared
from firstdiff.server.offline_page import shared_page
from firstdiff.server.responses import download
from firstdiff.server.schemas import ReportFormat

router = APIRouter()
_KINDS: dict[ReportFormat, tuple[str, str]] = {
    "json": ("json", "application/json"),
    "md": ("md", "text/markdown"),
    "junit": ("xml", "application/xml"),
    "html": ("html", "text/html"),
}


@router.get("/comparisons/{comparison}/report", response_class=Response)
def get_report(comparison: str, context: Shared, format: ReportFormat = "json") -> Response:
    result = context.result(comparison)
    ending, media_type = _KINDS[format]
    if format == "html":
        text = shared_page(context, comparison)
    else:
        text = "".join(report_named(format).render(context.opened.comparison(comparison, result)))
    return download(text, f"firstdiff-{comparison}.{ending}", media_type)
