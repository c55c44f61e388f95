"""Routes of values: slices, elements, overviews and mappings."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import Annotated, Literal, cast, get_args

import numpy as np
from fastapi import APIRouter, Depends, Query, Response

from firstdiff.audio import SoundPair
from firstdiff.errors import FirstdiffError, UsageError
from firstdiff.reports.sentences import exact
from firstdiff.server.cancellation import Gone, must_be_wanted
from firstdiff.server.context import Shared
from firstdiff.server.responses import (
    RAW,
    ResponseHeader,
    TooLargeError,
    answer,
    csv_text,
    download,
    npy,
    raw,
    stamp_text,
)
from firstdiff.server.row_tensors import RowTensors, SideName, Space
from firstdiff.server.schemas import (
    ElementOut,
    ElementsOut,
    FoundElements,
    HistogramsOut,
    InspectOut,
    MappingIn,
    MappingsOut,
    TensorShape,
)
from firstdiff.trace import Source
from firstdiff.viewing import (
    Cut,
    Element,
    ElementQuery,
    MappedView,
    Profile,
    common_mappings,
    histograms,
    largest,
    mapped_view,
    overview,
    profile,
    scatter,
    search,
)
from firstdiff.viewing.mapping import held

# smaller planes are pooled faster than read from the cache on disk
_KEPT_FROM = 4 << 20
_MOST_KEPT = 512


def cached_overview(
    folder: Path, label: str, sources: tuple[Source, ...], at: str, rows: int, columns: int
) -> np.ndarray:
    """Pool a plane as `viewing.overview` does, cached on disk while the files are unchanged.

    folder: where they are kept
    label: tells this tensor from all others that share the folder
    """
    cut = Cut.parse(at, sources[0].shape)
    stamps = [source.stamp() for source in sources]
    if cut.size < _KEPT_FROM or any(stamp is None for stamp in stamps):
        return overview(sources, cut, rows, columns)
    words = repr((label, stamps, at, rows, columns))
    file = folder / f"{hashlib.sha256(words.encode()).hexdigest()[:32]}.npy"
    try:
        return np.asarray(np.load(file, allow_pickle=False))
    except (OSError, ValueError):
        cells = overview(sources, cut, rows, columns)
        _keep(file, cells)
        return cells


def _keep(file: Path, cells: np.ndarray) -> None:
    """Write a cached overview; a failure costs only the time to compute it again."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
        with os.fdopen(handle, "wb") as part:
            np.save(part, cells)
        Path(name).replace(file)
        kept = sorted(file.parent.glob("*.npy"), key=lambda one: one.stat().st_mtime)
        for old in kept[:-_MOST_KEPT]:
            old.unlink(missing_ok=True)
    except OSError:
        return


router = APIRouter(prefix="/comparisons/{comparison}/rows/{row}")

MOST_ELEMENTS = 4 << 20
MOST_PIXELS = 4096
_FLAT = re.compile(r"(\d+):(\d+)")


def _seen(comparison: str, row: int, context: Shared, gone: Gone) -> RowTensors:
    must_be_wanted(gone)
    return RowTensors(context, comparison, row, gone)


ThisRow = Annotated[RowTensors, Depends(_seen)]
SideOrDifference = Literal["reference", "candidate", "third", "difference", "third_difference"]


@router.get("/inspect", response_model=InspectOut)
def inspect_row(seen: ThisRow) -> Response:
    pair = seen.pair
    sides = {side: _shape_of(seen, side) for side in ("reference", "candidate", "third")}
    shape = seen.shape
    alignment = pair.alignment if pair.alignment and pair.alignment.applied else None
    sound = _sound_of(seen)
    return answer(
        InspectOut(
            aligned=None if shape is None else TensorShape(shape, None),
            reference=sides["reference"],
            candidate=sides["candidate"],
            third=_third_shape(seen),
            third_original=sides["third"],
            recipe=alignment.recipe if alignment and not alignment.is_identity else None,
            steps=alignment.steps if alignment else (),
            audio=sound is not None,
            sample_rate=None if sound is None else sound.reference.rate,
            changed=tuple(seen.changed()),
            equal_nan=seen.equal_nan,
        )
    )


