"""Measure and judge match after match."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import final

from firstdiff.comparing.options import Options
from firstdiff.comparing.rows import bare_row
from firstdiff.errors import ReadError
from firstdiff.judge import judge, tolerance_for
from firstdiff.measure import Allowed, Engine, PairMeasurement, measure_pair
from firstdiff.pairing import Match, PairingResult
from firstdiff.schema import Alignment, Pair, Statistics, Tolerance
from firstdiff.trace import Source, Tensor

Progress = Callable[[int, int], None]

# beyond this the compiled kernel has earned back the half second it takes to start
_NUMBA_FROM_BYTES = 6 << 30
_THREADS_FROM_BYTES = 8 << 20


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

    def row(self, match: Match) -> Pair:
        reference, candidate = self._tensors(match)
        size = self._bytes(match)
        try:
            pair = self._measured(match, reference, candidate)
        except ReadError as error:
            pair = replace(bare_row(match, reference, candidate), status="failed", reason=str(error))
        self._done += size
        if self._progress:
            self._progress(self._done, self._total)
        return pair

    def _measured(self, match: Match, reference: Tensor, candidate: Tensor) -> Pair:
        sources = _readable(reference, "reference"), _readable(candidate, "candidate")
        bare = bare_row(match, reference, candidate)
        if sources[0].shape != sources[1].shape:
            shapes = " against ".join(str(list(source.shape)) for source in sources)
            return replace(bare, status="mismatch", reason=f"shape: {shapes}")
        stamps = [source.stamp() for source in sources]
        tolerance: Tolerance | None = None

        def allowed(statistics: Statistics) -> Allowed:
            nonlocal tolerance
            types = sources[0].dtype, sources[1].dtype
            tolerance = tolerance_for(
                self._options.rules, str(reference.key), *types, statistics, floor=reference.record.floor
            )
            return Allowed(tolerance.atol, tolerance.rtol)

        measured = measure_pair(
            *sources,
            allowed,
            equal_nan=self._options.rules.equal_nan,
            engine=self._engine,
            threads=self._threads if sources[0].nbytes >= _THREADS_FROM_BYTES else 1,
            progress=self._within(sources),
        )
        for source, stamp, side in zip(sources, stamps, ("reference", "candidate"), strict=True):
            if source.stamp() != stamp:
                raise ReadError(f"changed while it was being read; compare again when it is complete ({side})")
        return _judged(bare, measured, tolerance, self._options.rules.equal_nan)

    def _within(self, sources: tuple[Source, Source]) -> Callable[[int], None] | None:
        progress = self._progress
        if progress is None:
            return None
        width = sum(source.dtype.itemsize for source in sources)
        return lambda elements: progress(self._done + elements * width, self._total)

    def _tensors(self, match: Match) -> tuple[Tensor, Tensor]:
        return self._paired.reference.tensors[match.reference[0]], self._paired.candidate.tensors[match.candidate[0]]

    def _bytes(self, match: Match) -> int:
        return sum(tensor.source.nbytes for tensor in self._tensors(match) if tensor.source)

    def _choose(self) -> Engine:
        return "numba" if self._total >= _NUMBA_FROM_BYTES else "numpy"


def _readable(tensor: Tensor, side: str) -> Source:
    if tensor.source is None:
        raise ReadError(f"the {side} {tensor.error or 'has no values'}")
    return tensor.source


def _judged(bare: Pair, measured: PairMeasurement, tolerance: Tolerance | None, equal_nan: bool) -> Pair:
    judgement = judge(measured, equal_nan=equal_nan)
    return replace(
        bare,
        status=judgement.status,
        reason=judgement.reason,
        reference=replace(bare.reference, statistics=measured.reference) if bare.reference else None,
        candidate=replace(bare.candidate, statistics=measured.candidate) if bare.candidate else None,
        alignment=Alignment("identity"),
        metrics=measured.metrics,
        tolerance=tolerance,
        required=judgement.required,
        envelope=measured.envelope.to_plain(),
    )
