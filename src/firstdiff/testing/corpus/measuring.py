"""Figures of every tensor of a healthy pair, and of the same tensors with faults planted, kept on disk."""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from firstdiff import dtypes
from firstdiff.judge.noise_figures import NoiseFigures, noise_figures, worst_elements
from firstdiff.judge.noise_sums import NoiseSums
from firstdiff.judge.special_values import filler_places, is_whole
from firstdiff.testing.corpus.faults import FAULTS, apply
from firstdiff.testing.corpus.models import CorpusModel, Half
from firstdiff.testing.corpus.variations import VARIATIONS, TensorPair, Variation, tensor_pairs
from firstdiff.testing.zoo.architectures import Built

_ROWS, _ELEMENTS = 128, 150_000  # of a tensor, at most: a fixed sample of its rows
_PLANTED = 6  # every so many tensors get faults
_THOUSANDTH = 1e-3
# the variations whose noise faults are planted in; the others are looked at for false alarms only
_WITH_FAULTS = frozenset({"bf16", "order", "order, bf16", "sdpa, bf16"})


@dataclass(frozen=True, slots=True)
class Measured:
    """One tensor of one pair.

    upstream: the noise of everything before it
    fault: what was planted; None for healthy ones
    figures: None where both sides are equal
    filled: the mask hides other places on both sides
    """

    model: str
    half: Half
    trained: bool
    variation: str
    key: str
    op: str | None
    dtype: str
    upstream: float
    fault: str | None
    figures: NoiseFigures | None
    filled: bool = False


def measured(
    model: CorpusModel, variations: Iterable[str], cache: Path, *, measured_only: bool = False
) -> Iterator[Measured]:
    """Every tensor under each variation; what was measured before is read from the cache.

    measured_only: nothing else
    """
    built: Built | None = None
    for name in variations:
        if name in model.skip:
            continue
        path = cache / f"{_file_name(model.name)}.{_file_name(name)}.jsonl"
        if not path.exists():
            if measured_only:
                continue
            built = built or model.build(model.seed)
            if not VARIATIONS[name].fits(built):
                continue
            _write(path, _measure(model, built, VARIATIONS[name]))
        yield from _read(path)


def _measure(model: CorpusModel, built: Built, variation: Variation) -> Iterator[Measured]:
    upstream = 0.0
    with tempfile.TemporaryDirectory(prefix="firstdiff-corpus-") as folder:
        for place, pair in enumerate(tensor_pairs(variation, built, Path(folder))):
            rows = _sampled(pair)
            if is_whole(rows.reference):
                continue
            figures = rows.figures()
            common = (
                model.name,
                model.half,
                model.trained,
                variation.name,
                pair.key,
                pair.op,
                pair.dtype.name,
                upstream,
            )
            yield Measured(*common, None, figures, rows.other_mask)
            if _takes_faults(pair, rows, variation):
                strength = 1.0 if pair.dtype.itemsize == 2 else _THOUSANDTH
                for fault in FAULTS.values():
                    changed = apply(fault, rows.candidate, place, strength)
                    yield Measured(*common, fault.name, rows.with_candidate(changed).figures())
            upstream = max(upstream, figures.level if figures else 0.0)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A sample of a pair's rows, in float64; `counted` is False in places that a mask hides."""

    reference: np.ndarray
    candidate: np.ndarray
    counted: np.ndarray
    other_mask: bool
    stored: np.dtype
    dtype: np.dtype

    def figures(self) -> NoiseFigures | None:
        eps = dtypes.eps_of(self.dtype)
        sums = NoiseSums.of(self.reference, self.candidate, self.counted)
        figures = noise_figures(sums, eps)
        if figures is None:
            return None
        shown = np.where(self.counted, self.candidate, self.reference)
        return figures.with_worst(worst_elements(self.reference, shown, sums.rows.sizes, sums.channels.sizes), eps)

    def with_candidate(self, changed: np.ndarray) -> _Rows:
        """The changed values as the candidate's own type would hold them."""
        with np.errstate(all="ignore"):
            held = changed.astype(self.stored).astype(np.float64)
        return _Rows(self.reference, held, self.counted, self.other_mask, self.stored, self.dtype)


def _sampled(pair: TensorPair) -> _Rows:
    shape = (-1, pair.reference.shape[-1]) if pair.reference.ndim > 1 else (1, -1)
    reference, candidate = pair.reference.reshape(shape), pair.candidate.reshape(shape)
    count = max(1, min(len(reference), _ROWS, _ELEMENTS // max(reference.shape[1], 1)))
    chosen = np.unique(np.linspace(0, len(reference) - 1, count).astype(np.int64))
    reference, candidate = reference[chosen], candidate[chosen]
    places = filler_places(reference, candidate)
    counted = np.ones(reference.shape, dtype=bool) if places is None else ~places.hidden
    expected = np.where(counted, reference.astype(np.float64), 0.0)
    given = np.where(counted, candidate.astype(np.float64), 0.0)
    other = places is not None and not places.agree
    # a finer candidate is judged in the coarser type, so that its faults are rounded to that
    stored = max(candidate.dtype, pair.dtype, key=dtypes.eps_of)
    return _Rows(expected, given, counted, other, stored, pair.dtype)


def _takes_faults(pair: TensorPair, rows: _Rows, variation: Variation) -> bool:
    """A fixed part of the outputs that have rows and channels."""
    chosen = zlib.crc32(f"{pair.key}|{variation.name}".encode()) % _PLANTED == 0
    count, width = rows.reference.shape
    wide = count >= 8 and width >= 8 and pair.role == "output" and pair.dtype.itemsize in (2, 4)
    return variation.name in _WITH_FAULTS and chosen and wide and pair.dtype.name != "float16"


def _write(path: Path, found: Iterable[Measured]) -> None:
    lines = "".join(json.dumps(asdict(one)) + "\n" for one in found)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(lines, encoding="utf-8")


def _read(path: Path) -> Iterator[Measured]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            plain: dict[str, Any] = json.loads(line)
            figures = plain.pop("figures")
            yield Measured(**plain, figures=NoiseFigures(**figures) if figures else None)


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)