@router.get("/slice", response_class=Response)
def slice_row(
    seen: ThisRow, side: SideName, space: Space = "aligned", at: str | None = None, flat: str | None = None
) -> Response:
    source = seen.source(side, space)
    return raw(_asked(source, at, flat), source.dtype.name, {ResponseHeader.STAMP: stamp_text(source.stamp())})


@router.get("/overview", response_class=Response)
def overview_row(
    comparison: str,
    seen: ThisRow,
    context: Shared,
    side: SideOrDifference,
    at: str,
    rows: Annotated[int, Query(ge=1, le=MOST_PIXELS)],
    columns: Annotated[int, Query(ge=1, le=MOST_PIXELS)],
) -> Response:
    sources = _of_side(seen, side)
    folder = context.result(comparison).folder / "overviews"
    cells = cached_overview(folder, f"{seen.pair.index} {side}", sources, at, rows, columns)
    finite = cells[np.isfinite(cells)]
    limits = {
        ResponseHeader.MIN: str(finite.min(initial=0.0)),
        ResponseHeader.MAX: str(finite.max(initial=0.0)),
        ResponseHeader.NONFINITE: str(cells.size - finite.size),
    }
    return raw(cells, "float32", limits)


@router.get("/largest", response_model=ElementsOut)
def largest_of_row(seen: ThisRow, count: Annotated[int, Query(ge=1, le=4096)] = 64) -> Response:
    return answer(ElementsOut(tuple(_element(found) for found in largest(*seen.both(), count))))


@router.get("/search", response_model=FoundElements)
def search_row(
    seen: ThisRow,
    kind: Literal["value", "range", "nan", "inf", "mismatch"],
    side: Literal["reference", "candidate"] = "reference",
    low: str | None = None,
    high: str | None = None,
    after: int = -1,
    count: Annotated[int, Query(ge=1, le=1024)] = 1,
) -> Response:
    sources: tuple[Source, ...] = seen.both() if seen.shape is not None else (seen.original(side),)
    tolerance = seen.pair.tolerance
    atol, rtol = (tolerance.atol, tolerance.rtol) if tolerance else (0.0, 0.0)
    place = 1 if side == "candidate" and len(sources) > 1 else 0
    sought = ElementQuery(kind, place, _number(low), _number(high), atol, rtol, seen.equal_nan)
    found = search(sources, sought, after=after, count=count)
    more = found[-1].flat if len(found) == count else None
    total = sources[0].size
    scanned = total if more is None else more + 1
    return answer(FoundElements(tuple(map(_element, found)), more, scanned, total))


@router.get("/profile", response_model=Profile)
def profile_row(seen: ThisRow, dim: int) -> Response:
    return answer(profile(*seen.both(), dim))


@router.get("/histogram", response_model=HistogramsOut)
def histogram_row(
    seen: ThisRow, sides: str, at: str | None = None, bins: Annotated[int, Query(ge=1, le=1024)] = 64
) -> Response:
    """sides: names such as `reference,candidate`; all are counted over the same bins."""
    sources = [_of_side(seen, _side(name)) for name in sides.split(",")]
    return answer(HistogramsOut(tuple(histograms(sources, _cut(sources[0][0], at), bins))))


@router.get("/scatter", response_class=Response)
def scatter_row(seen: ThisRow, at: str | None = None, count: Annotated[int, Query(ge=1, le=65_536)] = 4096) -> Response:
    """Return a column for each side: reference, candidate and, in the same layout, the third."""
    sources: tuple[Source, ...] = seen.both()
    third = seen.third_if_readable()
    sources = sources if third is None else (*sources, third)
    points, sampled = scatter(sources, _cut(sources[0], at), count)
    return raw(points, "float32", {ResponseHeader.SAMPLED: str(int(sampled))})


