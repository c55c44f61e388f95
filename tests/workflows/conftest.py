from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Done, firstdiff
from tests.workflows.scratch import scratch_project

__all__ = ["firstdiff", "golden", "project"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose port is right, and the current folder."""
    folder = scratch_project(tmp_path / "project")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def golden(project: Path, firstdiff: Callable[..., Done]) -> Path:
    """The golden of the project's input set."""
    done = firstdiff("golden")
    assert done.code == 0, done.err
    assert "golden short: 5 tensors" in done.out
    assert "reference | done with 5" in done.err
    return project / "golden" / "short"
