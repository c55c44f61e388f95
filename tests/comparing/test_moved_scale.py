"""A constant factor that a port applies earlier is another way of writing, and hides no error that comes later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firstdiff as fd
from firstdiff.schema import Comparison

torch = pytest.importorskip("torch")


class Attention(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, *, fused: bool = False) -> None:
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(16, 16) for _ in range(3))
        self.fused = fused

    def forward(self, x: Any) -> Any:
        query, key, value = self.query(x), self.key(x), self.value(x)
        if self.fused:
            return torch.nn.functional.scaled_dot_product_attention(query, key, value)
        scores = query @ key.transpose(-1, -2) / 4.0
        return torch.softmax(scores, -1) @ value


def compared(
    folder: Path, *, fused: bool = False, factor: float | list[float] = 0.25, late: float = 1.0, last: bool = True
) -> Comparison:
    """A reference that scales scores, and taps of a port that scales queries by `factor` and scores by `late`."""
    torch.manual_seed(0)
    model, x = Attention(fused=fused).eval(), torch.randn(2, 9, 16)
    with torch.no_grad(), fd.capture(model, folder / "reference"):
        model(x)
    weights = {name: values.numpy() for name, values in model.state_dict().items()}
    given = x.numpy()
    q, k, v = (given @ weights[f"{name}.weight"].T + weights[f"{name}.bias"] for name in ("query", "key", "value"))
    with fd.record(folder / "candidate") as recording:
        q = recording.tap("query", q * np.float32(factor))
        recording.tap("key", k)
        recording.tap("value", v)
        with np.errstate(invalid="ignore"):
            scores = q @ k.swapaxes(-1, -2) * np.float32(late)
            seen = np.exp(scores - scores.max(-1, keepdims=True))
        if last:
            recording.tap("mixed", (seen / seen.sum(-1, keepdims=True)) @ v)
    return fd.compare(folder / "reference", folder / "candidate", allow_missing=True, allow_extra=True)


def query_of(comparison: Comparison) -> Any:
    return next(pair for pair in comparison.pairs if pair.key == "query")


def test_queries_that_overflow_are_no_factor(tmp_path: Path) -> None:
    found = compared(tmp_path, factor=[-np.inf, np.inf] * 8)
    assert query_of(found).status == "mismatch"


@pytest.mark.parametrize("fused", [False, True])
def test_queries_scaled_at_once_match(tmp_path: Path, fused: bool) -> None:
    found = compared(tmp_path, fused=fused)
    assert found.verdict == "match"
    assert query_of(found).status == "rewritten"
    assert "multiplies by 0.25 here, the reference later" in (query_of(found).reason or "")


def test_a_factor_that_is_applied_twice_shows_where_it_is_applied_again(tmp_path: Path) -> None:
    found = compared(tmp_path, late=0.25)
    assert found.first_divergence is not None
    assert found.first_divergence.key != "query"


def test_another_factor_is_an_error(tmp_path: Path) -> None:
    assert query_of(compared(tmp_path, factor=0.5)).status == "mismatch"


def test_a_factor_is_an_error_where_nothing_shows_that_it_was_applied_once(tmp_path: Path) -> None:
    assert query_of(compared(tmp_path, last=False)).status == "mismatch"


def test_strict_functions_count_it(tmp_path: Path) -> None:
    compared(tmp_path)
    strict = fd.compare(tmp_path / "reference", tmp_path / "candidate", allow_missing=True, strict_functions=True)
    assert query_of(strict).status == "mismatch"
