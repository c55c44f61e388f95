"""Recurrent layers and their cells, and the calls recorded of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from firstdiff.dtypes import doubles
from firstdiff.ops.activations import sigmoid
from firstdiff.ops.arrays import rounded, whole_numbers
from firstdiff.ops.plan import Plan
from firstdiff.ops.recorded_call import Call, Row, UnrecordedError, named

_States = tuple[np.ndarray, ...]


@np.errstate(all="ignore")
def lstm(
    input: np.ndarray,
    hidden: np.ndarray | None = None,
    cell: np.ndarray | None = None,
    batch_sizes: np.ndarray | None = None,
    sorted_indices: np.ndarray | None = None,
    *,
    batch_first: bool = False,
    held_in: str | None = None,
    **weights: np.ndarray | None,
) -> dict[str, np.ndarray]:
    """Long short-term memory: every output by slot, `0`, `1.0` and `1.1`.

    weights: by torch's names, `weight_ih_l0`, `bias_hh_l1_reverse`, `weight_hr_l0` of projections; they tell layers
        and directions
    batch_sizes, sorted_indices: of a packed sequence, whose data is the input
    held_in: the type that everything is rounded to at each step
    """
    layers = _Layers(_lstm_step, 4, weights, held_in)
    given = _Sequence.of(input, batch_sizes, sorted_indices, batch_first=batch_first)
    return layers.run(given, (hidden, cell)).by_slot(("1.0", "1.1"))


@np.errstate(all="ignore")
def gru(
    input: np.ndarray,
    hidden: np.ndarray | None = None,
    batch_sizes: np.ndarray | None = None,
    sorted_indices: np.ndarray | None = None,
    *,
    batch_first: bool = False,
    held_in: str | None = None,
    **weights: np.ndarray | None,
) -> dict[str, np.ndarray]:
    """Gated recurrent units: outputs by slot, `0` and `1`; the arguments are those of `lstm`."""
    layers = _Layers(_gru_step, 3, weights, held_in)
    given = _Sequence.of(input, batch_sizes, sorted_indices, batch_first=batch_first)
    return layers.run(given, (hidden,)).by_slot(("1",))


@np.errstate(all="ignore")
def rnn(
    input: np.ndarray,
    hidden: np.ndarray | None = None,
    batch_sizes: np.ndarray | None = None,
    sorted_indices: np.ndarray | None = None,
    *,
    nonlinearity: str = "tanh",
    batch_first: bool = False,
    held_in: str | None = None,
    **weights: np.ndarray | None,
) -> dict[str, np.ndarray]:
    """Plain recurrence by tanh or relu: outputs by slot, `0` and `1`; the arguments are those of `lstm`."""
    layers = _Layers(_PLAIN_STEPS[nonlinearity], 1, weights, held_in)
    given = _Sequence.of(input, batch_sizes, sorted_indices, batch_first=batch_first)
    return layers.run(given, (hidden,)).by_slot(("1",))


@np.errstate(all="ignore")
def lstm_cell(
    input: np.ndarray,
    hidden: np.ndarray | None = None,
    cell: np.ndarray | None = None,
    *,
    held_in: str | None = None,
    **weights: np.ndarray | None,
) -> tuple[np.ndarray, ...]:
    """One step of `lstm`: the hidden state and the cell's."""
    return _cell(_Layers(_lstm_step, 4, weights, held_in), input, (hidden, cell))


@np.errstate(all="ignore")
def gru_cell(
    input: np.ndarray,
    hidden: np.ndarray | None = None,
    *,
    held_in: str | None = None,
    **weights: np.ndarray | None,
) -> np.ndarray:
    """One step of `gru`."""
    return _cell(_Layers(_gru_step, 3, weights, held_in), input, (hidden,))[0]


@np.errstate(all="ignore")
def rnn_cell(
    input: np.ndarray,
    hidden: np.ndarray | None = None,
    *,
    nonlinearity: str = "tanh",
    held_in: str | None = None,
    **weights: np.ndarray | None,
) -> np.ndarray:
    """One step of `rnn`."""
    return _cell(_Layers(_PLAIN_STEPS[nonlinearity], 1, weights, held_in), input, (hidden,))[0]


@dataclass(frozen=True, slots=True, eq=False)
class _Gates:
    """What a step is computed from: gates of the input and of the hidden state, and the rounding of all results."""

    given: np.ndarray
    held: np.ndarray
    hold: Callable[[np.ndarray], np.ndarray]

    def of(self, count: int) -> list[np.ndarray]:
        """Return the sums of both, gate by gate."""
        return np.split(self.hold(self.given + self.held), count, axis=-1)


_Step = Callable[[_Gates, _States], _States]


def _lstm_step(gates: _Gates, states: _States) -> _States:
    hold = gates.hold
    inner, forget, new, outer = gates.of(4)
    kept = hold(hold(sigmoid(forget)) * states[1])
    cell = hold(kept + hold(hold(sigmoid(inner)) * hold(np.tanh(new))))
    return hold(hold(sigmoid(outer)) * hold(np.tanh(cell))), cell


