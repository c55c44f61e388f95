"""Hypotheses: a normalisation of another kind, or with another eps, variance, weight or grouping."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant, solve_setting
from firstdiff.diagnose.hypothesis import Explanation, Fit
from firstdiff.dtypes import doubles
from firstdiff.ops import Plan, arithmetic, norms

_NORM_NAMES = {
    norms.layer_norm: "a layer norm",
    norms.rms_norm: "an RMS norm",
    norms.group_norm: "a group norm",
    norms.batch_norm: "a batch norm",
}
_MOST_EPS = 0.1


class NormKind(Counterfactual):
    """The values are normalised in another way.

    Layer norm takes the mean away before it divides by the deviation, RMS norm does not; group norm does it for
    groups of channels, instance norm for each channel, batch norm by statistics of the batch or of the training data.
    The statistics may also be taken over the wrong axes, as where channels come first.

    Tested by computing the other norms with the same weights and eps. Use the reference's kind of norm.
    """

    code = "norm.kind"
    functions = tuple(_NORM_NAMES)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        right = _NORM_NAMES[trial.function]
        for name, plan in _other_norms(trial.plan):
            yield Variant(plan=plan, what=f"as {name} instead of {right}", fix=f"make {trial.key} {right}")


def _other_norms(plan: Plan) -> Iterator[tuple[str, Plan]]:
    if plan.function in (norms.layer_norm, norms.rms_norm):
        other = norms.rms_norm if plan.function is norms.layer_norm else norms.layer_norm
        yield _NORM_NAMES[other], plan.with_function(other)
        x = np.asarray(plan.arrays["input"])
        bare = plan.on(weight=None, bias=None)
        for axis in range(x.ndim - 1):
            moved = bare.changed(axes=(axis,))
            yield f"a norm over axis {axis}", _with_affine_of(plan, moved)
        yield "a norm over all but the batch", _with_affine_of(plan, bare.changed(axes=tuple(range(1, x.ndim))))
    if plan.function in (norms.group_norm, norms.batch_norm):
        channels = np.shape(plan.arrays["input"])[1]
        for name, groups in (("a layer norm over all channels", 1), ("an instance norm", channels)):
            yield name, plan.with_function(norms.group_norm, groups=groups)
        yield "a layer norm over the channels", plan.with_function(norms.layer_norm, axes=(1,))
        yield "an RMS norm over the channels", plan.with_function(norms.rms_norm, axes=(1,))
    if plan.function is norms.group_norm:
        yield "a batch norm", plan.with_function(norms.batch_norm, batch_statistics=True)


def _with_affine_of(plan: Plan, bare: Plan) -> Plan:
    """Return the norm over other axes with the weight and bias of the original one."""
    weight, bias = plan.arrays.get("weight"), plan.arrays.get("bias")
    function, settings, one_plus = bare.function, dict(bare.settings), bool(plan.settings.get("one_plus"))

    def moved(input: np.ndarray) -> np.ndarray:
        x = function(input, **settings)
        x = x if weight is None else x * (np.asarray(weight, dtype=np.float64) + float(one_plus))
        return x if bias is None else np.asarray(x + np.asarray(bias, dtype=np.float64))

    return Plan.of(moved, {"input": plan.arrays["input"]})


_USUAL_EPS = (1e-5, 1e-6, 1e-12, 1e-8, 1e-3, 1e-7, 1e-4, 1e-2, 0.0)


class NormEps(Counterfactual):
    """A normalisation adds another eps.

    Every norm adds a small eps to the variance before the root; models use 1e-5, 1e-6, 1e-12. Another one changes the
    output by a share of `eps / variance`, the more the smaller the input: about 1e-3 for inputs of deviation 0.1.

    Tested by computing the reference's norm on the candidate's own inputs and solving for the eps that fits, and by the
    number that each side's code adds where that was recorded. Set the candidate's eps to the reference's.
    """

    code = "norm.eps"
    functions = (norms.layer_norm, norms.rms_norm, norms.group_norm, norms.batch_norm, norms.lp_norm)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        right = float(trial.plan.settings["eps"])
        solved = solve_setting(trial, "eps", usual=_USUAL_EPS, low=1e-14, high=10.0)
        if solved is not None and solved.value != right:
            yield Variant(
                plan=solved.plan,
                fit=solved.fit,
                what=f"with eps {solved.value:.3g} instead of {right:.3g}",
                fix=f"set eps of {trial.key} to {right:.3g}",
                assumed=0 if solved.usual else 1,
                implies=("scale.constant", "scale.row"),
            )

    def applies(self, case: Case) -> bool:
        return super().applies(case) or _added_eps(case) is not None

    def test(self, case: Case) -> Iterator[Explanation]:
        yield from super().test(case)
        added = _added_eps(case)
        if added is not None:
            yield Explanation(
                cause=self.code,
                fit=Fit(0.0, 0.0, inf),
                evidence=f"the candidate adds {added[1]:.3g} where the reference adds {added[0]:.3g}",
                fix=f"set eps of {case.name.rpartition('.')[0]} to {added[0]:.3g}",
                implies=("offset.constant", "residual.missing"),
            )


def _added_eps(case: Case) -> tuple[float, float] | None:
    """Return the small numbers that a norm's code adds on both sides, as recorded, where they differ."""
    module = case.around_op
    if case.op != "add" or module is None or not module.endswith("Norm"):
        return None
    added = [attrs.get("other") for attrs in (case.attrs, case.candidate_attrs)]
    numbers = [float(number) for number in added if isinstance(number, int | float) and 0 <= number < _MOST_EPS]
    return (numbers[0], numbers[1]) if len(numbers) == len(added) and numbers[0] != numbers[1] else None


