from __future__ import annotations

from pathlib import Path

import numpy as np

from firstdiff.comparing import Options
from firstdiff.comparing.single_trace import summarize_trace
from firstdiff.readers import open_trace
from firstdiff.trace import Trace


def test_every_tensor_has_its_statistics() -> None:
    told: list[tuple[int, int]] = []
    arrays = {"a": np.array([1.0, 3.0, np.nan]), "empty": np.zeros((0, 4)), "scalar": np.array(5)}
    tell = lambda progress: told.append((progress.done, progress.total))  # noqa: E731
    seen = summarize_trace(Trace.from_arrays(arrays), Options(), tell)
    assert [(pair.index, pair.key, pair.status, pair.reason) for pair in seen.pairs] == [
        (0, "a", "alone", None),
        (1, "empty", "alone", "no elements"),
        (2, "scalar", "alone", None),
    ]
    statistics = seen.pairs[0].reference.statistics
    assert (statistics.mean, statistics.min, statistics.max, statistics.nan) == (2.0, 1.0, 3.0, 1)
    assert (seen.verdict, seen.first_divergence) == ("not_compared", None)
    assert told == [(24, 32), (24, 32), (32, 32)]


def test_what_cannot_be_read_is_a_failed_row(tmp_path: Path) -> None:
    np.save(tmp_path / "good.npy", np.ones(3))
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY")
    seen = summarize_trace(open_trace(tmp_path), Options())
    assert {pair.key: pair.status for pair in seen.pairs} == {"bad": "failed", "good": "alone"}
    assert seen.summary.failed == 1
