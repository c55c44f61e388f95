"""Limits from healthy pairs, false alarms and detection rates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from firstdiff import dtypes
from firstdiff.judge.noise_rule import HALF, PARTS, WIDE, Limits, judge_outputs, strain
from firstdiff.testing.corpus.measuring import Measured

MARGIN = 1.3  # over the largest healthy figure: other models, other inputs


@dataclass(frozen=True, slots=True)
class Chosen:
    """Limits by the width of a type: for bf16 and fp16, and for fp32 and fp64."""

    half: Limits
    wide: Limits

    def of(self, dtype: str) -> Limits:
        return self.half if dtypes.from_name(dtype).itemsize == 2 else self.wide


SHIPPED = Chosen(HALF, WIDE)


@dataclass(frozen=True, slots=True)
class Rate:
    """The number of tensors flagged."""

    flagged: int
    tensors: int

    @property
    def share(self) -> float:
        return self.flagged / self.tensors if self.tensors else 0.0


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one set of limits.

    alarms: healthy tensors flagged, by type
    alarm_runs: healthy pairs of runs in which one was
    found: faults found, by type and fault
    examples: some of the tensors flagged although healthy, with the reason
    """

    alarms: dict[str, Rate]
    alarm_runs: Rate
    found: dict[tuple[str, str], Rate]
    examples: tuple[str, ...]


def is_half(one: Measured) -> bool:
    return dtypes.from_name(one.dtype).itemsize == 2


def largest_healthy(found: Iterable[Measured], wide: bool) -> dict[str, float]:
    """For each part, the limit at which no healthy tensor would be flagged."""
    least: defaultdict[str, float] = defaultdict(float)
    for one in found:
        if one.fault is None and one.figures is not None and is_half(one) != wide:
            for part, value in strain(one.figures, dtypes.from_name(one.dtype), one.upstream).items():
                least[part] = max(least[part], value)
    return dict(least)


def choose(found: Sequence[Measured]) -> Chosen:
    """The shipped limits with each part at the largest healthy figure and a margin."""
    chosen = []
    for base, wide in ((HALF, False), (WIDE, True)):
        needed = largest_healthy(found, wide)
        changes = {part: MARGIN * needed[part] for part in PARTS if needed.get(part) and getattr(base, part) < 1e9}
        # a share of the noise cannot exceed all of it
        changes |= {part: min(changes[part], 0.9) for part in ("scale", "shift") if part in changes}
        chosen.append(replace(base, **changes))
    return Chosen(*chosen)


def score(found: Sequence[Measured], limits: Chosen) -> Score:
    """Judge every tensor by some limits."""
    healthy: defaultdict[str, list[bool]] = defaultdict(list)
    faults: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)
    runs: defaultdict[tuple[str, str], bool] = defaultdict(bool)
    examples = []
    for one in found:
        dtype = dtypes.from_name(one.dtype)
        verdict = judge_outputs(one.figures, dtype, one.upstream, limits.of(one.dtype))
        flagged = bool(verdict.failed) or one.filled
        width = "half" if is_half(one) else "fp32"
        if one.fault is not None:
            faults[width, one.fault].append(flagged)
            continue
        healthy[width].append(flagged)
        runs[one.model, one.variation] |= flagged
        if flagged:
            why = "; ".join(part.text for part in verdict.failed) or "the masks differ"
            examples.append(f"{one.model}, {one.variation}, {one.key}: {why}")
    return Score(
        {width: _rate(flags) for width, flags in healthy.items()},
        _rate(runs.values()),
        {key: _rate(flags) for key, flags in faults.items()},
        tuple(examples),
    )


def only(found: Iterable[Measured], keep: Callable[[Measured], bool]) -> list[Measured]:
    return [one for one in found if keep(one)]


def _rate(flags: Iterable[bool]) -> Rate:
    every = list(flags)
    return Rate(sum(every), len(every))
