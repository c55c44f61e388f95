"""A recorded call, and a row of the operator table that reads such calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from firstdiff.ops.arrays import weight_norm
from firstdiff.ops.plan import Plan
from firstdiff.trace.record import is_function_op

_MAIN_SLOTS = ("input", "0", "x", "hidden_states", "hidden_state", "tensor")
# parts of the names of parameters and buffers
_OF_MODULES = ("weight", "bias", "running", "inv_freq", "alpha", "fb")
_RECORD_PARAMS = "capture with params='all'"
_INPUTS = "capture inputs too (roles that include 'input', and no max_bytes)"


class UnrecordedError(Exception):
    """A value the operation needs was not recorded; `record_next` says how to record it."""

    def __init__(self, reason: str, record_next: str, *, lacks_params: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.record_next = record_next
        self.lacks_params = lacks_params

    @classmethod
    def of_params(cls, reason: str, more: str = "") -> UnrecordedError:
        """Make the error for parameters or buffers that were not recorded."""
        return cls(reason, f"{_RECORD_PARAMS}{more}", lacks_params=True)


@dataclass(frozen=True, slots=True)
class Read:
    """Settings as recorded, and the names of those that were not."""

    settings: dict[str, Any]
    assumed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a module or a function.

    op: the class of the module, or the name of the function
    attrs: its scalar attributes or arguments
    inputs: by slot
    params: parameters and buffers by the names the module has for them
    name: what it is called in texts
    """

    op: str
    attrs: Mapping[str, Any]
    inputs: Mapping[str, np.ndarray]
    params: Mapping[str, np.ndarray]
    name: str

    @property
    def is_function(self) -> bool:
        """True for a function (a lower-case name), whose unrecorded settings are torch's defaults."""
        return is_function_op(self.op)

    def main(self) -> np.ndarray:
        """Return the tensor operated on: the first argument, or the only one of a module, whatever its name."""
        found = next((self.inputs[slot] for slot in _MAIN_SLOTS if slot in self.inputs), None)
        if found is None and self.is_function:
            found = self.optional(*_MAIN_SLOTS)
        elif found is None and len(self.inputs) == 1:
            found = next(iter(self.inputs.values()))
        if found is None:
            raise UnrecordedError(f"the input of {self.name} was not recorded", _INPUTS)
        return found

    def array(self, *names: str) -> np.ndarray:
        """Return the input or parameter with the first of these names that was recorded."""
        found = self.optional(*names)
        if found is None:
            raise self._missing(names[0])
        return found

    def optional(self, *names: str) -> np.ndarray | None:
        """Return an array as `array` does, or None where the operation has none."""
        for name in names:
            for held in (self.params, self.inputs):
                if name in held:
                    return held[name]
        known, views = self.attrs.get("params"), self.attrs.get("views") or ()
        for name in names:
            if isinstance(known, Mapping) and name in known:
                if name in views:
                    what = f"the {name} of {self.name} is a view of {known[name]}, and was not recorded itself"
                    raise UnrecordedError(what, "capture with level='op', which records views too")
                raise UnrecordedError.of_params(f"{known[name]}, the {name} of {self.name}, was not recorded")
        return None

    def operand(self, *names: str) -> np.ndarray | float:
        """Return an array as `array` does, or a plain number among the arguments."""
        number = self.told(*names)
        if isinstance(number, int | float) and not any(name in self.inputs for name in names):
            return number
        return self.array(*names)

    def weight(self) -> np.ndarray:
        """Return the weight, folded where it is stored as a direction and a length."""
        for length, direction in (
            ("weight_g", "weight_v"),
            ("parametrizations.weight.original0", "parametrizations.weight.original1"),
        ):
            if length in self.params and direction in self.params:
                return weight_norm(self.params[direction], self.params[length])
        return self.array("weight")

    def told(self, *names: str, default: Any = None) -> Any:
        """Return the first of these attributes or arguments that was recorded."""
        arguments = self.attrs.get("args")
        for held in (self.attrs, arguments if isinstance(arguments, Mapping) else {}):
            for name in names:
                if held.get(name) is not None:
                    return _number(held[name])
        return default

    def needed(self, *names: str) -> Any:
        """Return a setting as `told` does; UnrecordedError if there is none."""
        found = self.told(*names)
        if found is None:
            raise UnrecordedError(
                f"the {names[0]} of {self.name} was not recorded",
                f"record it as an attribute: attrs={{{names[0]!r}: …}}",
            )
        return found

    def read(self, *names: str, **spelt: str) -> Read:
        """Read settings by name, or by the name the record has for them; those a module lacks are assumed."""
        wanted = {**{name: name for name in names}, **spelt}
        found = {
            reference: _number(self.attrs[candidate])
            for reference, candidate in wanted.items()
            if self.attrs.get(candidate) is not None
        }
        untold = (
            ()
            if self.is_function
            else tuple(reference for reference, candidate in wanted.items() if candidate not in self.attrs)
        )
        return Read(found, untold)

    def random(self) -> UnrecordedError:
        """Make the error for active dropout, which cannot be computed again."""
        return UnrecordedError(f"{self.name} drops values at random", "capture with the model in eval mode")

    def _missing(self, name: str) -> UnrecordedError:
        if any(word in name for word in _OF_MODULES):
            return UnrecordedError.of_params(f"the {name} of {self.name} was not recorded")
        return UnrecordedError(f"the argument {name!r} of {self.name} was not recorded", _INPUTS)


def _number(value: Any) -> Any:
    """Convert infinities and NaN, recorded as strings because JSON has none."""
    return float(value) if isinstance(value, str) and value in ("inf", "-inf", "nan") else value


_WRAPPED = "Parametrized"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A kind of operation.

    supports: whether a call is one
    plans: what it may be, the likeliest first; several where the record leaves a choice
    each_token_alone: a part of the tokens is enough to compute that part of the output
    autocasts: under autocast its arrays are rounded first
    costly: of several plans the first that fits is taken, and not the best
    """

    supports: Callable[[Call], bool]
    plans: Callable[[Call], Iterable[Plan]]
    each_token_alone: bool = True
    autocasts: bool = False
    costly: bool = False


def named(*names: str) -> Callable[[Call], bool]:
    """Make the predicate of calls of these classes or functions, several in one string."""
    known = frozenset(name for text in names for name in text.split())
    return lambda call: call.op.removeprefix(_WRAPPED) in known
