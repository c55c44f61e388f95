"""Hypotheses: a convolution with other settings, another pooling, another interpolation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import Plan, conv, pooling, reductions
from firstdiff.ops.arrays import tuple_of
from firstdiff.ops.conv import paddings

_MODES = ("zeros", "reflect", "replicate", "circular")


class ConvPadding(Counterfactual):
    """A convolution is padded in another way.

    On one side instead of both (causal or not), or with other values: zeros, reflected, repeated, wrapped around.
    With other values only the edges are wrong; with another side everything is moved by some elements.

    Tested by computing the convolution with every other padding that gives the same length. Pad as the reference
    does.
    """

    code = "conv.padding"
    functions = (conv.conv,)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        for what, plan in _other_paddings(trial.plan):
            fix = f"pad {trial.key} as the reference does"
            yield Variant(plan=plan, what=what, fix=fix, implies=("shift.sequence",))


def _other_paddings(plan: Plan) -> Iterator[tuple[str, Plan]]:
    kernel = np.asarray(plan.arrays["weight"])
    edges = paddings(plan.settings["padding"], kernel.shape[2:], tuple_of(plan.settings["dilation"], kernel.ndim - 2))
    if not edges:
        return
    for mode in _MODES:
        if mode != plan.settings["padding_mode"]:
            yield f"padded with {mode}", plan.changed(padding_mode=mode)
    total = sum(edges[-1])
    for before in range(total + 1):
        if before != edges[-1][0]:
            pads: Any = [*edges[:-1], (before, total - before)]
            yield f"padded by {before} before and {total - before} after", plan.changed(padding=pads)


class ConvStride(Counterfactual):
    """A strided convolution takes other places.

    With a stride of 2 every second place is taken. TensorFlow's "same" pads the end first, so that it takes the other
    ones; so does padding after the stride was counted.

    Tested by moving where the stride begins. Pad as the reference does, before and after.
    """

    code = "conv.stride"
    functions = (conv.conv,)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        plan = trial.plan
        kernel = np.shape(plan.arrays["weight"])[2:]
        steps = tuple_of(plan.settings["stride"], len(kernel))
        edges = paddings(plan.settings["padding"], kernel, tuple_of(plan.settings["dilation"], len(kernel)))
        if not steps or max(steps) == 1:
            return
        for phase in range(1, max(steps)):
            for sign in (1, -1):
                moved: Any = [(before - sign * phase, after + sign * phase) for before, after in edges]
                if all(before >= 0 and after >= 0 for before, after in moved):
                    yield Variant(
                        plan=plan.changed(padding=moved),
                        what=f"begun {phase} {'later' if sign > 0 else 'earlier'}",
                        fix=f"pad {trial.key} as the reference does, so that the stride begins where it should",
                        implies=("conv.padding", "shift.sequence"),
                    )


_TRIED_DILATIONS = (1, 2, 3, 4, 5, 9)


class ConvDilation(Counterfactual):
    """A convolution has another dilation.

    The elements of the kernel are laid next to each other instead of apart, or the other way round, and the padding
    follows, so that the shape is right.

    Tested by computing the convolution with other dilations, padded to the same length. Set the dilation to the
    reference's.
    """

    code = "conv.dilation"
    functions = (conv.conv,)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        plan = trial.plan
        kernel = np.shape(plan.arrays["weight"])[2:]
        gaps = tuple_of(plan.settings["dilation"], len(kernel))
        edges = paddings(plan.settings["padding"], kernel, gaps)
        for gap in _TRIED_DILATIONS:
            spans = [(gap - old) * (size - 1) for old, size in zip(gaps, kernel, strict=True)]
            wider = [(b + span - span // 2, a + span // 2) for (b, a), span in zip(edges, spans, strict=True)]
            if (gap,) * len(kernel) != gaps and all(before >= 0 and after >= 0 for before, after in wider):
                yield Variant(
                    plan=plan.changed(dilation=gap, padding=wider),
                    what=f"with a dilation of {gap} instead of {gaps[-1]}",
                    fix=f"set the dilation of {trial.key} to {gaps[-1]}",
                )


class ConvFlipped(Counterfactual):
    """The kernel of a convolution is flipped.

    What models call convolution is correlation: the kernel is laid down as it is. Libraries of signal processing flip
    it first.

    Tested by flipping the kernel along each of its axes and all of them. Flip it when loading, or call correlation.
    """

    code = "conv.flipped"
    functions = (conv.conv, conv.conv_transpose)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        kernel = np.asarray(trial.plan.arrays["weight"])
        axes = [axis for axis in range(2, kernel.ndim) if kernel.shape[axis] > 1]
        for flipped in dict.fromkeys([tuple(axes), *((axis,) for axis in axes)]):
            if flipped:
                yield Variant(
                    plan=trial.plan.on(weight=np.flip(kernel, axis=flipped)),
                    what="with the kernel flipped",
                    fix=f"do not flip the kernel of {trial.key}",
                    implies=("weights.differ",),
                )


class PoolKind(Counterfactual):
    """Values are pooled or reduced in another way.

    The mean instead of the greatest, padding counted or not, a sum instead of a mean, along another axis.

    Tested by computing the other ways. Pool or reduce as the reference does.
    """

    code = "pool.kind"
    functions = (
        *(pooling.avg_pool, pooling.max_pool),
        *(reductions.reduce, reductions.variance),
    )

    def variants(self, trial: Trial) -> Iterator[Variant]:
        for what, plan in _other_poolings(trial.plan):
            yield Variant(plan=plan, what=what, fix=f"compute {trial.key} as the reference does")


def _other_poolings(plan: Plan) -> Iterator[tuple[str, Plan]]:
    if plan.function is pooling.avg_pool:
        yield "with the greatest of each window", plan.with_function(pooling.max_pool)
        counted = bool(plan.settings["count_include_pad"])
        yield f"with padding {'not ' if counted else ''}counted", plan.changed(count_include_pad=not counted)
    elif plan.function is pooling.max_pool:
        yield "with the mean of each window", plan.with_function(pooling.avg_pool)
    else:
        for kind in ("mean", "sum", "amax", "amin"):
            if kind != plan.settings.get("kind"):
                yield f"by {kind}", plan.with_function(reductions.reduce, kind=kind)
        for axis in range(np.ndim(plan.arrays["input"])):
            yield f"along axis {axis}", plan.changed(dim=axis)


_LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}


class ResizeMode(Counterfactual):
    """Values are stretched or shrunk in another way.

    Nearest instead of linear, corners aligned or not, the nearest element counted from the edge or from the middle.
    Libraries differ in all of these.

    Tested by computing the other ways. Interpolate as the reference does.
    """

    code = "resize.mode"
    functions = (pooling.interpolate,)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        linear = _LINEAR.get(np.ndim(trial.plan.arrays["input"]), "linear")
        right = trial.plan.settings["mode"], bool(trial.plan.settings["align_corners"])
        for mode, corners in (("nearest", False), ("nearest-exact", False), (linear, False), (linear, True)):
            if (mode, corners) != right:
                yield Variant(
                    plan=trial.plan.changed(mode=mode, align_corners=corners),
                    what=f"by {mode}{' with corners aligned' if corners else ''}",
                    fix=f"interpolate in {trial.key} by {right[0]}{' with corners aligned' if right[1] else ''}",
                )


CONV_PADDING: Final = ConvPadding()
CONV_STRIDE: Final = ConvStride()
CONV_DILATION: Final = ConvDilation()
CONV_FLIPPED: Final = ConvFlipped()
POOL_KIND: Final = PoolKind()
RESIZE_MODE: Final = ResizeMode()
