"""Bands measured from reference runs: the share of elements that each step changes, as a TOML file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from firstdiff.checks.series import Band
from firstdiff.errors import SettingsError, UsageError, did_you_mean

# a run of few elements moves in steps of one element, so that a deviation alone is too narrow
_DEVIATIONS = 4.0
_HEAD = """\
# Shares of elements that each step of reference runs changed: the mean, and {deviations:g} deviations to each side.
# Written by `firstdiff check --measure`; measure again when the model or its schedule changes.
"""


@dataclass(frozen=True, slots=True)
class BandFile:
    """The bands of a file, by the name of the tensor."""

    path: Path
    bands: Mapping[str, Band]

    def band(self, name: str, where: str) -> Band:
        if name not in self.bands:
            raise SettingsError(f"{where}: {self.path} has no band for {name!r}{did_you_mean(name, self.bands)}")
        return self.bands[name]


def load_bands(path: Path) -> BandFile:
    """Read a file that `band_text` wrote."""
    import tomllib

    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("bands")
    except FileNotFoundError as error:
        raise SettingsError(
            f"{path}: does not exist; `firstdiff check REF --rules R --measure {path}` writes it"
        ) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read as TOML ({error})") from error
    if not isinstance(entries, list) or not entries:
        raise SettingsError(f"{path}: has no [[bands]] with name, low and high")
    return BandFile(path, dict(_band(entry, path) for entry in entries))


def _band(entry: Any, path: Path) -> tuple[str, Band]:
    name = entry.get("name") if isinstance(entry, dict) else None
    limits = [entry.get(side) for side in ("low", "high")] if isinstance(entry, dict) else []
    lists = [limit for limit in limits if isinstance(limit, list) and all(isinstance(n, int | float) for n in limit)]
    if not isinstance(name, str) or len(lists) != 2 or len(lists[0]) != len(lists[1]):
        raise SettingsError(f"{path}: a band needs a name and lists low and high of one length")
    return name, Band(tuple(lists[0]), tuple(lists[1]))


def band_text(measured: Mapping[str, Sequence[Sequence[np.ndarray]]]) -> str:
    """Return the file for what was measured: by tensor, for each run, the shares of each step."""
    blocks = [_HEAD.format(deviations=_DEVIATIONS)]
    for name, runs in measured.items():
        lengths = {len(run) for run in runs}
        if len(lengths) > 1:
            raise UsageError(
                f"{name}: the reference runs change it {sorted(lengths)} times; give runs of as many steps"
            )
        steps = [np.concatenate(step) for step in zip(*runs, strict=True)]
        if len(steps[0]) < 2:
            raise UsageError(f"{name}: one run gives no band; give several, or axis for the samples of a batch")
        mean = np.array([step.mean() for step in steps])
        margin = np.array([_DEVIATIONS * step.std(ddof=1) for step in steps]) + _least_margin(steps)
        low, high = np.clip(mean - margin, 0, 1), np.clip(mean + margin, 0, 1)
        blocks.append(
            f"[[bands]]\nname = {json.dumps(name)}\nruns = {len(steps[0])}\n"
            f"low = {_listed(low)}\nmean = {_listed(mean)}\nhigh = {_listed(high)}\n"
        )
    return "\n".join(blocks)


def _least_margin(steps: Sequence[np.ndarray]) -> float:
    """Return the smallest share that occurs: one element more or less is always possible."""
    shares = np.unique(np.concatenate(steps))
    gaps = np.diff(shares)
    return float(gaps[gaps > 1e-9].min()) if (gaps > 1e-9).any() else 0.0


def _listed(values: np.ndarray) -> str:
    return "[" + ", ".join(f"{value:.4f}" for value in values.tolist()) + "]"
