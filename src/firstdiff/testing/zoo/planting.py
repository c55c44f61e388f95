"""Plant the fault of a case: capture both runs, and a third that shows where the fault appears first."""

from __future__ import annotations

import copy
import json
import random
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from firstdiff.capturing import capture
from firstdiff.capturing.noise_floor import nudged
from firstdiff.errors import UsageError
from firstdiff.readers import open_trace
from firstdiff.testing.zoo.architectures import ARCHITECTURES, Built
from firstdiff.testing.zoo.case import Case
from firstdiff.testing.zoo.fault import Site, Subject
from firstdiff.testing.zoo.faults import FAULTS
from firstdiff.testing.zoo.kernels import OtherKernels
from firstdiff.trace import Tensor, Trace


class Folder:
    """A temporary folder, removed when nothing refers to it, or with the process."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="firstdiff-zoo-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


_ALLOWED_STEPS = 256  # eps of float32 that the default tolerance allows
_FILL_VALUE = 1e30  # masks use larger values in place of infinity, which are no part of the scale


def excess(reference: np.ndarray, candidate: np.ndarray) -> float:
    """Return the greatest difference in units of float32's default tolerance; infinite where any difference counts.

    Axes of length 1 may be left out. Where one side is longer, what both have is judged: the rest is coverage.
    """
    right, given = reference, candidate
    if right.ndim != given.ndim:
        right, given = np.squeeze(right), np.squeeze(given)
    if right.ndim != given.ndim:
        return inf
    common = tuple(slice(min(ours, theirs)) for ours, theirs in zip(right.shape, given.shape, strict=True))
    right, given = right[common], given[common]
    if not right.size:
        return inf if reference.size or candidate.size else 0.0
    if right.dtype.kind not in "fc":
        return 0.0 if np.array_equal(right, given) else inf
    return _in_units_of_tolerance(right.astype(np.complex128), given.astype(np.complex128))


def _in_units_of_tolerance(right: np.ndarray, given: np.ndarray) -> float:
    finite = np.isfinite(right)
    if not np.array_equal(finite, np.isfinite(given)):
        return inf
    right, given = right[finite], given[finite]
    if not right.size:
        return 0.0
    shown = right[np.abs(right) < _FILL_VALUE]
    spread = float(np.std(shown)) if shown.size else 0.0
    allowed = _ALLOWED_STEPS * float(np.finfo(np.float32).eps) * (spread + np.abs(right))
    difference = np.abs(given - right)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.where(difference > 0, difference / allowed, 0.0)))


Variant = Literal["full", "stripped"]
VARIANTS: tuple[Variant, ...] = ("full", "stripped")
_LEFT_OUT = frozenset({"param", "buffer"})
_WEIGHTS = 3
_ATTEMPTS = 8
LARGE_ENOUGH = 4.0  # in units of the tolerance, at the tensor where the fault shows first
VISIBLE = 0.25  # less may be hidden by noise


@dataclass(frozen=True, slots=True)
class Planted:
    """A case ready to be compared.

    site: the module that is wrong
    expected: codes that count as the right cause
    reference, candidate: both runs
    twin: the candidate once more on the reference's kernels: whatever differs by a bit is the fault's doing
    """

    case: Case
    site: Site
    expected: tuple[str, ...]
    reference: Trace
    candidate: Trace
    twin: Trace
    folder: Folder = field(repr=False, compare=False)

    def side(self, variant: Variant) -> Trace:
        """Return the candidate as captured, or as a port in another language would record it."""
        return self.candidate if variant == "full" else stripped(self.candidate)

    def write(self, folder: Path, variant: Variant = "full") -> tuple[Path, Path]:
        """Write both traces as folders, for tools that read files."""
        reference, candidate = folder / "reference.trace", folder / "candidate.trace"
        shutil.copytree(self.reference.path, reference)
        shutil.copytree(self.candidate.path, candidate)
        if variant == "stripped":
            _strip_lines(candidate / "tensors.jsonl")
        return reference, candidate

    def first_visible(self, partners: Mapping[str, str] | None = None) -> tuple[Tensor | None, float]:
        """Find the first tensor in which the fault is visible, and its size in units of the tolerance.

        partners: what the candidate calls each tensor, if not by the same key; what is left out has no partner
        """
        others = {str(tensor.key): tensor for tensor in self.twin}
        for tensor in self.reference:
            key = str(tensor.key)
            other = others.get(key if partners is None else partners.get(key, ""))
            if other is not None and tensor.record.role not in _LEFT_OUT:
                size = excess(tensor.values().read(), other.values().read())
                if size > VISIBLE:
                    return tensor, size
        return None, 0.0


def plant(case: Case) -> Planted:
    """Capture both traces of a case: the reference's, and that of a faulty copy on other kernels.

    A fault too small to count where it shows first is planted again, larger and elsewhere.
    """
    for attempt in range(_ATTEMPTS):
        planted = _planted(case, attempt)
        if planted.first_visible()[1] >= LARGE_ENOUGH:
            return planted
    raise UsageError(f"{case}: the fault is smaller than {LARGE_ENOUGH:g} times the tolerance; give it more strength")


def _planted(case: Case, attempt: int) -> Planted:
    built, reference = _reference(case.architecture, case.seed % _WEIGHTS)
    fault = FAULTS[case.kind]
    chance = random.Random(f"{case}|{attempt}")
    subject = Subject(case.architecture, copy.deepcopy(built.model), copy.deepcopy(built.inputs), chance, attempt)
    site = fault.plant(subject)
    folder = Folder()
    twin = traced(Built(subject.model, subject.inputs), folder.path / "twin.trace")
    given = {name: _moved(values) for name, values in subject.inputs.items()}
    candidate = traced(Built(subject.model, given), folder.path / "candidate.trace", OtherKernels(case.seed + 1))
    return Planted(case, site, fault.causes, reference, candidate, twin, folder)


def traced(built: Built, path: Path, kernels: AbstractContextManager[Any] | None = None) -> Trace:
    """Capture one call with the default options."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", DeprecationWarning)
        with kernels or nullcontext(), capture(built.model, path):
            built.model(**built.inputs)
    return open_trace(path)


def stripped(trace: Trace) -> Trace:
    """Return a trace as a port in another language would record it: no attributes, ops or weights."""
    kept = (tensor for tensor in trace if tensor.record.role not in _LEFT_OUT)
    tensors = tuple(replace(tensor, record=replace(tensor.record, op=None, attrs={})) for tensor in kept)
    return replace(trace, tensors=tensors)


def _strip_lines(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    kept = [line for line in lines if line.get("role") not in _LEFT_OUT]
    plain = [{name: value for name, value in line.items() if name not in ("op", "attrs")} for line in kept]
    path.write_text("".join(json.dumps(line) + "\n" for line in plain), encoding="utf-8")


def _moved(values: Any) -> Any:
    """Change the last bits of a picture or a sound, as another file would; scalars stay exact."""
    many = isinstance(values, torch.Tensor) and values.is_floating_point() and values.ndim > 1
    return nudged(values) if many else values


@lru_cache(maxsize=64)
def _reference(architecture: str, seed: int) -> tuple[Built, Trace]:
    """Capture the reference once in a process."""
    built = ARCHITECTURES[architecture].build(seed)
    folder = Folder()
    _folders.append(folder)
    return built, traced(built, folder.path / "reference.trace")


_folders: list[Folder] = []