def _gru_step(gates: _Gates, states: _States) -> _States:
    hold = gates.hold
    size = states[0].shape[-1]
    reset, update = (hold(sigmoid(gate)) for gate in gates.of(3)[:2])
    new = hold(np.tanh(hold(gates.given[..., 2 * size :] + hold(reset * gates.held[..., 2 * size :]))))
    return (hold(new + hold(update * hold(states[0] - new))),)


def _tanh_step(gates: _Gates, _: _States) -> _States:
    return (gates.hold(np.tanh(gates.of(1)[0])),)


def _relu_step(gates: _Gates, _: _States) -> _States:
    return (np.maximum(gates.of(1)[0], 0.0),)


_PLAIN_STEPS = {"tanh": _tanh_step, "relu": _relu_step}


@dataclass(frozen=True, slots=True, eq=False)
class _Sequence:
    """What goes into the layers, `[time, batch, features]`, and what brings it back into the form it came in.

    lengths: of each row, where they are not all the same
    """

    values: np.ndarray
    batch_first: bool = False
    alone: bool = False
    lengths: np.ndarray | None = None
    batch_sizes: np.ndarray | None = None
    order: np.ndarray | None = None

    @staticmethod
    def of(
        given: np.ndarray, batch_sizes: np.ndarray | None, order: np.ndarray | None, *, batch_first: bool
    ) -> _Sequence:
        x = doubles(given)
        if batch_sizes is not None:
            sizes = whole_numbers(batch_sizes)
            values = np.zeros((len(sizes), int(sizes[0]), x.shape[-1]))
            values[_places(sizes)] = x
            lengths = (sizes[:, None] > np.arange(sizes[0])).sum(axis=0)
            indices = None if order is None else whole_numbers(order)
            return _Sequence(values, lengths=lengths, batch_sizes=sizes, order=indices)
        if x.ndim == 2:
            return _Sequence(x[:, None], alone=True)
        return _Sequence(x.swapaxes(0, 1) if batch_first else x, batch_first=batch_first)

    def states(self, given: np.ndarray | None, shape: tuple[int, int]) -> np.ndarray:
        """Return initial states `[layers and directions, batch, size]`: zeros if none are given."""
        if given is None:
            return np.zeros((shape[0], self.values.shape[1], shape[1]))
        states = doubles(given)
        states = states[:, None] if self.alone else states
        return states if self.order is None else states[:, self.order]

    def output(self, values: np.ndarray) -> dict[str, np.ndarray]:
        if self.batch_sizes is not None:
            found = {"0.data": values[_places(self.batch_sizes)], "0.batch_sizes": self.batch_sizes}
            order = self.order
            return (
                found if order is None else found | {"0.sorted_indices": order, "0.unsorted_indices": np.argsort(order)}
            )
        if self.alone:
            return {"0": values[:, 0]}
        return {"0": values.swapaxes(0, 1) if self.batch_first else values}

    def last(self, states: np.ndarray) -> np.ndarray:
        if self.alone:
            return states[:, 0]
        return states if self.order is None else states[:, np.argsort(self.order)]


