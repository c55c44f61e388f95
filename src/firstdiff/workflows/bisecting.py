"""Find the first diverging tensor by running both sides again and again, each time recording only checkpoints."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import final

from firstdiff.comparing import Options, compare_traces
from firstdiff.errors import UsageError, WriteError
from firstdiff.judge.rules import Rules
from firstdiff.readers import open_trace
from firstdiff.schema import Comparison, Diagnosis
from firstdiff.trace import Trace
from firstdiff.workflows.commands import OnLine, Side
from firstdiff.workflows.golden import recorded_trace, run_side
from firstdiff.workflows.project import InputSet, Project
from firstdiff.workflows.results import Results

OnProbe = Callable[[str, str, int], None]
_SAMPLES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    """What was found: the first tensor that differs, the last before it that does not, and how that was checked.

    first: None where no checkpoint differs
    runs: how often each side ran
    persists: False where a later tensor matches again, so that there may be an earlier divergence
    """

    names: int
    runs: int
    first: str | None
    before: str | None = None
    persists: bool = True
    text: str = ""
    diagnosis: tuple[Diagnosis, ...] = ()
    warnings: tuple[str, ...] = ()


def names_to_search(project: Project, inputs: InputSet, stated: Path | None, on_line: OnLine | None) -> list[str]:
    """Return the names of outputs in order: of a trace, a text file or the golden; else of one whole reference run."""
    golden = project.golden.folder / inputs.name
    if stated is not None and stated.is_file() and stated.suffix in (".txt", ".lst", ""):
        names = [line.strip() for line in stated.read_text(encoding="utf-8").splitlines()]
        found = [name for name in names if name and not name.startswith("#")]
    elif stated is not None or golden.exists():
        found = _names(open_trace(stated or golden))
    else:
        with _Workspace(project) as folder:
            run_side(project.command("reference"), inputs, folder / "whole", on_line=on_line)
            found = _names(recorded_trace(folder / "whole", project.command("reference")))
    if not found:
        raise UsageError(f"{stated or golden}: names no output to search")
    return list(dict.fromkeys(found))


def _names(trace: Trace) -> list[str]:
    return [tensor.name for tensor in trace if tensor.key.role == "output"]


def bisect(
    project: Project,
    inputs: InputSet,
    names: Sequence[str],
    *,
    on_line: OnLine | None = None,
    on_probe: OnProbe | None = None,
) -> Bisection:
    """Halve the interval that holds the first divergence; assumes that it persists, and checks that at the end.

    on_probe: called with a name, its state and how many are left
    """
    with _Workspace(project) as folder:
        return _Search(project, inputs, folder, list(names), on_line, on_probe).find()


@final
class _Workspace:
    """A folder for traces, gone afterwards."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def __enter__(self) -> Path:
        Results(self._project.state).candidate("")
        try:
            self._folder = Path(mkdtemp(prefix="bisect-", dir=self._project.state))
        except OSError as error:
            raise WriteError(f"cannot write to {self._project.state} ({error.strerror or error})") from error
        return self._folder

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


