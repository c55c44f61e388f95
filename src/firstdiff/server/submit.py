"""Start a comparison that a request describes."""

from __future__ import annotations

from pathlib import Path

from firstdiff.errors import UsageError
from firstdiff.server.context import Context
from firstdiff.server.options import options_in
from firstdiff.server.responses import ConflictError, ForbiddenError
from firstdiff.server.schemas import CompareIn, OptionsIn, SideIn
from firstdiff.store import Edits, Given
from firstdiff.store.entry import Kind, SideName
from firstdiff.workflows.demo import Demo

_ALONE: dict[Kind, str] = {"look": "looking at a trace", "self": "comparing a trace with itself"}


def start(context: Context, body: CompareIn, *, paths: bool = True) -> str:
    """Add a comparison and return its id.

    paths: whether files of this machine may be named, and not only uploads
    """
    options = body.options.model_dump()
    options_in(options, Edits())
    if body.kind == "pair" and body.candidate is None:
        raise UsageError("a comparison needs a candidate; give one, or look at the reference alone")
    if body.kind != "pair" and (body.candidate or body.third):
        raise UsageError(f"{_ALONE[body.kind]} takes one trace; leave the candidate and the third out")
    given: dict[SideName, SideIn | None] = {
        "reference": body.reference,
        "candidate": body.candidate,
        "third": body.third,
    }
    sides = {name: _given(context, name, side, paths) for name, side in given.items() if side is not None}
    comparison = context.store.comparisons.add(body.kind, sides, options, body.name)
    context.jobs.wake()
    return comparison


def start_demo(context: Context, demo: Demo) -> str:
    """Open the comparison of a demo's traces; the one there is, if there is one."""
    reference, candidate = (str(path) for path in demo.traces)
    known = _known(context, reference, candidate)
    if known is None:
        body = CompareIn(reference=SideIn(path=reference), candidate=SideIn(path=candidate), name=demo.title)
        return start(context, body)
    if context.store.entry(known).state in ("failed", "cancelled"):
        _again(context, known)
    return known


def start_paths(
    context: Context,
    reference: str,
    candidate: str | None = None,
    third: str | None = None,
    options: OptionsIn | None = None,
) -> str:
    """Submit two paths, one path alone, or two and a third to inspect.

    Where there is one already it runs again, edits included.
    """
    options = options or OptionsIn()
    sides = [given_path(text, "path").path for text in (reference, candidate, third) if text is not None]
    known = _known(context, *sides, options=options)
    if known is not None:
        _again(context, known)
        return known
    kind: Kind = "look" if candidate is None else "pair"
    second, other = (None if path is None else SideIn(path=path) for path in (candidate, third))
    first = SideIn(path=reference)
    return start(context, CompareIn(kind=kind, reference=first, candidate=second, third=other, options=options))


def _known(context: Context, *paths: str | None, options: OptionsIn | None = None) -> str | None:
    """Find the newest comparison of these paths, or this path alone, made with these options."""
    kind = "pair" if len(paths) > 1 else "look"
    wanted = (options or OptionsIn()).model_dump()
    for entry in context.store.entries():
        sides = [side.path for side in (entry.reference, entry.candidate, entry.third) if side]
        if entry.kind == kind and sides == list(paths) and context.store.job(entry.id).options == wanted:
            return entry.id
    return None


def _again(context: Context, comparison: str) -> None:
    context.store.comparisons.rerun(comparison)
    context.jobs.stop(comparison)
    context.jobs.wake()


def _given(context: Context, name: str, side: SideIn, paths: bool) -> Given:
    if (side.path is None) == (side.upload is None):
        raise UsageError(f"the {name} takes a path or an upload, one of the two")
    if side.upload is not None:
        upload = context.store.uploads.get(side.upload)
        if not upload.complete:
            raise ConflictError(f"the upload of the {name} is not complete; go on with it first")
        return Given(label=upload.label, upload=upload.id)
    if not paths:
        raise ForbiddenError("a page of another origin may compare uploads, but not name files of this machine")
    return given_path(side.path or "", name)


def given_path(text: str, name: str) -> Given:
    """Return an existing path of this machine as an absolute one."""
    if not text.strip() or "\0" in text:
        raise UsageError(f"the path of the {name} is empty; name a file or a folder")
    path = Path(text.strip()).expanduser().absolute()
    try:
        there = path.exists()
    except OSError as error:
        raise UsageError(f"the {name} {path} cannot be read ({error.strerror or error})") from error
    if not there:
        raise UsageError(f"the {name} {path} does not exist; check the path")
    return Given(label=path.name or str(path), path=str(path))
