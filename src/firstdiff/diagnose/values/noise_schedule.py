"""Hypothesis: another noise schedule."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import inf
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis, Specific
from firstdiff.diagnose.values.mixtures import Mixture, mixture_of
from firstdiff.diagnose.values.schedules import is_schedule, shape_of
from firstdiff.diagnose.values.sides import Sides
from firstdiff.dtypes import doubles

_NAMES = re.compile(r"sigma|beta|alpha|schedul|timestep|snr|noise|lambdas", re.IGNORECASE)
_ONE = 1e-3
_OF_TWO_KINDS, _OF_ONE_KIND = 0.05, 0.3
_FIX = "use the reference's schedule: its kind, its ends and its number of steps"
_IMPLIES = ("scale.constant", "scale.channel", "scale.row", "offset.constant", "normalise.mean_std", "residual.missing")


class NoiseSchedule(Hypothesis):
    """The schedule of noise is another one.

    How much noise there is at each step: betas in even steps or of a cosine, sigmas of Karras or in even factors,
    other ends, another number of training steps. Pictures come out grey, washed out or noisy.

    Tested on tables of betas, alphas or sigmas, by the shapes that schedules have; and on what signal and noise are
    mixed to: on both sides it is the two of them, with other weights, and the weights of each make up a whole. Use the
    reference's schedule. A schedule of the same kind between the same ends with another number of steps is a loop that
    takes too few or too many of them: `loop.steps`.
    """

    code = "noise.schedule"
    also = ("loop.steps",)

    def applies(self, case: Case) -> bool:
        return Sides.of(case).real if case.comparable else bool(_NAMES.search(case.key))

    def test(self, case: Case) -> Iterator[Explanation]:
        if _NAMES.search(case.key):
            tables = [_table(side) for side in (case.reference_as_recorded, case.candidate_as_recorded)]
            if tables[0] is not None and tables[1] is not None:
                yield from self._of_tables(tables[0], tables[1])
        if case.comparable:
            yield from self._of_mixtures(case)

    def _of_tables(self, reference: np.ndarray, candidate: np.ndarray) -> Iterator[Explanation]:
        shapes = [shape_of(side) for side in (reference, candidate)]
        words = [
            shape.words if shape else f"a schedule from {side[0]:.4g} to {side[-1]:.4g}"
            for shape, side in zip(shapes, (reference, candidate), strict=True)
        ]
        if reference.size != candidate.size and shapes[0] is not None and shapes[0] == shapes[1]:
            yield Explanation(
                cause="loop.steps",
                fit=Fit(0.0, 0.0, inf),
                evidence=f"both sides have {words[0]}: the candidate {candidate.size} of them, "
                f"the reference {reference.size}",
                fix=f"take as many steps as the reference: {reference.size}",
                implies=("noise.schedule", *_IMPLIES),
                doubt=_OF_TWO_KINDS,
            )
            return
        of_two_kinds = shapes[0] is not None and shapes[1] is not None and shapes[0].kind != shapes[1].kind
        if not of_two_kinds and _parallel(reference, candidate):
            return
        yield Explanation(
            cause=self.code,
            fit=Fit(0.0, 0.0, inf),
            evidence=f"both sides are schedules: the candidate has {words[1]}, the reference {words[0]}",
            fix=_FIX,
            specific=Specific.MISTAKE if None not in shapes else Specific.FORM,
            implies=_IMPLIES if of_two_kinds else (),
            doubt=_OF_TWO_KINDS if of_two_kinds else _OF_ONE_KIND,
        )

    def _of_mixtures(self, case: Case) -> Iterator[Explanation]:
        """Signal and noise, each with its weight."""
        reference, candidate = mixture_of(case, "reference"), mixture_of(case, "candidate")
        if (
            reference is None
            or candidate is None
            or reference.keys != candidate.keys
            or not (_is_whole(reference) and _is_whole(candidate))
        ):
            return
        fit = case.fit(candidate.made)
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"the candidate is {candidate.words} in place of {reference.words}: {case.falls_to(fit)}",
            fix=_FIX,
            assumed=int(candidate.weights.size),
            implies=_IMPLIES,
            doubt=0.1,
            predicted=candidate.made,
        )


def _table(values: np.ndarray | None) -> np.ndarray | None:
    """Levels in a row, where values are such."""
    if values is None or dtypes.kind_of(values.dtype) != "float":
        return None
    levels = doubles(np.squeeze(values))
    return levels if is_schedule(levels) else None


def _parallel(reference: np.ndarray, candidate: np.ndarray) -> bool:
    """True if one array is a multiple of the other: a scale rather than another schedule."""
    if reference.shape != candidate.shape:
        return False
    factor = float(np.vdot(reference, candidate)) / float(np.vdot(reference, reference))
    return bool(np.abs(candidate - factor * reference).max() <= _ONE * np.abs(candidate).max())


def _is_whole(mixture: Mixture) -> bool:
    """True if the weights of signal and noise, or their squares, add up to 1."""
    if len(mixture.keys) != 2:
        return False
    return any(
        bool(np.all(np.abs(sums - 1.0) < _ONE)) for sums in (mixture.weights.sum(0), (mixture.weights**2).sum(0))
    )


HYPOTHESIS: Final = NoiseSchedule()
