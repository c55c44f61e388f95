"""Find the first diverging tensor by running both sides again and again, each time recording only checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import final

from firstdiff.errors import ReadError, UsageError
from firstdiff.readers import open_trace
from firstdiff.schema import Diagnosis
from firstdiff.trace import Trace
from firstdiff.workflows.checkpoints import Checkpoint, checkpoints_of, in_order
from firstdiff.workflows.command import CommandError, OnLine
from firstdiff.workflows.golden import recorded_trace, run_side
from firstdiff.workflows.probes import Probes, State, Workspace
from firstdiff.workflows.project import InputSet, Project

RECORDED_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Probe:
    """One run of each side: how many tensors match, the first that differs, and how many are left to search."""

    run: int
    matching: int
    first: str | None
    left: int


OnProbe = Callable[[Probe], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    """The result: the first tensor that differs, the last before it that does not, and how that was checked.

    names: how many tensors both sides record, so far as was seen
    runs: how often each side ran
    first: None where no checkpoint differs
    persists: False where a tensor that depends on one that differs matches again
    checked: how many tensors were looked at to check that
    """

    names: int
    runs: int
    first: str | None
    before: str | None = None
    persists: bool = True
    checked: str = ""
    text: str = ""
    diagnosis: tuple[Diagnosis, ...] = ()
    warnings: tuple[str, ...] = ()


def checkpoints_to_search(
    project: Project, inputs: InputSet, stated: Path | None, on_line: OnLine | None
) -> list[Checkpoint]:
    """Return outputs in order: of a trace, a text file or the golden; else of one whole reference run."""
    golden = project.golden.folder / inputs.name
    if stated is not None and stated.is_file() and stated.suffix in (".txt", ".lst", ""):
        names = [line.strip() for line in _read_text(stated).splitlines()]
        found = in_order(name for name in names if name and not name.startswith("#"))
    elif stated is not None or golden.exists():
        found = _checkpoints(open_trace(stated or golden))
    else:
        with Workspace(project) as folder:
            run_side(project.command("reference"), inputs, folder / "whole", on_line=on_line)
            found = _checkpoints(recorded_trace(folder / "whole", project.command("reference")))
    if not found:
        raise UsageError(f"{stated or golden}: names no output to search")
    return found


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(f"cannot be read ({getattr(error, 'strerror', None) or error})", str(path)) from error


def _checkpoints(trace: Trace) -> list[Checkpoint]:
    return checkpoints_of([tensor.record for tensor in trace])


def bisect(
    project: Project,
    inputs: InputSet,
    checkpoints: Sequence[Checkpoint],
    *,
    on_line: OnLine | None = None,
    on_probe: OnProbe | None = None,
) -> Bisection:
    """Narrow down the first divergence; assumes that it persists in all that depends on it, and checks that.

    on_probe: called after every run
    """
    with Workspace(project) as folder:
        probes = Probes(project, inputs, folder, checkpoints, on_line)
        return _Search(probes, checkpoints, on_probe).find()


@final
class _Search:
    def __init__(self, probes: Probes, checkpoints: Sequence[Checkpoint], on_probe: OnProbe | None) -> None:
        self._probes = probes
        self._checkpoints = checkpoints
        self._on_probe = on_probe
        self._states: dict[int, State] = {}
        self._end = len(checkpoints)
        self._warnings: list[str] = []

    def find(self) -> Bisection:
        first = self._narrow(len(self._checkpoints))
        while True:  # each time round, the first one known lies earlier
            if first is None:
                states = self._probe_some(self._unknown(len(self._checkpoints)))
                first = _first_that_differs(states, len(self._checkpoints))
                if first is None and all(states[number] == "missing" for number in states if number >= self._end):
                    return self._nothing_differs()
                self._end = len(self._checkpoints)
            else:
                earlier = _first_that_differs(self._probe_some(self._unknown(first)), first)
                if earlier is None:
                    return self._confirm(first)
                first = earlier
            self._warn_of_recovery(first)
            first = self._narrow(len(self._checkpoints) if first is None else first)

    def _narrow(self, high: int) -> int | None:
        """Return the first that differs up to `high`: what a matching one depends on is taken to match."""
        differs = high < len(self._checkpoints)
        while left := self._left(min(high, self._end)):
            spread = self._spread(left)
            states = self._probe(spread)
            first = _first_that_differs(states, high)
            if first is not None:
                high, differs = first, True
            recorded = [place for place, number in enumerate(spread) if states[number] != "missing"]
            absent = spread[recorded[-1] + 1 :] if recorded else spread
            if 2 * len(absent) > RECORDED_AT_ONCE:  # a port that is not finished: leave the rest for the end
                self._end = absent[0]
            self._report(states, first, len(self._left(min(high, self._end))))
        return high if differs else None

    def _left(self, high: int) -> list[int]:
        """Return checkpoints below `high` that may differ."""
        cleared = 0
        for number, state in self._states.items():
            if state == "match" and number < high:
                cleared |= self._checkpoints[number].depends
        return [number for number in self._unknown(high) if not cleared >> number & 1]

    def _unknown(self, high: int) -> list[int]:
        return [number for number in range(high) if number not in self._states]

    def _spread(self, left: Sequence[int]) -> list[int]:
        """Choose from each stretch the one that the most others lead to: if it matches, they all do."""
        bits = sum(1 << number for number in left)
        count = min(len(left), RECORDED_AT_ONCE)
        edges = [len(left) * part // count for part in range(count + 1)]
        stretches = [left[start:stop] for start, stop in pairwise(edges)]
        return [max(part, key=lambda n: ((self._checkpoints[n].depends & bits).bit_count(), n)) for part in stretches]

    def _probe(self, numbers: Sequence[int]) -> dict[int, State]:
        states = self._probes.states(numbers) if numbers else {}
        self._states.update(states)
        return states

    def _probe_some(self, numbers: Sequence[int]) -> dict[int, State]:
        count = min(len(numbers), RECORDED_AT_ONCE)
        return self._probe([numbers[len(numbers) * part // count] for part in range(count)])

    def _dependents(self, first: int) -> list[int]:
        later = range(first + 1, len(self._checkpoints))
        return [number for number in later if self._checkpoints[number].depends >> first & 1]

    def _confirm(self, first: int) -> Bisection:
        """Check that what depends on it differs as well, and look for the cause."""
        found = self._checkpoints[first]
        dependents = self._dependents(first)
        self._probe_some([number for number in dependents if number not in self._states])
        healed = [number for number in dependents if self._states.get(number) == "match"]
        if healed:
            self._warnings.append(f"the divergence does not persist: {self._checkpoints[healed[0]]} matches again")
        matching = [number for number in range(first) if self._states.get(number) == "match"]
        before = [number for number in matching if found.depends >> number & 1] or matching
        names = dict.fromkeys([*(self._checkpoints[number].name for number in before[-1:]), *found.feeds, found.name])
        comparison = self._probes.compare(names, diagnose=True)
        pair = next((pair for pair in comparison.pairs if self._probes.is_of(first, pair)), None)
        if pair is None or pair.status == "match":
            raise CommandError(f"{found} differs in one run and not in the next: both commands must be deterministic")
        figures = pair.metrics
        differing = sum(self._states.get(number) == "differs" for number in dependents)
        return self._result(
            str(found),
            before=str(self._checkpoints[before[-1]]) if before else None,
            persists=not self._warnings,
            checked=f"{len(matching):,} of {first:,} before it match, {differing:,} of {len(dependents):,} that depend "
            "on it differ",
            text=pair.reason or ("" if figures is None else f"max {figures.max_abs:.3g}"),
            diagnosis=pair.diagnosis,
        )

    def _nothing_differs(self) -> Bisection:
        matching = sum(state == "match" for state in self._states.values())
        if not matching:
            raise UsageError(
                f"reference and candidate record none of the {len(self._checkpoints):,} tensors, such as "
                f"{self._checkpoints[0]}; name tensors of both with --names"
            )
        unseen = len(self._checkpoints) - len(self._states)
        text = f"no checkpoint differs: {matching:,} match"
        if unseen:
            text += f", {unseen:,} between them were not looked at, where an error would have to die out again"
        return self._result(None, text=text)

    def _warn_of_recovery(self, first: int | None) -> None:
        dependents = () if first is None else self._dependents(first)
        healed = next((number for number in dependents if self._states.get(number) == "match"), None)
        if first is not None and healed is not None:
            text = f"{self._checkpoints[first]} differs, although {self._checkpoints[healed]}, made from it, matches"
            self._warnings.append(text)

    def _report(self, states: Mapping[int, State], first: int | None, left: int) -> None:
        if self._on_probe is not None:
            matching = sum(state == "match" for state in states.values())
            name = None if first is None else str(self._checkpoints[first])
            self._on_probe(Probe(self._probes.runs, matching, name, left))

    def _result(
        self,
        first: str | None,
        *,
        before: str | None = None,
        persists: bool = True,
        checked: str = "",
        text: str = "",
        diagnosis: tuple[Diagnosis, ...] = (),
    ) -> Bisection:
        missing = sum(state == "missing" for state in self._states.values())
        return Bisection(
            names=len(self._checkpoints) - missing,
            runs=self._probes.runs,
            first=first,
            before=before,
            persists=persists,
            checked=checked,
            text=text,
            diagnosis=diagnosis,
            warnings=tuple(self._warnings),
        )


def _first_that_differs(states: Mapping[int, State], high: int) -> int | None:
    """Return the first below `high`; other calls of the same names may lie above it."""
    return min((number for number, state in states.items() if state == "differs" and number < high), default=None)
