"""Tensors a recipe makes that are no plain views: taken element by element, or added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from firstdiff import dtypes
from firstdiff.align.lazy import Lazy, common_dtype
from firstdiff.align.steps import Assembly, Join, Step


@final
class Pulled(Lazy):
    """A step by its plain definition."""

    def __init__(self, step: Step, tensor: Lazy) -> None:
        super().__init__(step.shape(tensor.shape), tensor.dtype)
        self._step = step
        self._tensor = tensor

    def take(self, flat: np.ndarray) -> np.ndarray:
        return self._tensor.take(self._step.pull(self._tensor.shape, flat))


@final
class Assembled(Lazy):
    """A join by its plain definition."""

    def __init__(self, join: Assembly, tensors: Sequence[Lazy]) -> None:
        shapes = [tensor.shape for tensor in tensors]
        super().__init__(join.shape(shapes), common_dtype([tensor.dtype for tensor in tensors]))
        self._join = join
        self._tensors = tuple(tensors)

    def take(self, flat: np.ndarray) -> np.ndarray:
        which, local = self._join.pull([tensor.shape for tensor in self._tensors], flat)
        taken = np.empty(flat.shape, self.dtype)
        for number, tensor in enumerate(self._tensors):
            here = which == number
            taken[here] = tensor.take(local[here])
        return taken


@final
class Summed(Lazy):
    """The sum of tensors of one shape, added in double precision and rounded once, to their own type."""

    def __init__(self, join: Join, tensors: Sequence[Lazy]) -> None:
        shape = join.shape([tensor.shape for tensor in tensors])
        super().__init__(shape, common_dtype([tensor.dtype for tensor in tensors]))
        self._tensors = tuple(tensors)

    def each(self, change: Callable[[Lazy], Lazy], join: Join) -> Summed:
        """The sum after a step, which is the sum of what the step makes of each."""
        return Summed(join, [change(tensor) for tensor in self._tensors])

    def take(self, flat: np.ndarray) -> np.ndarray:
        return self._added([tensor.take(flat) for tensor in self._tensors])

    def window(self, start: int, stop: int) -> np.ndarray:
        return self._added([tensor.window(start, stop) for tensor in self._tensors])

    def _added(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        wide = _WIDE[dtypes.kind_of(self.dtype)]
        total = parts[0].astype(wide)
        for part in parts[1:]:
            np.add(total, part, out=total, casting="unsafe")
        return total.astype(self.dtype)


_WIDE: dict[str, np.dtype] = {
    "float": np.dtype(np.float64),
    "complex": np.dtype(np.complex128),
    "int": np.dtype(np.int64),
    "bool": np.dtype(bool),
}
