"""Find where a fault shows first from values alone, to check its declaration without any pairing."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from firstdiff.readers import open_trace
from firstdiff.testing.ports.places import Places
from firstdiff.testing.ports.port import Array, Fault, Port, Wrong, reference_run
from firstdiff.testing.zoo.planting import LARGE_ENOUGH, excess
from firstdiff.trace import Trace

ROUNDING = 2e-5  # of a tensor's largest value: what another order of summation may change
VISIBLE = 5e-5  # of the final values' largest: what a fault must change


class Checked:
    """One port and its reference, run, with the checks of what is declared about them."""

    def __init__(self, port: Port, folder: Path) -> None:
        self.port, self._folder = port, folder
        self._built = port.build()
        self.expected = reference_run(port, self._built, folder / "reference")
        self.healthy_wrong = Wrong()
        self.final = port.run(self._built, self.healthy_wrong, folder / "healthy")
        self._reference = open_trace(folder / "reference")
        self.places = Places.of(self._reference)

    def run(self, planted: Fault) -> tuple[Array, Path]:
        """The final values with a fault, and where its trace is."""
        path = Path(tempfile.mkdtemp(dir=self._folder)) / "faulty"
        return self.port.run(self._built, Wrong(planted), path), path

    @cached_property
    def _reference_values(self) -> dict[str, Array]:
        return activations(self._reference)

    @cached_property
    def _healthy(self) -> dict[str, Array]:
        return activations(open_trace(self._folder / "healthy"))

    @cached_property
    def shared(self) -> list[Shared]:
        """Tensors of the healthy port, or parts of fused ones, that hold values of the reference in some order."""
        theirs: dict[int, list[tuple[str, Array]]] = {}
        for key, values in self._reference_values.items():
            theirs.setdefault(values.size, []).append((key, np.sort(values, axis=None)))
        found = []
        for name, values in self._healthy.items():
            for parts in (1, 2, 3):
                shared = [
                    Shared(name, parts, part, tuple(same))
                    for part, piece in enumerate(split(values, parts))
                    if (same := _same_values(piece, theirs.get(piece.size, ())))
                ]
                found += shared
                if shared:
                    break
        return found

    def visible(self, path: Path) -> Visible:
        """Return the first of the reference's tensors that the port shares and that the fault changes."""
        faulty = activations(open_trace(path))
        place_of = self.places.place_of
        sizes: dict[int, float] = {}
        untouched: set[int] = set()
        for shared in self.shared:
            if shared.name not in faulty:
                continue
            healthy, given = (split(side[shared.name], shared.parts) for side in (self._healthy, faulty))
            if len(given) != shared.parts:
                continue
            numbers = {place_of[key] for key in shared.keys}
            right = [healthy[shared.part], *(self._reference_values[key] for key in shared.keys)]
            if min(difference(other, given[shared.part]) for other in right) < ROUNDING:
                untouched |= numbers
            else:
                size = excess(healthy[shared.part], given[shared.part])
                sizes |= {number: max(size, sizes.get(number, 0.0)) for number in numbers}
        first = min(sizes, default=None)
        return Visible(first, sizes.get(first, 0.0) if first is not None else 0.0, frozenset(untouched - sizes.keys()))


@dataclass(frozen=True, slots=True)
class Shared:
    """A tensor of a port, or one of several equal parts of its last axis, and the reference's keys it agrees with."""

    name: str
    parts: int
    part: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Visible:
    """The places that a fault changes.

    first: the number of the first place it changes
    size: how much, in units of the default tolerance
    untouched: places it leaves alone
    """

    first: int | None
    size: float
    untouched: frozenset[int]


def split(values: Array, parts: int) -> list[Array]:
    """Equal parts of the last axis; none where it cannot be cut so."""
    if parts == 1:
        return [values]
    return np.split(values, parts, axis=-1) if values.ndim and values.shape[-1] % parts == 0 else []


def _same_values(values: Array, others: Sequence[tuple[str, Array]]) -> list[str]:
    """Keys of the nearest values; a mean and the mean plus eps are near each other, too."""
    ordered = np.sort(values, axis=None)
    differences = [difference(ordered, other) for _, other in others]
    nearest = min(differences, default=np.inf)
    return [key for (key, _), found in zip(others, differences, strict=True) if found == nearest < ROUNDING]


def activations(trace: Trace) -> dict[str, Array]:
    """All floating-point and whole-number activations, by key."""
    tensors = (tensor for tensor in trace if tensor.record.role not in ("param", "buffer"))
    found = {str(tensor.key): tensor.values().read() for tensor in tensors}
    return {key: values for key, values in found.items() if values.size and values.dtype.kind in "fiu"}


def difference(one: Array, other: Array) -> float:
    """The largest difference, relative to the largest finite value of the first."""
    if one.shape != other.shape:
        return np.inf
    one, other = one.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(one) & (np.abs(one) < 1e30)
    if not np.array_equal(finite, np.isfinite(other) & (np.abs(other) < 1e30)):
        return np.inf
    if not finite.any():
        return 0.0
    scale = float(np.max(np.abs(one[finite])))
    return float(np.max(np.abs(one[finite] - other[finite]))) / (scale or 1.0)


def problems(checked: Checked, planted: Fault) -> list[str]:
    """Return one sentence for each wrong declaration of a fault."""
    places = checked.places
    unknown = [place for place in planted.places if not places.matching([place])]
    found = [f"the reference has no {place}" for place in unknown]
    final, path = checked.run(planted)
    if difference(checked.expected, final) < VISIBLE:
        found.append("the final values stay the same")
    seen = checked.visible(path)
    declared = places.numbers(planted.places)
    if seen.first not in declared:
        keys = [key for key, number in places.place_of.items() if number == seen.first]
        found.append(f"it shows first at {' '.join(keys[:4]) or 'nothing'}, not at {' '.join(planted.places)}")
    elif seen.size < LARGE_ENOUGH:
        found.append(f"it is only {seen.size:.2g} times the tolerance where it shows first")
    moved = any(cause.startswith("layout.") for cause in planted.causes)  # the same values, in another order
    if declared & seen.untouched and not moved:
        keys = [key for key, number in places.place_of.items() if number in declared & seen.untouched]
        found.append(f"it leaves {' '.join(keys[:4])} alone")
    return found
