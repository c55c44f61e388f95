from __future__ import annotations

import numpy as np
import pytest

from firstdiff.comparing import Options, single_trace
from firstdiff.comparing.single_trace import compare_each_other
from firstdiff.trace import Trace


def test_tensors_of_one_shape_are_compared_each_with_each() -> None:
    arrays = {"a": np.ones(3), "m": np.ones((2, 2)), "b": np.ones(3), "c": np.zeros(3), "n": np.ones((2, 2))}
    seen = compare_each_other(Trace.from_arrays(arrays), Options())
    assert [(pair.key, pair.candidate.name, pair.status) for pair in seen.pairs] == [
        ("a", "b", "match"),
        ("a", "c", "mismatch"),
        ("m", "n", "match"),
        ("b", "c", "mismatch"),
    ]
    assert [pair.index for pair in seen.pairs] == [0, 1, 2, 3]
    assert (seen.verdict, seen.first_divergence, seen.warnings) == ("mismatch", None, ())


def test_nothing_of_one_shape_is_never_a_match() -> None:
    seen = compare_each_other(Trace.from_arrays({"a": np.ones(3), "b": np.ones(4)}), Options())
    assert seen.verdict == "not_compared"
    assert "no two tensors have the same shape" in seen.warnings[0]


def test_too_many_pairs_are_cut_off_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_trace, "MOST_PAIRS", 2)
    seen = compare_each_other(Trace.from_arrays({name: np.ones(1) for name in "abcd"}), Options())
    assert len(seen.pairs) == 2
    assert seen.warnings == ("of 6 pairs of equal shape the first 2 were compared",)
