"""Machine code on disk: made once, loaded without numba, never trusted when damaged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from firstdiff.measure import compiled_ready, measure_pair, native
from firstdiff.measure.allowed import Allowed
from firstdiff.trace import ArraySource

SCRIPT = """
import sys
import numpy as np
from firstdiff.measure import compiled_ready, measure_pair
from firstdiff.measure.allowed import Allowed
from firstdiff.trace import ArraySource

r = np.arange(100_000, dtype=np.float32)
found = measure_pair(ArraySource(r), ArraySource(r + 1), Allowed(0.5, 0.0), engine="numba")
ready = compiled_ready(r.dtype, r.dtype)
print(found.metrics.max_abs, found.metrics.mismatched, "numba" in sys.modules, ready)
"""


def run(folder: Path) -> list[str]:
    environment = {"FIRSTDIFF_CACHE": str(folder), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_code_is_made_once_and_loaded_without_the_compiler(tmp_path: Path) -> None:
    assert run(tmp_path) == ["1.0", "100000", "True", "True"]
    made = sorted(file.name for file in tmp_path.rglob("*.o"))
    assert made == ["count-f4-f4.o", "measure-f4-f4.o"]
    assert run(tmp_path) == ["1.0", "100000", "False", "True"]


@pytest.mark.parametrize("damage", ["changed", "cut", "empty", "gone"])
def test_code_that_is_damaged_counts_as_none(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "kernels" / "measure-f4-f4.o"
    native._keep(file, bytes(range(100)))
    assert native._read(file) == bytes(range(100))
    data = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes({"changed": data[:-1] + b"\0", "cut": data[:-1], "empty": b""}[damage])
    assert native._read(file) is None


def test_a_place_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    native._keep(tmp_path / "file" / "measure.o", b"code")
    assert native._read(tmp_path / "file" / "measure.o") is None


def test_types_that_are_left_to_numpy_are_always_ready(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIRSTDIFF_CACHE", str(tmp_path))
    monkeypatch.setattr(native, "_loaded", {})
    assert compiled_ready(np.dtype(np.int32), np.dtype(np.float32))
    assert not compiled_ready(np.dtype(np.float32), np.dtype(np.float32))


def test_both_engines_agree_on_a_window_with_everything_in_it() -> None:
    rng = np.random.default_rng(0)
    r = rng.standard_normal(200_000).astype(np.float32)
    c = r + np.float32(1e-4) * rng.standard_normal(r.size).astype(np.float32)
    r[17], c[18], r[19], c[20] = np.nan, np.inf, 0.0, 7.0
    found = [
        measure_pair(ArraySource(r), ArraySource(c), Allowed(1e-4, 0.0), full=True, engine=engine).metrics
        for engine in ("numpy", "numba")
    ]
    assert found[0].max_abs == found[1].max_abs
    assert found[0].argmax == found[1].argmax
    assert found[0].mismatched == found[1].mismatched
    assert found[0].rel_l2 == pytest.approx(found[1].rel_l2, rel=1e-6)
