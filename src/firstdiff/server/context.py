"""The state that the routes share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from firstdiff.errors import UsageError
from firstdiff.server.inference.models import BrowserModels
from firstdiff.server.jobs import Jobs
from firstdiff.server.responses import ConflictError
from firstdiff.server.trace_cache import Opened
from firstdiff.store import Store
from firstdiff.store.results import Result


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The address the server listens on, and the clients it accepts.

    token: needed with every request where it is not None
    origins: pages of other origins that may talk to it
    project: the firstdiff.toml that the page shows
    """

    host: str = "127.0.0.1"
    port: int = 8585
    token: str | None = None
    origins: tuple[str, ...] = ()
    project: Path | None = None


@dataclass(frozen=True, slots=True)
class Context:
    store: Store
    jobs: Jobs
    settings: ServerSettings
    opened: Opened = field(default_factory=Opened)
    inference: BrowserModels = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inference", BrowserModels(self.store.home.path))

    def result(self, comparison: str) -> Result:
        """Return the current result; ConflictError with the reason if there is none."""
        folder = self.store.result_folder(comparison)
        if folder is not None:
            return Result(folder)
        entry = self.store.entry(comparison)
        why = {"failed": f"it failed: {entry.error}", "cancelled": "it was cancelled"}.get(entry.state, "it still runs")
        raise ConflictError(f"this comparison has no result yet; {why}")

    def pair_result(self, comparison: str, wanted: str) -> Result:
        """Return the result of two traces; one trace alone has nothing to judge or to pair."""
        self.must_be_pair(comparison, wanted)
        return self.result(comparison)

    def must_be_pair(self, comparison: str, wanted: str) -> None:
        if self.store.job(comparison).kind == "look":
            raise UsageError(f"one trace alone has {wanted}; compare it with another")


def _context(request: Request) -> Context:
    found: Context = request.app.state.context
    return found


Shared = Annotated[Context, Depends(_context)]
