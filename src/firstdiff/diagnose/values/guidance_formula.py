"""Hypothesis: classifier-free guidance by another formula."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Both, Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.mixtures import given
from firstdiff.diagnose.values.sides import Sides
from firstdiff.dtypes import doubles

_NEAR = 1e-3
_FITS = 1e-5
_LEAST = 32
_UNNAMED_DOUBT = 0.1
_IMPLIES = ("residual.missing", "scale.constant", "op.skipped", "values.stale", "transition.kernel")
_Weights = tuple[float, float]
_Parts = tuple[np.ndarray, np.ndarray]
_Sides = tuple[_Parts, _Parts]


class GuidanceFormula(Hypothesis):
    """Classifier-free guidance is computed by another formula, or with the two parts exchanged.

    Guidance mixes what a model says with a condition (c) and without (u), by a strength w. Papers and libraries write
    it as `u + w (c - u)` or as `c + w (c - u)`, in which the same w is stronger by 1; some put u first in the batch,
    some c. A port that takes w from one and the formula from another is guided too little or too much.

    Tested where the reference's row is a weighted sum of the two halves of a batch, or goes beyond one of two tensors,
    with weights that add up to 1: the candidate's must be a sum of them, too, with other weights. Use the reference's
    formula and order.
    """

    code = "guidance.formula"

    def applies(self, case: Case) -> bool:
        return case.comparable and case.role != "input" and Sides.of(case).real and case.candidate.ndim >= 2

    def test(self, case: Case) -> Iterator[Explanation]:
        for reference, candidate in (*_halves(case), *_two_inputs(case)):
            ref, cand = _weights(reference, case.reference), _weights(candidate, case.candidate)
            if ref is None or cand is None or not _guides(ref) or np.allclose(ref, cand, atol=_NEAR):
                continue
            made = cand[0] * candidate[0] + cand[1] * candidate[1]
            fit = case.fit(made)
            name = _formula(ref, cand)
            yield Explanation(
                cause=self.code,
                fit=fit,
                evidence=f"{name or _sum(cand)} in place of {_sum(ref)}: {case.falls_to(fit)}",
                fix=f"compute {_sum(ref)} in {case.name}, where c is the part with the condition",
                assumed=0 if name else 2,
                implies=_IMPLIES,
                doubt=0.0 if name else _UNNAMED_DOUBT,
                predicted=made,
            )


def _guides(weights: _Weights) -> bool:
    """True if weights add up to 1 and neither part is all of it."""
    return abs(sum(weights) - 1.0) < _NEAR and min(abs(weight) for weight in weights) > _NEAR


def _formula(reference: _Weights, candidate: _Weights) -> str | None:
    """The mistake that makes one pair of weights of the other, in words; c is what the reference weighs more."""
    a, b = reference
    known = {
        "c and u exchanged": (b, a),
        "c alone, without guidance,": (1.0, 0.0),
        "u alone, without the condition,": (0.0, 1.0),
        "u + w (c - u)": (a - 1.0, 2.0 - a),
        "c + w (c - u)": (a + 1.0, -a),
        "w (c - u), with neither added,": (a, -a),
        "c - w (c - u)": (2.0 - a, a - 1.0),
        "u - w (c - u)": (-a, 1.0 + a),
    }
    return next((words for words, weights in known.items() if np.allclose(weights, candidate, atol=_NEAR)), None)


def _sum(weights: _Weights) -> str:
    return f"{weights[0]:.4g} c {'+' if weights[1] >= 0 else '-'} {abs(weights[1]):.4g} u"


def _weights(parts: _Parts, row: np.ndarray) -> _Weights | None:
    """The weights of a sum of two parts, by least squares; None where they leave anything over."""
    columns = np.stack([part.reshape(-1) for part in parts], axis=1)
    wanted = row.reshape(-1)
    if wanted.size < _LEAST or not (np.isfinite(columns).all() and np.isfinite(wanted).all()):
        return None
    found, _, rank, _ = np.linalg.lstsq(columns, wanted, rcond=1e-6)
    if rank < 2 or float(np.abs(columns @ found - wanted).max()) > _FITS * float(np.abs(wanted).max()):
        return None
    return float(found[0]), float(found[1])


def _halves(case: Case) -> Iterator[_Sides]:
    """The halves of a batch that both sides may have mixed."""
    for both in given(case):
        pair = _cut(both.reference, case), _cut(both.candidate, case)
        if pair[0] is not None and pair[1] is not None:
            yield pair[0], pair[1]


def _two_inputs(case: Case) -> Iterator[_Sides]:
    """Two inputs of the row's shape, where the reference goes beyond one of them; between them lies any mixture."""
    whole = [both for both in given(case) if _has_shape(both, case)]
    if len(whole) == 2:
        reference = _both(whole[0], whole[1], "reference", case)
        weights = _weights(reference, case.reference)
        if weights is not None and min(weights) < 0:
            yield reference, _both(whole[0], whole[1], "candidate", case)


def _cut(values: np.ndarray | None, case: Case) -> _Parts | None:
    """The halves of a batch that is twice as large as the row."""
    whole = case.candidate_whole
    if values is None or whole is None or values.dtype.kind not in "fV" or values.ndim != whole.ndim:
        return None
    if values.shape != (2 * whole.shape[0], *whole.shape[1:]):
        return None
    first, second = np.split(doubles(values), 2)
    return first[case.part], second[case.part]


def _has_shape(both: Both, case: Case) -> bool:
    whole = case.candidate_whole
    sides = both.reference, both.candidate
    return whole is not None and all(
        side is not None and side.shape == whole.shape and side.dtype.kind in "fV" for side in sides
    )


def _both(first: Both, second: Both, side: str, case: Case) -> _Parts:
    one, other = (doubles(getattr(both, side))[case.part] for both in (first, second))
    return one, other


HYPOTHESIS: Final = GuidanceFormula()
