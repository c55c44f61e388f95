"""Run both sides of a project with a few tensors recorded, and say which of them match."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal, final

from firstdiff.comparing import Options, compare_traces
from firstdiff.errors import WriteError
from firstdiff.judge.rules import Rules
from firstdiff.readers import open_trace
from firstdiff.schema import Comparison, Pair
from firstdiff.trace import Trace
from firstdiff.workflows.checkpoints import Checkpoint
from firstdiff.workflows.command import OnLine, Side
from firstdiff.workflows.golden import run_side
from firstdiff.workflows.project import InputSet, Project
from firstdiff.workflows.results import Results

State = Literal["match", "differs", "missing"]


@final
class Workspace:
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
class Probes:
    """Runs of both sides with a few tensors recorded."""

    def __init__(
        self,
        project: Project,
        inputs: InputSet,
        folder: Path,
        checkpoints: Sequence[Checkpoint],
        on_line: OnLine | None,
    ) -> None:
        self._project = project
        self._inputs = inputs
        self._folder = folder
        self._on_line = on_line
        self._by_name: dict[str, list[int]] = defaultdict(list)
        for number, checkpoint in enumerate(checkpoints):
            self._by_name[checkpoint.name].append(number)
        self._checkpoints = checkpoints
        self.runs = 0
        options = Options.of(
            layout="strict", map=project.map, accept_layout=project.accept_layout, diagnose=False, allow_extra=True
        )
        self._options = replace(options, rules=Rules(named=project.rules))

    def states(self, numbers: Iterable[int]) -> dict[int, State]:
        """Run both sides and return the state of these checkpoints, and of every other call of theirs."""
        names = list(dict.fromkeys(self._checkpoints[number].name for number in numbers))
        return self.states_in(self.compare(names), names)

    def states_in(self, comparison: Comparison, names: Iterable[str]) -> dict[int, State]:
        by_name: dict[str, list[Pair]] = defaultdict(list)
        for pair in comparison.pairs:
            by_name[pair.name].append(pair)
        return {number: self._state(number, by_name[name]) for name in names for number in self._by_name[name]}

    def _state(self, number: int, pairs: Iterable[Pair]) -> State:
        own = [pair.status for pair in pairs if self.is_of(number, pair)]
        known = [status for status in own if status not in ("missing", "extra", "rewritten")]
        if not known:
            return "missing"
        return "match" if all(status == "match" for status in known) else "differs"

    def is_of(self, number: int, pair: Pair) -> bool:
        """Say if a row is a checkpoint's; its inputs and weights are not."""
        checkpoint = self._checkpoints[number]
        if checkpoint.key is None:
            return pair.name == checkpoint.name and pair.role == "output"
        return pair.key == str(checkpoint.key)

    def compare(self, names: Iterable[str], *, diagnose: bool = False) -> Comparison:
        only = [_as_glob(name) for name in names]
        reference, candidate = self._record("reference", only), self._record("candidate", only)
        self.runs += 1
        return compare_traces(reference, candidate, replace(self._options, diagnose=diagnose))

    def _record(self, side: Side, only: Sequence[str]) -> Trace:
        trace = self._folder / side
        shutil.rmtree(trace, ignore_errors=True)
        run_side(self._project.command(side), self._inputs, trace, only=only, on_line=self._on_line)
        return open_trace(trace)


def _as_glob(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
