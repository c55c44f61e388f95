"""Measure and judge pair after pair, as recorded or in the layout that their shapes require."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from firstdiff import dtypes, schema
from firstdiff.comparing.options import Effort, Options
from firstdiff.comparing.rows import MatchedPair, audio_of, tensor_info
from firstdiff.errors import ReadError
from firstdiff.judge import (
    Judgement,
    are_of_two_types,
    basis_of,
    coarsest_ancestors,
    exact_kind,
    judge,
    judge_channels,
    judged_systematic,
    masks_in_one_form,
    other_weights,
    reasons_of,
    required_of,
    systematic_of,
    tolerance_for,
    without_fillers,
)
from firstdiff.locate import MeasuredPair
from firstdiff.measure import Allowed, PairMeasurement, PairScan, scan_pair, shown_deviation
from firstdiff.pairing import PairingResult
from firstdiff.schema import Diagnosis, JudgingBasis, Systematic, Tolerance
from firstdiff.trace import ArraySource, Source, Tensor

if TYPE_CHECKING:
    from firstdiff.comparing.layouts import AlignedPair, Layouts

# pairs of this size are measured side by side; smaller ones are not worth it, and larger ones are cut up instead
_SIDE_BY_SIDE_BYTES = range(1 << 18, 64 << 20)
_READ_AT_ONCE_BYTES = 1 << 16
_MOST_SIDE_BY_SIDE = 4  # each has a window of either side in memory
# two swapped channels of 4,096 leave more than this
_NEARLY_EQUAL = 0.02
# of a table in half precision that need not be the reference's, rounded: near 0, where each side computes its own
_OTHER_ENTRIES = 0.1

Sources = tuple[Source, Source]


class JudgedFigures(NamedTuple):
    """The figures of a pair in one layout, and what the verdict made of them."""

    figures: PairMeasurement
    tolerance: Tolerance
    basis: JudgingBasis
    judgement: Judgement
    systematic: Systematic | None


@dataclass(frozen=True, slots=True)
class LayoutFinding:
    """A row that differs as it is and agrees in another layout, which may not match."""

    alignment: schema.Alignment
    cause: Diagnosis
    reason: str | None


@final
class PairComparison:
    """Measures the pairs of a run.

    effort: what fruitless layout searches may cost
    on_bytes: called with the number of bytes done so far
    """

    def __init__(
        self,
        paired: PairingResult,
        options: Options,
        effort: Effort,
        on_bytes: Callable[[int], None] | None = None,
    ) -> None:
        self._options = options
        self._effort = effort
        self._on_bytes = on_bytes
        self._done = 0
        self._threads = options.threads or os.cpu_count() or 1
        self._known_layouts: Layouts | None = None
        self._dtypes = tuple(coarsest_ancestors(trace.tensors) for trace in (paired.reference, paired.candidate))

    @property
    def layouts(self) -> Layouts:
        if self._known_layouts is None:
            from firstdiff.comparing.layouts import Layouts  # most runs never need the solver, which is slow to load

            self._known_layouts = Layouts(self._options.layout, self._effort)
        return self._known_layouts

    @property
    def not_searched(self) -> tuple[str, ...]:
        """Keys of rows whose layout was not searched to the end."""
        return tuple(self._known_layouts.not_searched) if self._known_layouts else ()

    def measure(self, rows: Sequence[MatchedPair]) -> Iterator[MeasuredPair]:
        """Measure rows, in their order."""
        aside = [self._side_by_side(row) for row in rows]
        measured = _in_order(rows, self.row, aside, min(self._threads, _MOST_SIDE_BY_SIDE))
        for row, result in zip(rows, measured, strict=True):
            self._done += row.nbytes
            if self._on_bytes:
                self._on_bytes(self._done)
            yield result

    def row(self, matched: MatchedPair) -> MeasuredPair:
        """Measure one row; what cannot be read is a failed one."""
        if matched.match is None:
            return matched.without_partner()
        try:
            tensors = [(tensor, "reference") for tensor in matched.references]
            tensors += [(tensor, "candidate") for tensor in matched.candidates]
            sources = [_readable(tensor, side) for tensor, side in tensors]
            stamps = [source.stamp() for source in sources]
            row = self._compare(matched)
            if any(source.stamp() != stamp for source, stamp in zip(sources, stamps, strict=True)):
                raise ReadError("changed while it was being read; compare again when it is complete")
        except ReadError as error:
            return matched.measured("failed", reason=str(error))
        return row

    def _compare(self, matched: MatchedPair) -> MeasuredPair:
        alone = len(matched.references) == len(matched.candidates) == 1
        if alone and not self._states_layout(matched):
            sources = matched.references[0].values(), matched.candidates[0].values()
            masks = self._compare_masks(matched, sources)
            if masks is not None:
                return masks
            if sources[0].shape == sources[1].shape:
                return self._compare_same_shape(matched, sources)
        return self._compare_aligned(matched, self.layouts.align(matched))

    def _states_layout(self, matched: MatchedPair) -> bool:
        return matched.key in self._options.layout.stated or bool(matched.match and matched.match.recipe)

    def _compare_masks(self, matched: MatchedPair, sources: Sources) -> MeasuredPair | None:
        """Compare two masks by what they hide; None for anything else, and for masks that are written alike."""
        key = matched.first.key
        named = key.role != "param" and "mask" in f"{key.name.rpartition('.')[2]} {key.slot}".lower()
        masks = masks_in_one_form(sources, named=named)
        if masks is None:
            return None
        row = _judged(matched, self._figures(matched, masks.sources), schema.Alignment("identity"), masks.sources)
        return replace(row, reason=masks.note) if row.status == "match" else row

    def without_tokens(self, matched: MatchedPair, row: MeasuredPair, hidden: np.ndarray) -> MeasuredPair:
        """Measure a row again with the reference's values in some places; `hidden` has the shape of both sides."""
        assert row.sources is not None, "it was measured"
        assert row.alignment is not None, "it was measured"
        reference, candidate = (source.view() for source in row.sources)
        shown = np.where(hidden, reference.astype(candidate.dtype), candidate)
        sources = row.sources[0], ArraySource(shown)
        found = _judged(matched, self._figures(matched, sources), row.alignment, sources)
        return replace(found, candidate_info=row.candidate_info)

    def _compare_same_shape(self, matched: MatchedPair, sources: Sources) -> MeasuredPair:
        """Identity is the contract; another layout is looked for here only where it could be a match."""
        plain = self._figures(matched, sources)
        row = _judged(matched, plain, schema.Alignment("identity"), sources)
        if row.status == "match" or not _row_may_be_rearranged(row) or not self.layouts.may_match(matched):
            return row
        aligned = self.layouts.align(matched)
        moved = self._agreeing(matched, aligned)
        if moved is None or not aligned.ruling.may_match:
            return row
        return _judged(matched, moved, aligned.described(), aligned.sources)

    def _compare_aligned(self, matched: MatchedPair, aligned: AlignedPair) -> MeasuredPair:
        if aligned.sources is None:
            reason = f"shape: {_shapes(matched)}; {aligned.ruling.reason}"
            return matched.measured("mismatch", reason=reason, audio=audio_of(matched))
        moved = self._figures(matched, aligned.sources)
        row = _judged(matched, moved, aligned.described(), aligned.sources)
        if row.status == "match":
            self.layouts.learn(matched, aligned.solution)
        if row.status == "match" and not aligned.ruling.may_match:
            cause = aligned.cause(moved.figures.metrics.max_abs)
            return replace(row, status="mismatch", reason=aligned.ruling.reason, layout_cause=cause)
        return row

    def find_layout(self, matched: MatchedPair, row: MeasuredPair) -> LayoutFinding | None:
        """Look for a layout in which a row of equal shapes that differs would agree."""
        if row.sources is None or row.metrics is None or row.alignment is None or not row.alignment.is_identity:
            return None
        if self._options.layout.mode != "strict" and self.layouts.may_match(matched):
            return None  # searched while it was measured
        if not _row_may_be_rearranged(row):
            return None
        aligned = self.layouts.align(matched)
        moved = self._agreeing(matched, aligned)
        if moved is None:
            return None
        cause = aligned.cause(moved.figures.metrics.max_abs)
        return LayoutFinding(replace(aligned.described(), applied=False), cause, aligned.ruling.reason)

    def _agreeing(self, matched: MatchedPair, aligned: AlignedPair) -> JudgedFigures | None:
        """Return the figures in another layout; None where there is none in which the values agree."""
        if aligned.sources is None or aligned.solution.is_identity or not aligned.solution.fits:
            return None
        moved = self._figures(matched, aligned.sources)
        return None if moved.judgement.status == "mismatch" else moved

    def _figures(self, matched: MatchedPair, sources: Sources) -> JudgedFigures:
        rules, tensor = self._options.rules, matched.references[0]
        sources = _in_memory(sources[0]), _in_memory(sources[1])
        scan = self._scan(sources)
        assert matched.match is not None, "only pairs are measured"
        types = (
            self._dtypes[0][matched.match.reference[0]] or sources[0].dtype,
            self._dtypes[1][matched.match.candidate[0]] or sources[1].dtype,
        )
        scale = shown_deviation(sources[0], scan.reference)
        filled = without_fillers(scan, sources)
        shown = filled.sources if filled and filled.sources else sources
        seen = scan if shown is sources else self._scan(shown)
        # other masks are told by their places; fillers are whole numbers, too
        exact = None if filled and shown is sources else exact_kind(seen, shown, matched.first.key.role)
        tolerance = tolerance_for(rules, matched.key, *types, scale, floor=tensor.record.floor, exact=exact)
        if tolerance.rule not in ("default", "exact"):
            shown, seen = sources, scan  # what is stated holds for every element
        figures = seen.measure(Allowed(tolerance.atol, tolerance.rtol), equal_nan=rules.equal_nan)
        figures = replace(figures, reference=scan.reference, candidate=scan.candidate)
        systematic = None
        if not exact and tolerance.rule in ("default", "stated", "torch", "eps"):
            coarser = max(types, key=dtypes.eps_of)
            found = systematic_of(seen, shown, coarser, filled)
            role = matched.first.key.role
            in_half = coarser.itemsize == 2 and role == "buffer"
            if in_half and (wrong := other_weights(sources, share=_OTHER_ENTRIES)):
                found = replace(found, failed=(*found.failed, wrong))
            if role == "param" and are_of_two_types(sources):
                wrong = other_weights(sources)
                # small ones are rounded coarsely, to steps that noise has no limit for
                found = (
                    replace(found, failed=(*found.failed, wrong)) if wrong else replace(found, failed=(), figures={})
                )
            systematic = judged_systematic(found, None)
        basis = basis_of(figures, (dtypes.name_of(types[0]), dtypes.name_of(types[1])), scale, exact)
        judgement = self._judgement(figures, basis, sources, tolerance, systematic, tensor.record.floor)
        return JudgedFigures(figures, tolerance, basis, judgement, systematic)

    def _judgement(
        self,
        figures: PairMeasurement,
        basis: JudgingBasis,
        sources: Sources,
        tolerance: Tolerance,
        systematic: Systematic | None,
        floor: Mapping[str, Any] | None,
    ) -> Judgement:
        """Judge a pair alone; the noise of what came before is not known yet."""
        equal_nan = self._options.rules.equal_nan
        judgement = judge(figures, equal_nan=equal_nan)
        if tolerance.rule == "default" and systematic is not None:
            reasons = reasons_of(basis, systematic, equal_nan=equal_nan)
            if reasons:
                return Judgement("mismatch", "; ".join(reasons), required_of(basis, equal_nan=equal_nan))
            return Judgement("match", judgement.reason if judgement.status == "match" else None, None)
        if tolerance.rule == "floor" and judgement.status == "match" and floor:
            wrong = judge_channels(*sources, floor)
            return Judgement("mismatch", wrong, None) if wrong else judgement
        return judgement

    def _scan(self, sources: Sources) -> PairScan:
        """Scan a pair; large ones use all threads and tell their progress, the others have one thread each."""
        engine, on_bytes = self._options.engine, self._on_bytes
        if sources[0].nbytes < _SIDE_BY_SIDE_BYTES.stop:
            return scan_pair(*sources, engine=engine, threads=1)
        if on_bytes is None:
            return scan_pair(*sources, engine=engine, threads=self._threads)
        width = sources[0].dtype.itemsize + sources[1].dtype.itemsize
        return scan_pair(
            *sources,
            engine=engine,
            threads=self._threads,
            progress=lambda elements: on_bytes(self._done + elements * width),
        )

    def _side_by_side(self, matched: MatchedPair) -> bool:
        """Return whether a row can be measured in a thread: layouts are found one after the other."""
        alone = len(matched.references) == len(matched.candidates) == 1
        if not alone or self._states_layout(matched):
            return False
        reference, candidate = matched.references[0].source, matched.candidates[0].source
        if reference is None or candidate is None or reference.shape != candidate.shape:
            return False
        return reference.nbytes in _SIDE_BY_SIDE_BYTES