class NormVariance(Counterfactual):
    """A normalisation takes its variance in another way.

    The variance is divided by n - 1 instead of n (many libraries' `std` does that), or eps is added to the deviation
    instead of the variance: all values are then off by one small factor. Or the root is forgotten, and values are
    divided by the variance instead of the deviation: each vector has a factor of its own.

    Tested by computing the norm in the other ways. Divide by n, add eps under the root and take the root, as the
    reference does.
    """

    code = "norm.variance"
    functions = (norms.layer_norm, norms.rms_norm, norms.group_norm, norms.batch_norm)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        settings = trial.plan.settings
        if "unbiased" in settings:
            right = bool(settings["unbiased"])
            yield Variant(
                plan=trial.plan.changed(unbiased=not right),
                what=f"with a variance divided by n{'' if right else ' - 1'}",
                fix=f"divide the variance of {trial.key} by n{' - 1' if right else ''}",
                implies=("scale.constant",),
            )
        if "eps_outside" in settings:
            outside = bool(settings["eps_outside"])
            yield Variant(
                plan=trial.plan.changed(eps_outside=not outside),
                what=f"with eps added to the {'variance' if outside else 'deviation'}",
                fix=f"add eps to the {'deviation' if outside else 'variance'} in {trial.key}",
                implies=("scale.constant", "scale.row", "norm.eps"),
            )
        if trial.function in _ROOTLESS:
            yield Variant(
                plan=trial.plan.with_function(_ROOTLESS[trial.function]),
                what="divided by the variance instead of the deviation",
                fix=f"take the root of the variance in {trial.key}",
                implies=("scale.constant", "scale.row", "scale.channel", "norm.eps"),
            )


def _rootless(norm: Callable[..., np.ndarray], centre: bool) -> Callable[..., np.ndarray]:
    """Return a norm that divides by the variance, or the mean square, without its root."""

    def divided(
        input: np.ndarray,
        weight: np.ndarray | None = None,
        bias: np.ndarray | None = None,
        *,
        axes: Sequence[int] = (-1,),
        eps: float,
        one_plus: bool = False,
    ) -> np.ndarray:
        x, across = doubles(input), tuple(axes)
        if centre:
            x = x - x.mean(axis=across, keepdims=True)
        deviation = np.sqrt(np.mean(x * x, axis=across, keepdims=True) + eps)
        scaled: np.ndarray = norm(input, weight, None, axes=axes, eps=eps, one_plus=one_plus) / deviation
        return scaled if bias is None else np.asarray(scaled + doubles(bias))

    return divided


