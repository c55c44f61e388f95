"""Write an offline page from the command line, with a temporary store."""

from __future__ import annotations

import os
import tempfile

from firstdiff.readers import open_trace
from firstdiff.schema import Comparison
from firstdiff.server.context import Context, ServerSettings
from firstdiff.server.jobs import Jobs
from firstdiff.server.result_tables import write_tables
from firstdiff.server.sharing.page import shared_page
from firstdiff.server.submit import given_path
from firstdiff.store import Store
from firstdiff.store.entry import SideName
from firstdiff.trace import Trace
from firstdiff.trace.order import OrderRule


def page_of(
    comparison: Comparison,
    reference: str | os.PathLike[str],
    candidate: str | os.PathLike[str],
    order: OrderRule | None = None,
) -> str:
    """The HTML text of a comparison of two paths.

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
