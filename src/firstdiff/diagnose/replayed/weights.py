"""Hypotheses: weights transposed, reordered or not folded, and biases left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from firstdiff.align.stride_search import divisors
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.dtypes import doubles
from firstdiff.ops import conv, linear
from firstdiff.ops.plan import is_bias_name, is_weight_name


class WeightsTransposed(Counterfactual):
    """A weight is used transposed.

    Linear layers store `[out, in]`, GPT-2's Conv1D, TensorFlow and many ports `[in, out]`. A square weight fits
    either way, so that nothing complains. Kernels of convolutions have the same with their first two axes.

    Tested by computing the operation with the weight transposed. Transpose it when loading.
    """

    code = "weights.transposed"

    def variants(self, trial: Trial) -> Iterator[Variant]:
        for name, weight in trial.plan.arrays.items():
            if weight is None or not is_weight_name(name):
                continue
            array = np.asarray(weight)
            if array.ndim >= 2 and array.shape[0] == array.shape[1] and trial.plan.operator != "embedding":
                yield Variant(
                    plan=trial.plan.on(**{name: array.swapaxes(0, 1)}),
                    what=f"with {_in_words(name)} transposed",
                    fix=f"transpose {_in_words(name)} of {trial.key} when loading it",
                    implies=("weights.differ", "values.uncorrelated"),
                )


def _in_words(name: str) -> str:
    """Return a parameter's own name, or what an operator's array is."""
    return name if name.startswith("weight_") else f"the {name.replace('_', ' ')}"


_FEW_TOKENS, _FEW_OUTPUTS = 4, 64
_MOST_ORDERS = 64
_MOST_LEFT = 0.3


class WeightsOrder(Counterfactual):
    """The columns of a weight are in another order than what they are multiplied with.

    Behind a picture that was flattened with its channels last in place of first, behind heads or halves that lie
    otherwise, or where a file holds them backwards: every weight is there, and meets another number.

    Tested by putting what goes in into the orders that layouts give: backwards, and cut in two with the parts
    exchanged. Bring the columns into the reference's order when loading.
    """

    code = "weights.differ"
    functions = (linear.linear,)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        look = _Sample.at(trial) if trial.key == trial.case.key else None
        if look is None:
            return
        given = doubles(trial.plan.arrays["input"])
        for words, order in _column_orders(given.shape[-1]):
            if look.may_fit(order):
                yield Variant(
                    plan=trial.plan.on(input=given[..., order]),
                    what=f"with the columns of the weight {words}",
                    fix=f"bring the columns of the weight of {trial.key} into the reference's order when loading it",
                    implies=("values.uncorrelated",),
                )


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """A few tokens and outputs, enough to reject an order cheaply."""

    tokens: np.ndarray
    weight: np.ndarray
    bias: np.ndarray
    wanted: np.ndarray

    @staticmethod
    def at(trial: Trial) -> _Sample | None:
        arrays, whole = trial.plan.arrays, trial.case.candidate_whole
        given, weight, bias = np.asarray(arrays["input"]), np.asarray(arrays["weight"]), arrays.get("bias")
        if whole is None or given.ndim < 1 or weight.ndim != 2 or whole.shape[:-1] != given.shape[:-1]:
            return None
        rows = weight.T if trial.plan.settings["transposed"] else weight
        return _Sample(
            doubles(given.reshape(-1, given.shape[-1])[:_FEW_TOKENS]),
            doubles(rows[:_FEW_OUTPUTS]),
            doubles(np.zeros(1) if bias is None else np.asarray(bias)[:_FEW_OUTPUTS]),
            doubles(whole.reshape(-1, whole.shape[-1])[:_FEW_TOKENS, :_FEW_OUTPUTS]),
        )

    def may_fit(self, order: np.ndarray) -> bool:
        made = self.tokens[:, order] @ self.weight.T + self.bias
        return bool(np.abs(made - self.wanted).max(initial=0.0) <= _MOST_LEFT * np.abs(self.wanted).max(initial=0.0))


def _column_orders(count: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the column orders that other layouts give."""
    if count < 2:
        return
    plain = np.arange(count)
    yield "backwards", plain[::-1]
    for parts in divisors(count)[1:-1][:_MOST_ORDERS]:
        yield f"cut into {parts} x {count // parts} with the two exchanged", plain.reshape(parts, -1).T.reshape(-1)
    if count % 2 == 0:
        yield "with its halves swapped", np.roll(plain, count // 2)


_LENGTH_AND_DIRECTION = (
    ("weight_g", "weight_v"),
    ("parametrizations.weight.original0", "parametrizations.weight.original1"),
)
_IMPLIES = ("weights.differ", "scale.channel", "scale.constant", "values.uncorrelated")


class WeightsUnfolded(Counterfactual):
    """A weight that is kept as a direction and a length is used without putting the two together.

    Weight normalisation stores `weight_v` and `weight_g`; the weight is `weight_g * weight_v / |weight_v|`, the length
    taken for each index of the first axis. Ports take `weight_v` for the weight, forget to divide by its length, leave
    out `weight_g`, or take the length over the wrong axis, as transposed convolutions invite to.

    Tested by computing the operation with the weight in each of these forms. Fold the two when loading:
    `weight_g * weight_v / |weight_v|`.
    """

    code = "weights.unfolded"
    functions = (conv.conv, conv.conv_transpose, linear.linear)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        held = _length_and_direction(trial.case)
        weight = trial.plan.arrays.get("weight")
        if held is None or weight is None or np.shape(weight) != held[1].shape:
            return
        for what, other in _misfolded_weights(*held):
            if other.shape == np.shape(weight):
                yield Variant(
                    plan=trial.plan.on(weight=other),
                    what=what,
                    fix=f"fold the weight of {trial.key} when loading it: weight_g * weight_v / |weight_v|",
                    implies=_IMPLIES,
                )


def _length_and_direction(case: Case) -> tuple[np.ndarray, np.ndarray] | None:
    for names in _LENGTH_AND_DIRECTION:
        parts = [case.params[name].reference if name in case.params else None for name in names]
        if parts[0] is not None and parts[1] is not None:
            return doubles(parts[0]), doubles(parts[1])
    return None


def _misfolded_weights(length: np.ndarray, direction: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the weights that wrong folding makes of a length g and a direction v."""
    each = tuple(axis for axis in range(direction.ndim) if length.shape[axis] == 1) or None
    norm = np.sqrt(np.sum(direction**2, axis=each, keepdims=True))
    yield "with weight_v as the weight", direction
    yield "with weight_g * weight_v, not divided by its length,", length * direction
    yield "with weight_v / |weight_v|, without weight_g,", direction / norm
    yield "with the length of the whole weight_v", length * direction / np.sqrt(np.sum(direction**2))
    if direction.ndim > 1 and direction.shape[0] == direction.shape[1]:
        other = np.sqrt(np.sum(direction**2, axis=(0, *range(2, direction.ndim)), keepdims=True))
        yield "with the length taken over the wrong axis", length.swapaxes(0, 1) * direction / other


class BiasMissing(Counterfactual):
    """A bias is not added, or is added twice.

    A layer of the reference adds a bias to each channel, the candidate's does not: it was not exported, not loaded,
    or the layer was made without one. The difference is one number for each channel, the same for every token.

    Tested by computing the operation without the bias, and with it twice. Load the bias and add it once.
    """

    code = "bias.missing"
    also = ("bias.repeated",)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        for name, bias in trial.plan.arrays.items():
            if bias is None or not is_bias_name(name):
                continue
            which = name if name.startswith("bias_") else f"its {name.replace('_', ' ')}"
            implied = ("offset.constant", "offset.channel", "weights.differ", "weights.missing")
            fix = f"add the bias of {trial.key}"
            yield Variant(plan=trial.plan.on(**{name: None}), what=f"without {which}", fix=fix, implies=implied)
            twice = 2.0 * np.asarray(bias, dtype=np.float64)
            yield Variant(
                plan=trial.plan.on(**{name: twice}),
                what=f"with {which} added twice",
                fix=f"{fix} once",
                implies=implied,
                cause="bias.repeated",
            )


WEIGHTS_TRANSPOSED: Final = WeightsTransposed()
WEIGHTS_ORDER: Final = WeightsOrder()
WEIGHTS_UNFOLDED: Final = WeightsUnfolded()
BIAS_MISSING: Final = BiasMissing()