def _places(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the step and row of each line of a packed sequence."""
    steps = np.repeat(np.arange(len(sizes)), sizes)
    return steps, np.concatenate([np.arange(size) for size in sizes])


@dataclass(frozen=True, slots=True, eq=False)
class _Result:
    given: _Sequence
    values: np.ndarray
    states: tuple[np.ndarray, ...]

    def by_slot(self, names: tuple[str, ...]) -> dict[str, np.ndarray]:
        last = (self.given.last(states) for states in self.states)
        return self.given.output(self.values) | dict(zip(names, last, strict=True))


@final
class _Layers:
    """Layers of one kind of step, one after another, each in one direction or both."""

    def __init__(self, step: _Step, gates: int, weights: Mapping[str, np.ndarray | None], held_in: str | None) -> None:
        self._step = step
        self._gates = gates
        self._weights = {name: doubles(array) for name, array in weights.items() if array is not None}
        self._held_in = held_in

    def run(self, given: _Sequence, initial: tuple[np.ndarray | None, ...]) -> _Result:
        names = [name.removeprefix("weight_ih") for name in self._weights if name.startswith("weight_ih")]
        widths = [self._widths(names[0])[number] for number in range(len(initial))]
        before = [given.states(item, (len(names), width)) for item, width in zip(initial, widths, strict=True)]
        values = given.values
        last: list[_States] = []
        for layer in range(sum("_reverse" not in name for name in names)):
            outputs = []
            for name in (f"_l{layer}", f"_l{layer}_reverse"):
                if name in names:
                    states = tuple(item[len(last)] for item in before)
                    found, states = self._direction(name, values, states, given.lengths)
                    outputs.append(found)
                    last.append(states)
            values = np.concatenate(outputs, axis=-1)
        return _Result(given, values, tuple(np.stack(states) for states in zip(*last, strict=True)))

    def once(self, given: np.ndarray, states: _States) -> _States:
        """Return the states after one step of a cell."""
        return self._after("", self._product(given, "_ih"), states)

    def width(self) -> int:
        """Return the size of a cell's state."""
        return self._widths("")[0]

    def _direction(
        self, name: str, values: np.ndarray, states: _States, lengths: np.ndarray | None
    ) -> tuple[np.ndarray, _States]:
        gates = self._product(values, f"_ih{name}")
        found = np.zeros((*values.shape[:2], states[0].shape[-1]))
        steps = range(len(values))
        for step in reversed(steps) if name.endswith("_reverse") else steps:
            after = self._after(name, gates[step], states)
            if lengths is not None:  # rows that have ended, or have not begun yet, stay as they are
                there = (lengths > step)[:, None]
                after = tuple(np.where(there, new, old) for new, old in zip(after, states, strict=True))
            states = after
            found[step] = states[0]
        return found, states

    def _after(self, name: str, gates: np.ndarray, states: _States) -> _States:
        after = self._step(_Gates(gates, self._product(states[0], f"_hh{name}"), self._hold), states)
        projection = self._weights.get(f"weight_hr{name}")
        return after if projection is None else (self._hold(after[0] @ projection.T), *after[1:])

    def _product(self, values: np.ndarray, name: str) -> np.ndarray:
        return self._hold(values @ self._weights[f"weight{name}"].T + self._weights.get(f"bias{name}", 0.0))

    def _hold(self, values: np.ndarray) -> np.ndarray:
        return values if self._held_in is None else rounded(values, self._held_in)

    def _widths(self, name: str) -> tuple[int, int]:
        """Return the sizes of what a layer gives back and of what it keeps."""
        gates, given = self._weights[f"weight_hh{name}"].shape
        return given, gates // self._gates


def _cell(layers: _Layers, given: np.ndarray, initial: tuple[np.ndarray | None, ...]) -> _States:
    x = doubles(given)
    none = np.zeros((*x.shape[:-1], layers.width()))
    return layers.once(x, tuple(none if item is None else doubles(item) for item in initial))


def _weights(call: Call) -> dict[str, np.ndarray]:
    found = {name: array for name, array in call.params.items() if name.startswith(("weight_", "bias_"))}
    layers = [""] if call.op.endswith("Cell") else [f"_l{layer}" for layer in range(call.told("num_layers", default=1))]
    both = [*layers, *(f"{name}_reverse" for name in layers)] if call.told("bidirectional") else layers
    kinds = ("weight_ih", "weight_hh") if call.told("bias", default=True) is False else _KINDS
    missing = [f"{kind}{name}" for kind in kinds for name in both if f"{kind}{name}" not in found]
    if missing:
        raise UnrecordedError.of_params(f"the {missing[0]} of {call.name} was not recorded")
    return found


_KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _layers(function: Callable[..., Any]) -> Callable[[Call], Iterator[Plan]]:
    def read(call: Call) -> Iterator[Plan]:
        if call.told("training") and call.told("dropout", default=0.0):
            raise call.random()
        packed = call.optional("0.batch_sizes", "input.batch_sizes")
        data = call.main() if packed is None else call.array("0.data", "input.data")
        arrays: dict[str, np.ndarray | None] = {"input": data}
        arrays |= _states(call, "1", "hx", both=function is lstm)
        arrays["batch_sizes"] = packed
        arrays["sorted_indices"] = call.optional("0.sorted_indices", "input.sorted_indices")
        told = {"nonlinearity": call.told("nonlinearity", default="tanh")} if function is rnn else {}
        batch_first = bool(call.told("batch_first", default=False))
        yield Plan.of(function, {**arrays, **_weights(call)}, batch_first=batch_first, **told)

    return read


def _cells(function: Callable[..., Any]) -> Callable[[Call], Iterator[Plan]]:
    def read(call: Call) -> Iterator[Plan]:
        arrays = {"input": call.main(), **_states(call, "1", "hx", both=function is lstm_cell), **_weights(call)}
        told = {"nonlinearity": call.told("nonlinearity", default="tanh")} if function is rnn_cell else {}
        yield Plan.of(function, arrays, **told)

    return read


def _states(call: Call, *names: str, both: bool) -> dict[str, np.ndarray | None]:
    """Return the initial states, which are zeros where none were given."""
    if not both:
        return {"hidden": call.optional(*names)}
    hidden = call.optional(*(f"{name}.0" for name in names))
    return {"hidden": hidden, "cell": call.optional(*(f"{name}.1" for name in names))}


ROWS = tuple(
    Row(supports=named(op), plans=plans, each_token_alone=False, autocasts=True)
    for op, plans in (
        ("LSTM", _layers(lstm)),
        ("GRU", _layers(gru)),
        ("RNN", _layers(rnn)),
        ("LSTMCell", _cells(lstm_cell)),
        ("GRUCell", _cells(gru_cell)),
        ("RNNCell", _cells(rnn_cell)),
    )
)
