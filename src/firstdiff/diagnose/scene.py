"""All rows of a comparison with their graph and values, shared by the cases."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.locate import MeasuredPair
from firstdiff.locate.graph import RowGraph
from firstdiff.locate.operands import Values
from firstdiff.trace import Tensor


@final
class Scene:
    """Rows in the order of the reference, what feeds what, and their values."""

    def __init__(self, graph: RowGraph, values: Values) -> None:
        self.graph = graph
        self.rows = graph.rows
        self.values = values
        self._held: dict[str, MeasuredPair] = {row.name: row for row in self.rows if row.is_evidence and row.reference}

    def attrs(self, place: int, side: str) -> Mapping[str, Any]:
        tensor = self.rows[place].reference if side == "reference" else self.rows[place].candidate
        return tensor.record.attrs if tensor else {}

    @cached_property
    def by_seq(self) -> tuple[Mapping[int, Tensor], Mapping[int, Tensor]]:
        """The tensors of both sides by the time they were recorded, those without a partner too."""
        sides = [row.reference for row in self.rows], [row.candidate for row in self.rows]
        found = [{tensor.record.seq: tensor for tensor in side if tensor is not None} for side in sides]
        one, other = ({seq: tensor for seq, tensor in side.items() if seq is not None} for side in found)
        return one, other

    def param_rows(self, place: int) -> dict[str, MeasuredPair]:
        """The rows of the weights a module or function uses, by the name it has for them."""
        record = self.rows[place].record
        if record is None:
            return {}
        prefix = f"{record.name}." if record.parent is not None else ""
        found = {name[len(prefix) :]: row for name, row in self._held.items() if name.startswith(prefix)}
        used = record.attrs.get("params")
        if isinstance(used, Mapping):
            found |= {str(slot): self._held[name] for slot, name in used.items() if name in self._held}
        return found


def as_recorded(tensor: Any) -> np.ndarray | None:
    """A tensor's values in its own layout and type; None where there are none to read."""
    try:
        return None if tensor is None else np.asarray(tensor.values().view())
    except ReadError:
        return None