_ROOTLESS = {norms.layer_norm: _rootless(norms.layer_norm, True), norms.rms_norm: _rootless(norms.rms_norm, False)}


class NormAffine(Counterfactual):
    """A normalisation leaves out its weight, or weight and bias.

    After normalising, each channel is multiplied with a weight and moved by a bias. A port that forgets this, or does
    not load the weights, gives plain normalised values.

    Tested by computing the norm without them. Multiply with the weight and add the bias; load both.
    """

    code = "norm.affine"
    functions = (norms.layer_norm, norms.rms_norm, norms.group_norm, norms.batch_norm)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        has_bias = trial.plan.arrays.get("bias") is not None
        if trial.plan.arrays.get("weight") is None:
            return
        yield Variant(
            plan=trial.plan.on(weight=None, bias=None),
            what=f"without its weight{' and bias' if has_bias else ''}",
            fix=f"multiply with the weight of {trial.key}{' and add its bias' if has_bias else ''}",
            implies=("scale.channel",),
        )
        if has_bias:
            yield Variant(
                plan=trial.plan.on(weight=None),
                what="without its weight",
                fix=f"multiply with the weight of {trial.key}",
                implies=("scale.channel",),
            )


class AffineOnePlus(Counterfactual):
    """A weight is used as `w` where the reference uses `1 + w`, or the other way round.

    Gemma and others store the weight of a norm as its distance from 1, and adaLN multiplies with `1 + scale`. A port
    that takes such a weight as it is scales by nearly nothing; one that adds 1 to a plain weight about doubles the
    values.

    Tested by computing the operation the other way. Multiply with `1 + w` where the reference does, and only there.
    """

    code = "affine.one_plus"
    functions = (norms.layer_norm, norms.rms_norm, norms.group_norm, arithmetic.modulate)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        if trial.function is not arithmetic.modulate and trial.plan.arrays.get("weight") is None:
            return
        right = bool(trial.plan.settings["one_plus"])
        yield Variant(
            plan=trial.plan.changed(one_plus=not right),
            what=f"multiplied with {'w' if right else '1 + w'} instead of {'1 + w' if right else 'w'}",
            fix=f"multiply with {'1 + w' if right else 'w'} in {trial.key}",
            implies=("scale.channel", "residual.missing"),
        )


class NormGroups(Counterfactual):
    """A group norm has another number of groups.

    The channels are normalised in groups of another size. The output is of the right size and looks right, and every
    channel is a little off.

    Tested with every number of groups that divides the channels. Set the number of groups to the reference's.
    """

    code = "norm.groups"
    functions = (norms.group_norm,)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        right = int(trial.plan.settings["groups"])
        channels = np.shape(trial.plan.arrays["input"])[1]
        for groups in range(1, channels + 1):
            if channels % groups == 0 and groups != right:
                yield Variant(
                    plan=trial.plan.changed(groups=groups),
                    what=f"with {groups} groups instead of {right}",
                    fix=f"give {trial.key} {right} groups",
                    implies=("norm.kind",),
                )


class NormBatchStatistics(Counterfactual):
    """A batch norm uses the statistics of the batch instead of the running ones.

    In training a batch norm normalises by the mean and variance of the batch at hand; in evaluation by those it has
    gathered. A model left in training mode gives other values for every batch.

    Tested by computing the norm with the batch's own statistics. Put the candidate in evaluation mode
    (`model.eval()`).
    """

    code = "norm.batch_statistics"
    functions = (norms.batch_norm,)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        if trial.plan.settings["batch_statistics"] or trial.plan.arrays.get("running_mean") is None:
            return
        yield Variant(
            plan=trial.plan.changed(batch_statistics=True),
            what="with the mean and variance of the batch itself",
            fix=f"put {trial.key} in evaluation mode, so that it uses the running statistics",
            implies=("norm.kind", "scale.channel"),
        )


NORM_KIND: Final = NormKind()
NORM_EPS: Final = NormEps()
NORM_VARIANCE: Final = NormVariance()
NORM_AFFINE: Final = NormAffine()
AFFINE_ONE_PLUS: Final = AffineOnePlus()
NORM_GROUPS: Final = NormGroups()
NORM_BATCH_STATISTICS: Final = NormBatchStatistics()
