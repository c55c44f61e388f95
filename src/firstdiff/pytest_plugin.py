"""The pytest plugin: `golden.check("mel", x)` holds values to golden data, strictly."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import pytest

if TYPE_CHECKING:
    import numpy as np

    from firstdiff.trace import Trace
    from firstdiff.workflows.project import Project

_MARKER = (
    "golden(input=None, atol=None, rtol=None, equal_nan=False): the input set and tolerances of the golden fixture"
)
_MARKER_FIELDS = frozenset({"input", "atol", "rtol", "equal_nan"})
_UNSAFE = re.compile(r"[^\w.\-\[\]@=+]+")
_LONGEST_NAME = 120


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("firstdiff")
    group.addoption(
        "--golden-dir",
        metavar="DIR",
        help="Golden data of the golden fixture; the project's, else golden/, if left out.",
    )
    group.addoption("--update-golden", action="store_true", help="Write what tests check as new golden data.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> GoldenData:
    """Golden data for this test: `golden.check(name, value)`."""
    return GoldenData(request)


@final
class GoldenData:
    """Checks values against a golden trace of the project, or against files that `--update-golden` wrote."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._config = request.config
        self._test = request.node
        self._marker = _marker(request.node)
        self._checked: Counter[str] = Counter()
        self._project = _project(request.config)
        stated = request.config.getoption("--golden-dir")
        self.folder = Path(stated).absolute() if stated else _default_folder(request.config, self._project)

    def check(
        self,
        name: str,
        value: Any,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        equal_nan: bool | None = None,
    ) -> None:
        """Fail the test unless a value is that of the golden; anything that converts to an array may be checked.

        atol, rtol, equal_nan: as in `fd.compare`; those of the marker if left out, else the project's tolerances
        """
        __tracebackhide__ = True
        from firstdiff.capturing.recording import as_array
        from firstdiff.errors import FirstdiffError

        try:
            array = as_array(name, value)
        except FirstdiffError as error:
            pytest.fail(str(error), pytrace=False)
        number = self._checked[name]
        self._checked[name] += 1
        key = f"{name}@{number}" if number else name
        trace = self._trace(key)
        if trace is not None and _holds(trace, key):
            self._against_trace(trace, key, array, (atol, rtol, equal_nan))
        else:
            self._against_file(key, array, trace, (atol, rtol, equal_nan))

    def load(self, name: str) -> np.ndarray:
        """Return a tensor of the golden, to feed a component with."""
        __tracebackhide__ = True
        trace = self._trace(name)
        if trace is not None and _holds(trace, name):
            return trace[name].values().read()
        path = self._file(name)
        if not path.is_file():
            pytest.fail(self._missing(name, path, trace), pytrace=False)
        return _read(path)

    def _against_trace(self, trace: Trace, key: str, array: np.ndarray, stated: tuple[Any, Any, Any]) -> None:
        __tracebackhide__ = True
        if self._config.getoption("--update-golden"):
            pytest.fail(
                f"{key} is in the golden trace {trace.path}, which tests do not change; `firstdiff golden` renews it",
                pytrace=False,
            )
        self._compare(key, trace[key].values().read(), array, trace.path, stated)

    def _against_file(self, key: str, array: np.ndarray, trace: Trace | None, stated: tuple[Any, Any, Any]) -> None:
        __tracebackhide__ = True
        path = self._file(key)
        if self._config.getoption("--update-golden"):
            _write(path, array)
        elif not path.is_file():
            pytest.fail(self._missing(key, path, trace), pytrace=False)
        else:
            self._compare(key, _read(path), array, str(path), stated)

    def _compare(
        self, key: str, expected: np.ndarray, array: np.ndarray, where: str, stated: tuple[Any, Any, Any]
    ) -> None:
        __tracebackhide__ = True
        from dataclasses import replace

        from firstdiff.comparing import Options, compare_traces
        from firstdiff.judge.rules import Rules
        from firstdiff.reports.assertion import message
        from firstdiff.trace import Trace

        names = ("atol", "rtol", "equal_nan")
        given = {name: value for name, value in zip(names, stated, strict=True) if value is not None}
        options = Options.of(
            layout="strict", **{name: self._marker[name] for name in names if name in self._marker} | given
        )
        if self._project is not None and options.rules.atol is None and options.rules.rtol is None:
            rules = Rules(named=self._project.rules, equal_nan=options.rules.equal_nan)
            options = replace(options, rules=rules)
        reference = Trace.from_arrays({key: expected}, where)
        comparison = compare_traces(reference, Trace.from_arrays({key: array}, "the test's value"), options)
        if comparison.verdict != "match":
            pytest.fail(message(comparison), pytrace=False)

    def _trace(self, key: str) -> Trace | None:
        """Return the golden trace of the marker's input set, or the only one there is.

        Where there are several and none is named, a key that they hold needs the marker; any other is the test's own.
        """
        from firstdiff.errors import did_you_mean
        from firstdiff.readers import open_trace
        from firstdiff.trace import LINES

        if (self.folder / LINES).is_file():
            return open_trace(self.folder)
        found = self._folders()
        wanted = self._marker.get("input")
        if wanted is not None:
            if not (self.folder / wanted / LINES).is_file():
                near = did_you_mean(wanted, [path.name for path in found])
                pytest.fail(
                    f"{self.folder / wanted} is no golden trace{near}; `firstdiff golden` makes it", pytrace=False
                )
            return open_trace(self.folder / wanted)
        if len(found) == 1:
            return open_trace(found[0])
        holding = [path.name for path in found if _holds(open_trace(path), key)]
        if holding:
            pytest.fail(
                f'{key} is in the golden of {", ".join(holding)}; add @pytest.mark.golden(input="…")', pytrace=False
            )
        return None

    def _folders(self) -> list[Path]:
        """Return the golden traces of the project's input sets."""
        from firstdiff.trace import LINES

        return sorted(path.parent for path in self.folder.glob(f"[!.]*/{LINES}"))

    def _missing(self, key: str, path: Path, trace: Trace | None) -> str:
        from firstdiff.errors import did_you_mean
        from firstdiff.readers import open_trace

        searched = [trace] if trace is not None else [open_trace(folder) for folder in self._folders()]
        near = did_you_mean(key, {str(tensor.key) for found in searched for tensor in found})
        if trace is not None:
            return f"neither {trace.path} nor {path} holds {key!r}{near}; `pytest --update-golden` writes the file"
        return f"there is no golden for {key!r} yet{near}: {path} does not exist; `pytest --update-golden` writes it"

    def _file(self, key: str) -> Path:
        module = Path(self._test.nodeid.partition("::")[0]).with_suffix("")
        return self.folder / "tests" / "__".join(module.parts) / _safe(self._test.name) / f"{_safe(key)}.npy"