def _in_order(
    rows: Sequence[MatchedPair],
    work: Callable[[MatchedPair], MeasuredPair],
    aside: Sequence[bool],
    workers: int,
) -> Iterator[MeasuredPair]:
    """Yield `work` of every row; those marked in `aside` are done by other threads, the rest as they come."""
    if workers <= 1 or sum(aside) <= 1:
        yield from map(work, rows)
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="firstdiff-compare")
    try:
        ahead = [pool.submit(work, row) if apart else None for row, apart in zip(rows, aside, strict=True)]
        for row, result in zip(rows, ahead, strict=True):
            yield work(row) if result is None else result.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _row_may_be_rearranged(row: MeasuredPair) -> bool:
    """Return whether looking for another layout makes sense: not where the values nearly agree as they are."""
    from firstdiff.align import could_be_rearranged

    reference = row.reference_info.statistics if row.reference_info else None
    candidate = row.candidate_info.statistics if row.candidate_info else None
    if reference is None or candidate is None or row.metrics is None:
        return False
    near = row.metrics.rel_l2 is not None and row.metrics.rel_l2 < _NEARLY_EQUAL
    return not near and could_be_rearranged(reference, candidate)


def _readable(tensor: Tensor, side: str) -> Source:
    if tensor.source is None:
        raise ReadError(f"the {side} {tensor.error or 'has no values'}")
    return tensor.source


