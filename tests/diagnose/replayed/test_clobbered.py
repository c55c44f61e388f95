"""A node that read another tensor than its graph says is told by replaying it on earlier ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firstdiff as fd
from firstdiff.schema import Comparison

pytest.importorskip("onnxruntime")

from onnx import helper

from tests.capturing.onnx_models import FLOAT, model
from tests.diagnose.pairs import assert_first

X = np.random.default_rng(3).standard_normal((4, 16)).astype(np.float32)


KINDS = {
    "Mul": np.multiply,
    "Max": np.maximum,
    "Concat": lambda one, other: np.concatenate([one, other], axis=1),
}


def compared(tmp_path: Path, kind: str, reads: str) -> Comparison:
    """Compare a run with one whose last node found another value in the memory of its first input."""
    rng = np.random.default_rng(5)
    weights = {name: rng.standard_normal((16, 16)).astype(np.float32) for name in ("v", "w")}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["hidden"]),
        helper.make_node("Sigmoid", ["hidden"], ["gate"]),
        helper.make_node("MatMul", ["x", "v"], ["other"]),
        helper.make_node("Neg", ["other"], ["turned"]),
        helper.make_node("Reshape", ["turned", "shape"], ["flat"]),
        helper.make_node(kind, ["gate", "hidden"], ["y"], **({"axis": 1} if kind == "Concat" else {})),
    ]
    proto = model(nodes, {"x": (FLOAT, [4, 16])}, ["y", "flat"], {**weights, "shape": np.array([64])})
    ours, theirs = (fd.capture_onnx(proto, {"x": X}, tmp_path / f"{side}.trace").path for side in "ab")
    files = {line["name"]: theirs / line["file"] for line in _lines(theirs) if line.get("slot") != "optimized"}
    read = np.load(files[reads]).reshape(4, 16)
    np.save(files["y"], KINDS[kind](read, np.load(files["hidden"])))
    return fd.compare(ours, theirs)


def _lines(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (trace / "tensors.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_that_read_a_later_value_is_told(tmp_path: Path, kind: str) -> None:
    found = compared(tmp_path, kind, "other")
    assert found.first_divergence is not None
    assert found.first_divergence.key == "y"
    cause = assert_first(found, "values.stale")
    assert "computed from other in place of gate" in cause.evidence


def test_a_value_of_another_shape_may_have_been_in_the_memory(tmp_path: Path) -> None:
    cause = assert_first(compared(tmp_path, "Mul", "flat"), "values.stale")
    assert "computed from flat in place of gate" in cause.evidence


def test_the_right_operands_have_no_cause(tmp_path: Path) -> None:
    assert compared(tmp_path, "Mul", "gate").verdict == "match"