def _holds(trace: Trace, key: str) -> bool:
    return any(str(tensor.key) == key for tensor in trace)


def _marker(node: Any) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers("golden"))):
        unknown = set(marker.kwargs) - _MARKER_FIELDS
        if unknown or marker.args:
            wrong = ", ".join(sorted(unknown)) or str(marker.args[0])
            pytest.fail(f"@pytest.mark.golden takes {', '.join(sorted(_MARKER_FIELDS))}, not {wrong}", pytrace=False)
        found |= marker.kwargs
    return found


def _project(config: pytest.Config) -> Project | None:
    from firstdiff.errors import FirstdiffError
    from firstdiff.workflows.project import find_project, load_project

    path = find_project(config.rootpath)
    try:
        return load_project(path) if path is not None else None
    except FirstdiffError as error:
        pytest.fail(str(error), pytrace=False)


def _default_folder(config: pytest.Config, project: Project | None) -> Path:
    return project.golden.folder if project is not None else config.rootpath / "golden"


def _safe(text: str) -> str:
    """Return a file name; names that lose letters get a digest, so that no two become one."""
    plain = _UNSAFE.sub("_", text)
    if plain == text and len(text) <= _LONGEST_NAME and not text.startswith("."):
        return text
    from hashlib import sha256

    return f"{plain[:_LONGEST_NAME].lstrip('.')}-{sha256(text.encode()).hexdigest()[:8]}"


def _write(path: Path, array: np.ndarray) -> None:
    """Write a golden whole or not at all: workers of xdist, and others who read, may be at it too."""
    import numpy as np

    from firstdiff.dtypes import is_extended

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        with part.open("wb") as file:
            np.save(file, array.astype(np.float32) if is_extended(array.dtype) else array, allow_pickle=False)
        part.replace(path)
    except OSError as error:
        pytest.fail(f"cannot write {path} ({error.strerror or error})", pytrace=False)


def _read(path: Path) -> np.ndarray:
    from firstdiff.errors import FirstdiffError
    from firstdiff.readers import open_trace

    try:
        return open_trace(path).tensors[0].values().read()
    except FirstdiffError as error:
        pytest.fail(str(error), pytrace=False)
