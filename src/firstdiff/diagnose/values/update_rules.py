"""Hypotheses: another update rule, guidance by another formula, or steps in the wrong direction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from firstdiff.diagnose.case import Both, Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.sides import Sides
from firstdiff.diagnose.values.uniform_noise import uniform_kernel
from firstdiff.dtypes import doubles

_MOST_PARTS = 4
_EXACT = 1e-5
_FEWEST_ELEMENTS = 16


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """A weighted sum of inputs that gives a row.

    keys: the parts
    weights: [part, sample]; one sample where all have the same
    made: the sum, in the layout of the row
    """

    keys: tuple[str, ...]
    weights: np.ndarray
    made: np.ndarray

    @property
    def words(self) -> str:
        sides = [f"{_weight_words(weights)} times {key}" for key, weights in zip(self.keys, self.weights, strict=True)]
        return " plus ".join(sides)


def mixture_of(case: Case, side: Literal["reference", "candidate"]) -> Mixture | None:
    """Solve for one side of a case as a weighted sum of its inputs; None where it is none."""
    row = case.reference if side == "reference" else case.candidate
    parts = {both.key: values for both in inputs_of(case) if (values := _compared_part(both, side, case)) is not None}
    if not 2 <= len(parts) <= _MOST_PARTS or row.ndim < 2 or not np.isfinite(row).all():
        return None
    for samples in (1, row.shape[0]):
        found = _solve_weights(tuple(parts), np.stack(list(parts.values())), row, samples)
        if found is not None:
            return found
    return None


def mixtures_of(case: Case) -> tuple[Mixture, Mixture] | None:
    """Solve for both sides as weighted sums of the same inputs; None where either is none."""
    reference, candidate = mixture_of(case, "reference"), mixture_of(case, "candidate")
    if reference is None or candidate is None or reference.keys != candidate.keys:
        return None
    return reference, candidate


def inputs_of(case: Case) -> list[Both]:
    """Return the inputs of a case, or its sources where one side did not record inputs, each once."""
    inputs = list(case.inputs.values())
    recorded = inputs and all(both.candidate is not None for both in inputs)
    return list({both.key: both for both in (inputs if recorded else case.sources)}.values())


def _compared_part(both: Both, side: Literal["reference", "candidate"], case: Case) -> np.ndarray | None:
    values = both.reference if side == "reference" else both.candidate
    if values is None or values.ndim != len(case.part) or values.dtype.kind not in "fV":
        return None
    cut = doubles(values[case.part])
    return cut if cut.shape == case.candidate.shape and np.isfinite(cut).all() else None


def _solve_weights(keys: tuple[str, ...], parts: np.ndarray, row: np.ndarray, samples: int) -> Mixture | None:
    """Solve by least squares for each sample; None if a residual is left, or if too few elements fit anything."""
    each = row.size // samples
    if each < _FEWEST_ELEMENTS:
        return None
    wanted, inputs = row.reshape(samples, each), parts.reshape(len(parts), samples, each)
    weights = np.empty((len(parts), samples))
    for at in range(samples):
        weights[:, at] = np.linalg.lstsq(inputs[:, at].T, wanted[at], rcond=None)[0]
    made = np.einsum("ps,pse->se", weights, inputs)
    if float(np.abs(made - wanted).max()) > _EXACT * float(np.abs(wanted).max()):
        return None
    return Mixture(keys, weights, made.reshape(row.shape))


def _weight_words(weights: np.ndarray) -> str:
    if weights.size == 1:
        return f"{weights[0]:.4g}"
    return f"{weights.min():.4g} to {weights.max():.4g}"


_NEAR = 1e-3
_DOUBT = 0.1


class TransitionKernel(Hypothesis):
    """A loop goes from one step to the next by another rule.

    A sampler mixes what it has with what the model says: DDPM, DDIM, Euler and the others each with their own weights,
    and a port that has another one of them, or a sign or a root wrong in it, goes elsewhere a little at every step.

    Tested where what comes out of a step is what the next step is given: on both sides it is a weighted sum of what
    goes in, with other weights. Also on the kernels of discrete diffusion with uniform noise: on both sides every row
    holds one number but for one place, and the numbers are others. Compute the step by the reference's rule.
    """

    code = "transition.kernel"

    def applies(self, case: Case) -> bool:
        return case.comparable and case.role == "output" and Sides.of(case).real

    def test(self, case: Case) -> Iterator[Explanation]:
        yield from self._of_uniform_noise(case)
        if case.nearby.goes_round:
            yield from self._of_mixtures(case)

    def _of_uniform_noise(self, case: Case) -> Iterator[Explanation]:
        reference, candidate = uniform_kernel(case.reference), uniform_kernel(case.candidate)
        if reference is None or candidate is None or abs(reference.total - 1.0) > _NEAR or reference.redraw <= 0:
            return
        if not np.array_equal(reference.places, candidate.places):
            return
        fit = case.fit(candidate.made)
        lost = "" if abs(candidate.total - 1.0) <= _NEAR else f", so that its rows sum to {candidate.total:.4g}"
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"the kernel has {candidate.words}, "
            f"in place of {reference.redraw:.4g} and {reference.keep:.4g}{lost}: {case.falls_to(fit)}",
            fix=f"compute {case.name} by the reference's rule: the noise over the number of classes, and what is kept",
            assumed=2,
            implies=("values.clipped", "offset.constant", "scale.constant", "bias.missing"),
            doubt=_DOUBT,
            predicted=candidate.made,
        )

    def _of_mixtures(self, case: Case) -> Iterator[Explanation]:
        mixtures = mixtures_of(case)
        if mixtures is None:
            return
        reference, candidate = mixtures
        if np.allclose(reference.weights, candidate.weights, rtol=_NEAR, atol=_NEAR):
            return
        fit = case.fit(candidate.made)
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"the step gives {candidate.words} in place of {reference.words}: {case.falls_to(fit)}",
            fix=f"compute {case.name} by the reference's rule",
            assumed=int(candidate.weights.size),
            implies=("residual.missing", "scale.constant", "noise.schedule", "op.skipped"),
            doubt=_DOUBT,
            predicted=candidate.made,
        )


_EXACT_GUIDANCE = 1e-5
_FEWEST_GUIDED = 32
_UNNAMED_DOUBT = 0.1
_GUIDANCE_IMPLIES = ("residual.missing", "scale.constant", "op.skipped", "values.stale", "transition.kernel")
_Weights = tuple[float, float]
_Parts = tuple[np.ndarray, np.ndarray]
_BothParts = tuple[_Parts, _Parts]


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
        for reference, candidate in (*_from_batch_halves(case), *_from_two_inputs(case)):
            ref, cand = _weights(reference, case.reference), _weights(candidate, case.candidate)
            if ref is None or cand is None or not _guides(ref) or np.allclose(ref, cand, atol=_NEAR):
                continue
            made = cand[0] * candidate[0] + cand[1] * candidate[1]
            fit = case.fit(made)
            name = _formula_name(ref, cand)
            yield Explanation(
                cause=self.code,
                fit=fit,
                evidence=f"{name or _sum_words(cand)} in place of {_sum_words(ref)}: {case.falls_to(fit)}",
                fix=f"compute {_sum_words(ref)} in {case.name}, where c is the part with the condition",
                assumed=0 if name else 2,
                implies=_GUIDANCE_IMPLIES,
                doubt=0.0 if name else _UNNAMED_DOUBT,
                predicted=made,
            )


def _guides(weights: _Weights) -> bool:
    """True if weights add up to 1 and neither part is all of it."""
    return abs(sum(weights) - 1.0) < _NEAR and min(abs(weight) for weight in weights) > _NEAR


def _formula_name(reference: _Weights, candidate: _Weights) -> str | None:
    """Name the mistake that turns the reference's weights into the candidate's; c is the part with more weight."""
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


def _sum_words(weights: _Weights) -> str:
    return f"{weights[0]:.4g} c {'+' if weights[1] >= 0 else '-'} {abs(weights[1]):.4g} u"


def _weights(parts: _Parts, row: np.ndarray) -> _Weights | None:
    """Solve for the weights of a sum of two parts by least squares; None if a residual is left."""
    columns = np.stack([part.reshape(-1) for part in parts], axis=1)
    wanted = row.reshape(-1)
    if wanted.size < _FEWEST_GUIDED or not (np.isfinite(columns).all() and np.isfinite(wanted).all()):
        return None
    found, _, rank, _ = np.linalg.lstsq(columns, wanted, rcond=1e-6)
    if rank < 2 or float(np.abs(columns @ found - wanted).max()) > _EXACT_GUIDANCE * float(np.abs(wanted).max()):
        return None
    return float(found[0]), float(found[1])


def _from_batch_halves(case: Case) -> Iterator[_BothParts]:
    """Yield the halves of each batch that both sides may have mixed."""
    for both in inputs_of(case):
        pair = _batch_halves(both.reference, case), _batch_halves(both.candidate, case)
        if pair[0] is not None and pair[1] is not None:
            yield pair[0], pair[1]


def _from_two_inputs(case: Case) -> Iterator[_BothParts]:
    """Yield two inputs that the reference extrapolates: between the two lies any mixture."""
    whole = [both for both in inputs_of(case) if _has_shape(both, case)]
    if len(whole) == 2:
        reference = _parts_of(whole[0], whole[1], "reference", case)
        weights = _weights(reference, case.reference)
        if weights is not None and min(weights) < 0:
            yield reference, _parts_of(whole[0], whole[1], "candidate", case)


def _batch_halves(values: np.ndarray | None, case: Case) -> _Parts | None:
    """Return the halves of a batch twice as large as the row; None for any other."""
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


def _parts_of(first: Both, second: Both, side: str, case: Case) -> _Parts:
    one, other = (doubles(getattr(both, side))[case.part] for both in (first, second))
    return one, other


class IntegratorSign(Hypothesis):
    """A loop goes in the wrong direction: it subtracts the step that the reference adds, or the other way round.

    Flow matching and diffusion integrate a velocity: `x + dt * v` from noise at 0 to data at 1, `x - dt * v` where time
    runs from 1 to 0. Ports mix the two, or give dt or v the wrong sign.

    Tested where a step's result is what the next step is given: both sides keep the state as it is and add the same
    share of the same tensor, with opposite signs. Turn the sign of dt, or of the velocity.
    """

    code = "integrator.sign"

    def applies(self, case: Case) -> bool:
        return case.comparable and case.role != "input" and Sides.of(case).real and case.nearby.goes_round

    def test(self, case: Case) -> Iterator[Explanation]:
        mixtures = mixtures_of(case)
        if mixtures is None:
            return
        reference, candidate = mixtures
        turned = _reversed_part(reference, candidate)
        if turned is None:
            return
        fit = case.fit(candidate.made)
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"the step gives {candidate.words} in place of {reference.words}: {case.falls_to(fit)}",
            fix=f"turn the sign of {turned} in {case.name}, or that of its step",
            implies=("transition.kernel", "residual.missing", "sign.flip", "op.skipped"),
            predicted=candidate.made,
        )


def _reversed_part(reference: Mixture, candidate: Mixture) -> str | None:
    """Return the part whose sign is flipped while the state keeps its weight of 1; None if there is none."""
    opposite = np.isclose(reference.weights, -candidate.weights, rtol=_NEAR, atol=0).all(axis=1)
    kept = np.isclose(reference.weights, candidate.weights, rtol=_NEAR, atol=_NEAR).all(axis=1)
    state = kept & np.isclose(reference.weights, 1.0, rtol=_NEAR).all(axis=1)
    if int(opposite.sum()) != 1 or not state.any() or not (opposite | kept).all():
        return None
    return reference.keys[int(np.flatnonzero(opposite)[0])]


TRANSITION_KERNEL: Final = TransitionKernel()
GUIDANCE_FORMULA: Final = GuidanceFormula()
INTEGRATOR_SIGN: Final = IntegratorSign()