@router.post("/mapping", response_model=MappedView)
def map_row(seen: ThisRow, wanted: MappingIn) -> Response:
    reference, candidate = seen.original("reference"), seen.original("candidate")
    ref = held(wanted.reference.at, tuple(wanted.reference.shown), reference)
    cand = held(wanted.candidate.at, tuple(wanted.candidate.shown), candidate)
    return answer(mapped_view(reference, candidate, ref, cand))


@router.post("/mapping/common", response_model=MappingsOut)
def map_row_as_often(seen: ThisRow) -> Response:
    return answer(MappingsOut(tuple(common_mappings(seen.original("reference"), seen.original("candidate")))))


@router.get("/export", response_class=Response)
def export_row(
    seen: ThisRow,
    side: SideName,
    at: str | None = None,
    flat: str | None = None,
    space: Space = "aligned",
    format: Literal["npy", "csv"] = "npy",
) -> Response:
    values = _asked(seen.source(side, space), at, flat)
    name = re.sub(r"[^\w.-]+", "_", seen.pair.key, flags=re.ASCII)[:80] or "tensor"
    if format == "npy":
        return download(npy(values), f"{name}.{side}.npy", RAW)
    return download(csv_text(values), f"{name}.{side}.csv", "text/csv; charset=utf-8")


def _of_side(seen: RowTensors, side: SideOrDifference) -> tuple[Source, ...]:
    """Return the source of a side, or both for their difference."""
    if side == "difference":
        return seen.both()
    if side == "third_difference":
        return seen.both()[0], seen.source("third", "aligned")
    return (seen.source(side, "original" if seen.shape is None else "aligned"),)


def _side(name: str) -> SideOrDifference:
    if name not in get_args(SideOrDifference):
        raise UsageError(f"{name!r} is no side; there are {', '.join(get_args(SideOrDifference))}")
    return cast(SideOrDifference, name)


def _asked(source: Source, at: str | None, flat: str | None) -> np.ndarray:
    return _part(source, at) if flat is None else _flat_part(source, flat)


def _cut(source: Source, at: str | None) -> Cut:
    return Cut.whole(source.shape) if at is None else Cut.parse(at, source.shape)


def _part(source: Source, at: str | None) -> np.ndarray:
    cut = _cut(source, at)
    if cut.size > MOST_ELEMENTS:
        raise TooLargeError(f"{cut.size:,} elements are more than one answer holds ({MOST_ELEMENTS:,}); ask for less")
    return cut.read(source)


def _flat_part(source: Source, text: str) -> np.ndarray:
    found = _FLAT.fullmatch(text)
    if found is None:
        raise UsageError(f"flat={text!r} is no range of elements; write 0:256")
    begin, end = (min(int(number), source.size) for number in found.groups())
    if end - begin > MOST_ELEMENTS:
        raise TooLargeError(f"{end - begin:,} elements are more than one answer holds ({MOST_ELEMENTS:,})")
    return source.window(begin, max(begin, end))


def _element(found: Element) -> ElementOut:
    return ElementOut(
        found.index,
        exact(found.reference),
        "" if found.candidate is None else exact(found.candidate),
        found.difference,
        found.relative,
        found.ulp,
    )


def _number(text: str | None) -> int | float | None:
    if text is None:
        return None
    try:
        return int(text) if re.fullmatch(r"[-+]?\d+", text.strip()) else float(text)
    except ValueError:
        raise UsageError(f"{text!r} is no number") from None


def _shape_of(seen: RowTensors, side: SideName) -> TensorShape | None:
    try:
        tensor = seen.tensor(side)
    except FirstdiffError:
        if side == "third":
            return None
        raise
    if tensor is None or tensor.source is None:
        return None
    return TensorShape(tensor.source.shape, tensor.source.dtype.name)


def _third_shape(seen: RowTensors) -> TensorShape | None:
    source = seen.third_if_readable()
    return TensorShape(source.shape, source.dtype.name) if source is not None else None


def _sound_of(seen: RowTensors) -> SoundPair | None:
    reference, candidate = seen.tensor("reference"), seen.tensor("candidate")
    return SoundPair.of(reference, candidate) if reference is not None and candidate is not None else None
