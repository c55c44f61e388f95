"""Measure and judge match after match."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, final

from firstdiff.comparing.ahead import in_order
from firstdiff.comparing.options import Options
from firstdiff.comparing.rows import bare_row
from firstdiff.comparing.sound import with_sound
from firstdiff.errors import ReadError
from firstdiff.judge import Judgement, coarsest_ancestors, judge, judge_channels, tolerance_for
from firstdiff.locate import Row
from firstdiff.measure import Allowed, Engine, PairMeasurement, compiled_ready, scan_pair, shown_deviation
from firstdiff.pairing import Match, PairingResult
from firstdiff.schema import Alignment, Pair, Tolerance
from firstdiff.trace import Source, Tensor

if TYPE_CHECKING:
    from firstdiff.comparing.layout import Laid

Progress = Callable[[int, int], None]

# beyond this compiled code has earned back the moment it takes to load, and the seconds it takes to make
_LOAD_FROM_BYTES, _MAKE_FROM_BYTES = 32 << 20, 256 << 20
# pairs of this size are measured side by side; smaller ones are not worth it, and larger ones are cut up instead
_SIDE_BY_SIDE_BYTES = range(1 << 18, 64 << 20)
_MOST_SIDE_BY_SIDE = 4  # each has a window of either side in memory
# two swapped channels of 4,096 leave more than this
_NEARLY_EQUAL = 0.02


Sources = tuple[Source, Source]


class Basis(NamedTuple):
    """What the default tolerance of a pair follows: the types that decide, and the scale of the reference."""

    types: tuple[str, str]
    scale: float


class _Measured(NamedTuple):
    figures: PairMeasurement
    tolerance: Tolerance
    basis: Basis
    judgement: Judgement


@final
class Measuring:
    """Measures match after match, and tells how far it has come."""

    def __init__(self, paired: PairingResult, options: Options, progress: Progress | None) -> None:
        self._paired = paired
        self._options = options
        self._progress = progress
        self._done = 0
        self._total = sum(self._bytes(match) for match in paired.pairs)
        self._engine: Engine = options.engine if options.engine != "auto" else self._choose()
        self._threads = options.threads or os.cpu_count() or 1
        self._coarsest = [coarsest_ancestors(trace.tensors) for trace in (paired.reference, paired.candidate)]

    def rows(self, matches: Sequence[Match]) -> Iterator[Row]:
        """The rows of matches, in their order."""
        aside = [self._side_by_side(match) for match in matches]
        found = in_order(matches, self.row, aside, min(self._threads, _MOST_SIDE_BY_SIDE))
        for match, row in zip(matches, found, strict=True):
            self._done += self._bytes(match)
            if self._progress:
                self._progress(self._done, self._total)
            yield row

    def row(self, match: Match) -> Row:
        """The row of a match; what cannot be read is a failed one."""
        references, candidates = self._tensors(match)
        bare = bare_row(match, references, candidates)
        laid: Sources | None = None
        try:
            pair, laid = self._compared(match, bare, references, candidates)
            pair = with_sound(pair, references, candidates)
        except ReadError as error:
            pair = replace(bare, status="failed", reason=str(error))
        return Row(pair, references[0], candidates[0], laid)

    def _compared(
        self, match: Match, bare: Pair, references: list[Tensor], candidates: list[Tensor]
    ) -> tuple[Pair, Sources | None]:
        sources = [_readable(tensor, "reference") for tensor in references]
        sources += [_readable(tensor, "candidate") for tensor in candidates]
        stamps = [source.stamp() for source in sources]
        stated = bare.key in self._options.layout.stated
        alone = len(sources) == 2 and match.recipe is None and not stated
        laid: Sources | None
        if alone and sources[0].shape == sources[1].shape:
            pair, laid = self._as_it_is(match, bare, references, candidates)
        else:
            found = self._lay_out(match, references, candidates)
            pair, laid = self._laid_out(match, bare, references[0], found)
        if any(source.stamp() != stamp for source, stamp in zip(sources, stamps, strict=True)):
            raise ReadError("changed while it was being read; compare again when it is complete")
        return pair, laid

    def _as_it_is(
        self, match: Match, bare: Pair, references: list[Tensor], candidates: list[Tensor]
    ) -> tuple[Pair, Sources]:
        """Equal shapes: identity is the contract, and only where it does not hold another layout is looked for."""
        sources = references[0].values(), candidates[0].values()
        plain = self._measure(match, references[0], *sources)
        pair = _judged(bare, plain, Alignment("identity"))
        if pair.status == "match" or not _may_be_rearranged(plain.figures):
            return pair, sources
        laid = self._lay_out(match, references, candidates)
        if laid.sources is None or laid.solution.is_identity or not laid.solution.fits:
            return pair, sources
        moved = self._measure(match, references[0], *laid.sources)
        if moved.judgement.status == "mismatch":
            return pair, sources
        if laid.ruling.may_match:
            return _judged(bare, moved, _described(laid)), laid.sources
        cause = laid.diagnosis(moved.figures.metrics.max_abs)
        told = replace(_described(laid), applied=False)
        found = replace(pair, reason=laid.ruling.reason, alignment=told, diagnosis=(cause,))
        return found, sources

    def _lay_out(self, match: Match, references: list[Tensor], candidates: list[Tensor]) -> Laid:
        from firstdiff.comparing.layout import lay_out  # most pairs never need the solver, which takes a while to load

        return lay_out(match, references, candidates, self._options.layout)

    def _laid_out(self, match: Match, bare: Pair, reference: Tensor, laid: Laid) -> tuple[Pair, Sources | None]:
        if laid.sources is None:
            return replace(bare, status="mismatch", reason=f"shape: {_shapes(bare)}; {laid.ruling.reason}"), None
        moved = self._measure(match, reference, *laid.sources)
        pair = _judged(bare, moved, _described(laid))
        if pair.status == "match" and not laid.ruling.may_match:
            cause = laid.diagnosis(moved.figures.metrics.max_abs)
            pair = replace(pair, status="mismatch", reason=laid.ruling.reason, diagnosis=(cause,))
        return pair, laid.sources

    def _measure(self, match: Match, tensor: Tensor, reference: Source, candidate: Source) -> _Measured:
        rules = self._options.rules
        scan = scan_pair(reference, candidate, engine=self._engine, **self._pace(reference, candidate))
        ours, theirs = self._coarsest
        types = ours[match.reference[0]] or reference.dtype, theirs[match.candidate[0]] or candidate.dtype
        basis = Basis((types[0].name, types[1].name), shown_deviation(reference, scan.reference))
        tolerance = tolerance_for(rules, str(tensor.key), *types, basis.scale, floor=tensor.record.floor)
        figures = scan.measure(Allowed(tolerance.atol, tolerance.rtol), equal_nan=rules.equal_nan)
        judgement = judge(figures, equal_nan=rules.equal_nan)
        if tolerance.rule == "floor" and judgement.status == "match" and tensor.record.floor:
            wrong = judge_channels(reference, candidate, tensor.record.floor)
            judgement = Judgement("mismatch", wrong, None) if wrong else judgement
        return _Measured(figures, tolerance, basis, judgement)

    def _pace(self, reference: Source, candidate: Source) -> dict[str, Any]:
        """How many threads a pair gets, and who hears of its progress: those side by side have one each, and nobody."""
        progress = self._progress
        if reference.nbytes < _SIDE_BY_SIDE_BYTES.stop:
            return {"threads": 1}
        if progress is None:
            return {"threads": self._threads}
        width = reference.dtype.itemsize + candidate.dtype.itemsize
        report = lambda elements: progress(min(self._done + elements * width, self._total), self._total)  # noqa: E731
        return {"threads": self._threads, "progress": report}

    def _side_by_side(self, match: Match) -> bool:
        ours, _ = self._tensors(match)
        return all(tensor.source is not None and tensor.source.nbytes in _SIDE_BY_SIDE_BYTES for tensor in ours)

    def _tensors(self, match: Match) -> tuple[list[Tensor], list[Tensor]]:
        ours, theirs = self._paired.reference.tensors, self._paired.candidate.tensors
        return [ours[place] for place in match.reference], [theirs[place] for place in match.candidate]

    def _bytes(self, match: Match) -> int:
        return sum(tensor.source.nbytes for side in self._tensors(match) for tensor in side if tensor.source)

    def _choose(self) -> Engine:
        if self._total < _LOAD_FROM_BYTES:
            return "numpy"
        if self._total >= _MAKE_FROM_BYTES:
            return "numba"
        types = {
            (ours.source.dtype, theirs.source.dtype)
            for match in self._paired.pairs
            for ours, theirs in product(*self._tensors(match))
            if ours.source and theirs.source
        }
        return "numba" if all(compiled_ready(*pair) for pair in types) else "numpy"


def _may_be_rearranged(figures: PairMeasurement) -> bool:
    """Whether looking for another layout makes sense: not where the values nearly agree as they are."""
    from firstdiff.align import could_be_rearranged

    apart = figures.metrics.rel_l2
    near = apart is not None and apart < _NEARLY_EQUAL
    return not near and could_be_rearranged(figures.reference, figures.candidate)


def _readable(tensor: Tensor, side: str) -> Source:
    if tensor.source is None:
        raise ReadError(f"the {side} {tensor.error or 'has no values'}")
    return tensor.source


def _described(laid: Laid) -> Alignment:
    alignment = laid.solution.as_schema()
    assert alignment is not None, "what was measured has a recipe"
    return replace(
        alignment,
        reference_coverage=laid.solution.reference_coverage,
        candidate_coverage=laid.solution.candidate_coverage,
        notes=laid.solution.notes,
        barred=None if laid.ruling.may_match else laid.ruling.reason,
    )


def _shapes(bare: Pair) -> str:
    sides: Sequence[tuple[int, ...] | None] = [side.shape for side in (bare.reference, bare.candidate) if side]
    return " against ".join(str(list(shape or ())) for shape in sides)


def _judged(bare: Pair, measured: _Measured, alignment: Alignment) -> Pair:
    figures, tolerance, basis, judgement = measured
    return replace(
        bare,
        status=judgement.status,
        reason=judgement.reason,
        reference=replace(bare.reference, statistics=figures.reference) if bare.reference else None,
        candidate=replace(bare.candidate, statistics=figures.candidate) if bare.candidate else None,
        alignment=alignment,
        metrics=figures.metrics,
        tolerance=tolerance,
        required=judgement.required,
        envelope=figures.envelope.to_plain()
        | {"both_nan": figures.nonfinite.both_nan, "conflicting": figures.nonfinite.conflicting}
        | {"types": list(basis.types), "scale": basis.scale},
    )