@final
class _Search:
    def __init__(
        self,
        project: Project,
        inputs: InputSet,
        folder: Path,
        names: list[str],
        on_line: OnLine | None,
        on_probe: OnProbe | None,
    ) -> None:
        self._project = project
        self._inputs = inputs
        self._folder = folder
        self._names = names
        self._on_line = on_line
        self._on_probe = on_probe
        self._runs = 0
        self._warnings: list[str] = []
        options = Options.of(
            layout="strict", map=project.map, accept_layout=project.accept_layout, diagnose=False, allow_extra=True
        )
        self._options = replace(options, rules=Rules(named=project.rules))

    def find(self) -> Bisection:
        last = self._last_recorded()
        if last is None:
            return self._result(None, text="the candidate records none of these tensors")
        high: int | None = last
        if not self._differs_at(last):
            self._warnings.append(f"the last tensor, {self._names[last]}, matches")
            high = self._first_of(self._spread(0, last))
        while high is not None:
            first = self._halve(high)
            earlier = self._first_of(self._spread(0, first)) if first > 1 else None
            if earlier is None or earlier >= first:
                return self._confirm(first, last)
            self._warnings.append(f"{self._names[earlier]} differs although a later tensor matches")
            high = earlier
        return self._result(None, text="no checkpoint differs")

    def _halve(self, high: int) -> int:
        """Return the first that differs between the start and `high`, which does."""
        low = -1
        while high - low > 1:
            middle = (low + high) // 2
            state = self._state(middle)
            if state == "missing":  # the candidate has no such tensor: look on without it
                del self._names[middle]
                high -= 1
                continue
            if state == "match":
                low = middle
            else:
                high = middle
            if self._on_probe is not None:
                self._on_probe(self._names[middle], "matches" if state == "match" else "differs", high - low - 1)
        return high

    def _confirm(self, first: int, last: int) -> Bisection:
        """Check that what comes after differs as well, and look for the cause."""
        after = self._spread(first + 1, min(last, len(self._names) - 1))
        before = [first - 1] if first else []
        comparison = self._probe([*before, first, *after], diagnose=True)
        healed = [self._names[place] for place in after if self._status(comparison, place) == "match"]
        if healed:
            self._warnings.append(f"the divergence does not persist: {healed[0]} matches again")
        pair = next(pair for pair in comparison.pairs if pair.name == self._names[first])
        figures = pair.metrics
        return self._result(
            self._names[first],
            before=self._names[first - 1] if first else None,
            persists=not healed and not self._warnings,
            text=pair.reason or ("" if figures is None else f"max {figures.max_abs:.3g}"),
            diagnosis=pair.diagnosis,
        )

    def _result(
        self,
        first: str | None,
        *,
        before: str | None = None,
        persists: bool = True,
        text: str = "",
        diagnosis: tuple[Diagnosis, ...] = (),
    ) -> Bisection:
        return Bisection(
            names=len(self._names),
            runs=self._runs,
            first=first,
            before=before,
            persists=persists,
            text=text,
            diagnosis=diagnosis,
            warnings=tuple(self._warnings),
        )

    def _last_recorded(self) -> int | None:
        """Return the last tensor that both sides record; those after it are left out of the search."""
        while self._names:
            tail = self._names[-_SAMPLES:]
            comparison = self._probe(range(len(self._names) - len(tail), len(self._names)))
            for place in range(len(self._names) - 1, len(self._names) - len(tail) - 1, -1):
                if self._status(comparison, place) in ("match", "mismatch"):
                    self._last = self._status(comparison, place)
                    del self._names[place + 1 :]
                    return place
            del self._names[-len(tail) :]
        return None

    def _differs_at(self, place: int) -> bool:
        return self._last != "match" and place == len(self._names) - 1

    def _first_of(self, places: Sequence[int]) -> int | None:
        """Return the first of several checkpoints that differs, from one run."""
        if not places:
            return None
        comparison = self._probe(places)
        return next((place for place in places if self._status(comparison, place) == "mismatch"), None)

    def _spread(self, start: int, stop: int) -> list[int]:
        """Return some places from `start` to below `stop`, or all."""
        count = max(0, stop - start)
        return sorted({start + place * count // min(count, _SAMPLES) for place in range(min(count, _SAMPLES))})

    def _state(self, place: int) -> str:
        return self._status(self._probe([place]), place)

    def _status(self, comparison: Comparison, place: int) -> str:
        own = [pair.status for pair in comparison.pairs if pair.name == self._names[place] and pair.status != "extra"]
        if not own or all(status == "missing" for status in own):
            return "missing"
        return "match" if all(status == "match" for status in own if status != "missing") else "mismatch"

    def _probe(self, places: Sequence[int], *, diagnose: bool = False) -> Comparison:
        """Run both sides with only these tensors recorded."""
        only = [_as_glob(self._names[place]) for place in places]
        reference, candidate = self._record("reference", only), self._record("candidate", only)
        self._runs += 1
        return compare_traces(reference, candidate, replace(self._options, diagnose=diagnose))

    def _record(self, side: Side, only: Sequence[str]) -> Trace:
        trace = self._folder / side
        shutil.rmtree(trace, ignore_errors=True)
        run_side(self._project.command(side), self._inputs, trace, only=only, on_line=self._on_line)
        return open_trace(trace)


def _as_glob(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
