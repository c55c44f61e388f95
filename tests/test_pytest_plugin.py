"""The golden fixture in pytest runs of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from firstdiff.trace import Record, TraceWriter

TESTS = """
import numpy as np
import pytest

GAIN = 1.0


@pytest.mark.parametrize("rate", [1, 2, 3])
def test_mel(golden, rate):
    golden.check("mel/power", rate * GAIN * np.linspace(1, 2, 12, dtype=np.float32))
    golden.check("mel/power", np.arange(4))


@pytest.mark.golden(atol=1.0)
def test_loosely(golden):
    golden.check("ids", [1.0 * GAIN, 2.0])
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n", encoding="utf-8")
    (tmp_path / "test_port.py").write_text(TESTS, encoding="utf-8")
    return tmp_path


def test_golden_data_is_written_then_held_to_under_xdist(folder: Path) -> None:
    done = run(folder)
    assert done.returncode == 1
    assert "there is no golden for 'mel/power' yet" in done.stdout
    done = run(folder, "--update-golden", "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((folder / "golden" / "tests").rglob("*.npy"))) == 7
    assert run(folder, "-n", "2").returncode == 0
    text = (folder / "test_port.py").read_text(encoding="utf-8")
    (folder / "test_port.py").write_text(text.replace("GAIN = 1.0", "GAIN = 1.25"), encoding="utf-8")
    done = run(folder)
    assert "3 failed, 1 passed" in done.stdout
    assert "Greatest absolute difference: 0.5 at index [11] (reference 2.0, candidate 2.5)" in done.stdout
    assert "Cause: scale.constant" in done.stdout


def test_a_golden_trace_is_used_and_never_changed(folder: Path) -> None:
    for name in ("short", "long"):
        with TraceWriter(folder / "data" / name) as trace:
            trace.write(Record(name="mel", seq=0), np.arange(3.0))
    (folder / "test_port.py").write_text(
        """
import numpy as np
import pytest

@pytest.mark.golden(input="short")
def test_right(golden):
    golden.check("mel", golden.load("mel"))

@pytest.mark.golden(input="short")
def test_shape(golden):
    golden.check("mel", np.zeros((3, 1)))

@pytest.mark.golden(input="short")
def test_name(golden):
    golden.check("mell", np.zeros(3))

def test_which(golden):
    golden.check("mel", np.zeros(3))

@pytest.mark.golden(input="shrt")
def test_set(golden):
    golden.check("mel", np.zeros(3))

@pytest.mark.golden(atoll=1)
def test_marker(golden):
    pass

def test_own(golden):
    golden.check("own", np.arange(3))

def test_near(golden):
    golden.check("meel", np.arange(3))

def test_words(golden):
    golden.check("own", "abc")
""",
        encoding="utf-8",
    )
    done = run(folder, "--golden-dir", "data")
    assert "7 failed, 1 passed, 1 error" in done.stdout, done.stdout
    assert "there is no golden for 'meel' yet (did you mean mel?)" in done.stdout
    assert "own cannot be recorded: it has elements of type <U3" in done.stdout
    assert "Traceback" not in done.stdout
    assert "recording.py" not in done.stdout
    assert "holds 'mell' (did you mean mel?)" in done.stdout
    assert 'mel is in the golden of long, short; add @pytest.mark.golden(input="…")' in done.stdout
    assert "shrt is no golden trace (did you mean short?)" in done.stdout
    assert "takes atol, equal_nan, input, rtol, not atoll" in done.stdout
    done = run(folder, "--golden-dir", "data", "--update-golden", "-k", "right")
    assert "which tests do not change; `firstdiff golden` renews it" in done.stdout
    for more in (["--update-golden"], []):
        assert "1 passed" in run(folder, "--golden-dir", "data", "-k", "own", *more).stdout
