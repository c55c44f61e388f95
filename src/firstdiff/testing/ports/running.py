"""Run a case: record both sides, compare them, and score what was said."""

from __future__ import annotations

import inspect
import tempfile
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from firstdiff.comparing import compare
from firstdiff.readers import open_trace
from firstdiff.schema import Comparison
from firstdiff.testing.ports.places import Places
from firstdiff.testing.ports.port import Wrong, reference_run
from firstdiff.testing.ports.scoring import Outcome, score_fault, score_healthy
from firstdiff.testing.ports.table import Case, fault_of, ports
from firstdiff.testing.ports.variations import WAYS, Side
from firstdiff.testing.zoo.architectures import Built
from firstdiff.testing.zoo.planting import Folder

# a port records other tensors than its reference: what only one side has is no alarm
_OPTIONS: dict[str, Any] = {"allow_missing": True, "allow_extra": True, "threads": 1}


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference that was run; `folder` lives as long as it does."""

    built: Built
    path: Path
    places: Places
    folder: Folder


@lru_cache(maxsize=4)
def reference(family: str) -> Reference:
    """Run the reference of a family, once in a process."""
    port, folder = ports()[family], Folder()
    built = port.build()
    reference_run(port, built, folder.path / "reference")
    path = folder.path / "reference"
    return Reference(built, path, Places.of(open_trace(path)), folder)


def run(case: Case) -> Outcome:
    """Run a case."""
    with tempfile.TemporaryDirectory(prefix="firstdiff-ports-") as name:
        folder = Path(name)
        if case.kind == "variation":
            way = WAYS[case.name]
            sides = way.sides(ports()[case.family], folder)
            return score_healthy(case, *_compare(*sides, partial=way.partial))
        made, planted, port = reference(case.family), fault_of(case), ports()[case.family]
        port.run(made.built, Wrong(planted), folder / "candidate")
        comparison, seconds = _compare(made.path, folder / "candidate", accept_layout=port.accept_layout)
    if planted is None:
        return score_healthy(case, comparison, seconds)
    return score_fault(case, planted, made.places, comparison, seconds)


def _compare(
    reference: Side, candidate: Side, *, accept_layout: tuple[str, ...] = (), partial: bool = False
) -> tuple[Comparison, float]:
    """Compare two sides; with the seconds of CPU it took."""
    _warm_up()
    options = _OPTIONS | {"accept_layout": accept_layout}
    if partial and "allow_partial" in inspect.signature(compare).parameters:
        options["allow_partial"] = True
    begun = time.process_time()
    comparison = compare(reference, candidate, **options)
    return comparison, time.process_time() - begun


@lru_cache(maxsize=1)
def _warm_up() -> None:
    """Load what comparisons load once, so that it is not counted as time of the first."""
    values = np.linspace(-1.0, 1.0, 64, dtype=np.float32).reshape(8, 8)
    compare({"x": values, "y": values}, {"x": values, "y": values + 1})