def _in_memory(source: Source) -> Source:
    """Read a small tensor whole: several steps look at it, and opening its file takes longer than each of them."""
    if isinstance(source, ArraySource) or not 0 < source.nbytes <= _READ_AT_ONCE_BYTES:
        return source
    return ArraySource(source.window(0, source.size).reshape(source.shape))


def _shapes(matched: MatchedPair) -> str:
    sides = [side[0].source for side in (matched.references, matched.candidates)]
    return " against ".join(str(list(source.shape if source else ())) for source in sides)


def _judged(
    matched: MatchedPair, found: JudgedFigures, alignment: schema.Alignment, sources: Sources | None
) -> MeasuredPair:
    reference, candidate = tensor_info(matched.references), tensor_info(matched.candidates)
    assert reference is not None, "a pair has both sides"
    assert candidate is not None, "a pair has both sides"
    return matched.measured(
        found.judgement.status,
        reason=found.judgement.reason,
        reference_info=replace(reference, statistics=found.figures.reference),
        candidate_info=replace(candidate, statistics=found.figures.candidate),
        audio=audio_of(matched),
        alignment=alignment,
        metrics=found.figures.metrics,
        tolerance=found.tolerance,
        required=found.judgement.required,
        basis=found.basis,
        sources=sources,
        systematic=found.systematic,
    )
