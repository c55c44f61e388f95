"""The plan of an operation: function, arrays and settings, each of which can be replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from inspect import Parameter, signature
from typing import Any

import numpy as np

from firstdiff.errors import UsageError, did_you_mean
from firstdiff.ops.arrays import rounded

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A computation ready to run, and to run again with one thing changed.

    >>> from firstdiff.ops.norms import layer_norm
    >>> plan = Plan.of(layer_norm, {"input": np.array([[1.0, 3.0]])}, eps=0.0)
    >>> plan.run()["0"]
    array([[-1.,  1.]])
    >>> plan.changed(eps=3.0).run()["0"]
    array([[-0.5,  0.5]])

    function: one of the operators
    arrays: what goes into it by name; None for one that is absent, a tuple where it takes several
    settings: every setting it has, those left at their defaults too
    assumed: settings the record does not tell
    rounding: the type arrays are rounded to first, as under autocast
    """

    function: Function
    arrays: Mapping[str, Any]
    settings: Mapping[str, Any]
    assumed: tuple[str, ...] = ()
    rounding: str | None = None

    @classmethod
    def of(
        cls, function: Function, arrays: Mapping[str, Any], *, assumed: tuple[str, ...] = (), **settings: Any
    ) -> Plan:
        """Make a plan with the function's defaults for settings that are not given."""
        return cls(function, dict(arrays), _checked(function, settings), assumed)

    @property
    def operator(self) -> str:
        """Return the name of the function."""
        return self.function.__name__

    def run(self) -> dict[str, np.ndarray]:
        """Compute the outputs by slot; ValueError if arrays and settings do not fit together."""
        arrays = self.arrays if self.rounding is None else _all_rounded(self.arrays, self.rounding)
        try:
            result = self.function(**arrays, **self.settings)
        except (LookupError, ArithmeticError, TypeError, AttributeError, MemoryError) as error:
            raise ValueError(f"{self.operator} cannot be computed: {error}") from error
        if isinstance(result, dict):  # slots within slots
            return {slot: np.asarray(output) for slot, output in result.items()}
        outputs = result if isinstance(result, tuple) else (result,)
        return {str(slot): np.asarray(output) for slot, output in enumerate(outputs)}

    def changed(self, **settings: Any) -> Plan:
        """Return the plan with other settings; UsageError for one the function does not have."""
        return replace(self, settings=_checked(self.function, {**self.settings, **settings}))

    def on(self, **arrays: Any) -> Plan:
        """Return the plan on other arrays: the candidate's own input, a transposed weight, no bias."""
        return replace(self, arrays={**self.arrays, **arrays})

    def with_function(self, function: Function, **settings: Any) -> Plan:
        """Return a plan of another function on the same arrays, with the settings both have unless given."""
        taken, known = _parameters(function)
        shared = {name: value for name, value in self.settings.items() if name in known}
        arrays = {name: value for name, value in self.arrays.items() if name in taken}
        return replace(self, function=function, arrays=arrays, settings=_checked(function, {**shared, **settings}))


def is_weight_name(name: str) -> bool:
    """True for the name of an array that is a weight: `weight`, `gate_weight`, `weight_ih_l0`."""
    return name.endswith("weight") or name.startswith("weight_")


def is_bias_name(name: str) -> bool:
    """True for the name of an array that is a bias: `bias`, `in_bias`, `bias_hh_l1`."""
    return name.endswith("bias") or name.startswith("bias_")


@cache
def _parameters(function: Function) -> tuple[frozenset[str], dict[str, Any]]:
    """Return the arrays a function takes, and its settings with their defaults."""
    found = signature(function).parameters.values()
    settings = {item.name: item.default for item in found if item.kind is Parameter.KEYWORD_ONLY}
    arrays = (item.name for item in found if item.kind is Parameter.POSITIONAL_OR_KEYWORD)
    return frozenset(arrays), settings


def _checked(function: Function, settings: Mapping[str, Any]) -> dict[str, Any]:
    _, known = _parameters(function)
    for name in settings:
        if name not in known:
            raise UsageError(
                f"{function.__name__} has no setting {name!r}{did_you_mean(name, known)}; it has {', '.join(known)}"
            )
    whole = {**known, **settings}
    missing = [name for name, value in whole.items() if value is Parameter.empty]
    if missing:
        raise UsageError(f"{function.__name__} needs a value for {', '.join(missing)}")
    return whole


def _all_rounded(arrays: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    return {name: _rounded(value, dtype) for name, value in arrays.items()}


def _rounded(value: Any, dtype: str) -> Any:
    if isinstance(value, tuple):
        return tuple(_rounded(item, dtype) for item in value)
    whole = value is None or np.asarray(value).dtype.kind in "biuc"
    return value if whole else rounded(value, dtype)
