"""Routes of saved comparisons, and of the server itself."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from firstdiff import __version__
from firstdiff.json_text import from_plain
from firstdiff.reports.sentences import origin
from firstdiff.schema import Divergence
from firstdiff.server.context import Shared
from firstdiff.server.responses import answer
from firstdiff.server.result_tables import head_of
from firstdiff.server.schemas import AboutOut, CompareIn, ComparisonOut, EntriesOut, FirstRow, RenameIn
from firstdiff.server.submit import start, start_demo
from firstdiff.store import Entry
from firstdiff.store.results import Result
from firstdiff.workflows.demo import DEMOS, find_demo

router = APIRouter()


@router.get("/comparisons", response_model=EntriesOut)
def list_comparisons(context: Shared) -> Response:
    return answer(EntriesOut(tuple(context.store.entries()), context.store.bytes()))


@router.post("/comparisons", response_model=Entry)
def start_comparison(body: CompareIn, context: Shared, request: Request) -> Response:
    own_page = not request.scope.get("cross_origin", False)
    return answer(context.store.entry(start(context, body, paths=own_page)))


@router.post("/demo", response_model=Entry)
def open_demo(context: Shared, name: str = "gpt") -> Response:
    return answer(context.store.entry(start_demo(context, find_demo(name))))


@router.get("/comparisons/{comparison}", response_model=ComparisonOut)
def get_comparison(comparison: str, context: Shared) -> Response:
    entry = context.store.entry(comparison)
    folder = context.store.result_folder(comparison)
    result = Result(folder) if folder else None
    return answer(
        {
            "entry": entry,
            "comparison": head_of(result) if result else None,
            "first": _first_row(result) if result else None,
        }
    )


def _first_row(result: Result) -> FirstRow | None:
    site = result.head()["first_divergence"]
    if site is None:
        return None
    where = result.pair(site["pair"]).where
    return FirstRow(origin(from_plain(Divergence, site)), where.text if where else None)


@router.patch("/comparisons/{comparison}", response_model=Entry)
def rename_comparison(comparison: str, body: RenameIn, context: Shared) -> Response:
    context.store.comparisons.rename(comparison, body.name)
    return answer(context.store.entry(comparison))


@router.delete("/comparisons/{comparison}", status_code=204, response_class=Response)
def delete_comparison(comparison: str, context: Shared) -> Response:
    context.store.comparisons.cancel(comparison)
    context.jobs.stop(comparison)
    context.opened.forget(comparison)
    context.store.delete(comparison)
    return Response(status_code=204)


@router.post("/comparisons/{comparison}/cancel", response_model=Entry)
def cancel_comparison(comparison: str, context: Shared) -> Response:
    context.store.comparisons.cancel(comparison)
    context.jobs.stop(comparison)
    return answer(context.store.entry(comparison))


@router.post("/comparisons/{comparison}/rerun", response_model=Entry)
def rerun_comparison(comparison: str, context: Shared) -> Response:
    context.store.comparisons.rerun(comparison)
    context.jobs.stop(comparison)
    context.jobs.wake()
    return answer(context.store.entry(comparison))


@router.get("/about", response_model=AboutOut)
def about(context: Shared) -> Response:
    return answer(AboutOut(__version__, str(context.store.home.path), tuple(demo.name for demo in DEMOS)))
