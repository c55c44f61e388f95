"""List the reference's operations that computed a row, read from its records and confirmed by its own output."""

from __future__ import annotations

import numpy as np

from firstdiff.diagnose.operation import Operation
from firstdiff.diagnose.scene import Scene
from firstdiff.diagnose.segment import Segment, Step
from firstdiff.errors import ReadError

_Part = tuple[slice, ...]


def operations_of(scene: Scene, place: int, part: _Part) -> tuple[Operation, ...]:
    """The operation of the row itself, then those before it that the candidate has no rows of.

    part: what is looked at of the row
    """
    row = scene.rows[place]
    if row.record is None or row.is_evidence:
        return ()
    try:
        segment = Segment(scene, place)
        if not segment.complete:
            return ()
        return tuple(_operation(scene, segment, step, part) for step in segment.steps())
    except (ReadError, ValueError):
        return ()


def _operation(scene: Scene, segment: Segment, step: Step, part: _Part) -> Operation:
    def finish(outputs: dict[str, np.ndarray]) -> np.ndarray | None:
        found = segment.result({step.place: outputs})
        return found[part] if found.ndim == len(part) else None

    key = scene.rows[step.place].key
    return Operation(key, step.record.op or "", segment.plan(step), segment.own_inputs, finish)
