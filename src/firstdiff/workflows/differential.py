"""Differential testing: run both commands on many inputs, keep the failing ones, shrink them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar, final

from firstdiff.comparing import Options, compare_traces
from firstdiff.errors import FirstdiffError, WriteError
from firstdiff.judge.rules import Rules
from firstdiff.schema import Comparison
from firstdiff.workflows.command import CommandError, Side, stop_commands
from firstdiff.workflows.golden import recorded_trace, run_side
from firstdiff.workflows.inputs_first import differing_inputs, stated_differences
from firstdiff.workflows.project import InputSet, Project
from firstdiff.workflows.random_inputs import Arrays, draw_inputs, random_inputs, shrink, write_inputs
from firstdiff.workflows.results import Results
from firstdiff.workflows.validation import component_name

T = TypeVar("T")
CaseState = Literal["pass", "fail", "error", "rejected"]
_GENERATED = "random-"
_MOST_DIAGNOSED = 5
_MOST_TRIES = 60
_STOP_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One input and what came of it.

    state: "error" where the candidate alone failed, "rejected" where the reference did, so that nothing was compared
    kept: the folder with inputs and both traces of a case that failed
    shrunk: the shape of every input after it was made smaller
    generated: made by `--random`, no input set of the project
    """

    name: str
    state: CaseState
    tensors: int = 0
    first: str | None = None
    component: str | None = None
    cause: str | None = None
    text: str = ""
    kept: str | None = None
    shrunk: str | None = None
    generated: bool = False


@final
class DifferentialRun:
    """Runs cases of one project; each case has a folder of its own while it runs."""

    def __init__(self, project: Project, *, seed: int = 0, jobs: int = 1) -> None:
        self._project = project
        self._seed = seed
        self._jobs = jobs
        self._diagnosed = 0
        self._stopped = False
        self._work = Results(project.state).folder("run")
        self._failing = project.state / "failing"
        self._options = Options.of(
            layout="strict",
            map=project.map,
            accept_layout=project.accept_layout,
            diagnose=False,
            allow_missing=True,
            allow_extra=True,
        )
        self._options = replace(self._options, rules=Rules(named=project.rules))
        project.command("reference")
        project.command("candidate")

    def cases(self, sets: Sequence[InputSet], random: int = 0) -> Iterator[CaseResult]:
        """Run both commands on input sets of the project, then on generated inputs."""
        inputs = random_inputs(self._project) if random else ()

        def case(item: InputSet | int) -> CaseResult:
            if isinstance(item, InputSet):
                return self._case(item)
            name = f"{_GENERATED}{item}"
            arrays = draw_inputs(inputs, self._seed, item)
            made = write_inputs(inputs, arrays, self._work / name, name, self._fixed())
            return replace(self._case(made), generated=True)

        yield from self._all([*sets, *range(random)], case)

    def shrink(self, result: CaseResult) -> CaseResult:
        """Make a random case that failed smaller; its inputs are replaced by those found."""
        inputs = random_inputs(self._project)
        arrays = draw_inputs(inputs, self._seed, int(result.name.removeprefix(_GENERATED)))
        folder = self._work / f"{result.name}-shrinking"

        def fails(smaller: Arrays) -> bool:
            made = write_inputs(inputs, smaller, folder, result.name, self._fixed())
            found = self._run(made, folder)
            return found.state in ("fail", "error") and found.first == result.first

        try:
            found, tries = shrink(inputs, arrays, fails, _MOST_TRIES)
            kept = self._project.root / (result.kept or "")
            write_inputs(inputs, found, kept, result.name, self._fixed())
            fails(found)  # the traces that belong to it
            for side in ("reference", "candidate"):
                if (folder / side).exists():
                    shutil.rmtree(kept / side, ignore_errors=True)
                    (folder / side).rename(kept / side)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        shapes = ", ".join(f"{name} {list(values.shape)}" for name, values in found.items())
        return replace(result, shrunk=f"{shapes} in {tries} tries")

    def _fixed(self) -> dict[str, str]:
        """Return what placeholders that are not random stand for: the values of the first input set."""
        first = next(iter(self._project.inputs.values()), None)
        return {} if first is None else dict(first.values)

    def _all(self, items: Sequence[T], case: Callable[[T], CaseResult]) -> Iterator[CaseResult]:
        if self._jobs == 1:
            yield from map(case, items)
            return
        with ThreadPoolExecutor(self._jobs) as pool:
            futures = [pool.submit(case, item) for item in items]
            try:
                yield from (future.result() for future in futures)
            except BaseException:  # Ctrl-C reaches this thread only
                self._stopped = True
                for future in futures:
                    future.cancel()
                while wait(futures, _STOP_AGAIN_S).not_done:
                    stop_commands()
                raise

    def _case(self, inputs: InputSet) -> CaseResult:
        folder = self._work / inputs.name
        try:
            result = self._run(inputs, folder)
            if result.state in ("fail", "error") and not self._stopped:
                result = replace(result, kept=self._keep(folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return result

    def _run(self, inputs: InputSet, folder: Path) -> CaseResult:
        traces = {}
        for side in ("reference", "candidate"):
            shutil.rmtree(folder / side, ignore_errors=True)
            failure = self._record(side, inputs, folder / side)
            if failure is not None:
                state: CaseState = "rejected" if side == "reference" else "error"
                return CaseResult(name=inputs.name, state=state, text=failure)
            traces[side] = recorded_trace(folder / side, self._project.command(side))
        reference, candidate = traces["reference"], traces["candidate"]
        different = stated_differences(reference, candidate)
        comparison = compare_traces(reference, candidate, self._options)
        if comparison.verdict == "mismatch" and not different and self._diagnosed < _MOST_DIAGNOSED:
            self._diagnosed += 1
            comparison = compare_traces(reference, candidate, replace(self._options, diagnose=True))
        different += differing_inputs(comparison, self._project.golden.inputs)
        return self._result(inputs.name, comparison, different)

    def _record(self, side: Side, inputs: InputSet, trace: Path) -> str | None:
        """Run one side; returns why it failed."""
        command = self._project.command(side)
        try:
            run_side(command, inputs, trace)
            recorded_trace(trace, command)
        except CommandError as error:
            if not error.started:
                raise
            return str(error)
        except FirstdiffError as error:
            return str(error)
        return None

    def _result(self, name: str, comparison: Comparison, different: list[str]) -> CaseResult:
        first = comparison.first_divergence
        best = comparison.diagnosis[0] if comparison.diagnosis and not different else None
        measured = sum(pair.metrics is not None for pair in comparison.pairs)
        pair = comparison.pairs[first.pair] if first else None
        text = different[0] if different else (pair.reason or "") if pair else ""
        if pair is not None and pair.metrics is not None and pair.metrics.max_abs is not None and not different:
            text = f"max {pair.metrics.max_abs:.3g}"
        if not measured:
            text = "nothing was compared"
        return CaseResult(
            name=name,
            state="pass" if comparison.verdict == "match" and not different else "fail",
            tensors=measured,
            first=first.key if first else None,
            component=component_name(pair.name, self._project.components) if pair else None,
            cause=best.cause if best else None,
            text=text,
        )

    def _keep(self, folder: Path) -> str:
        target = self._failing / folder.name
        try:
            self._failing.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(target, ignore_errors=True)
            folder.rename(target)
        except OSError as error:
            raise WriteError(f"cannot keep {target} ({error.strerror or error})") from error
        with suppress(OSError):
            self._work.rmdir()
        return self._project.shown(target)
