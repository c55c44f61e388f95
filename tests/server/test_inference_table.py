"""The table of a browser's run: distances beside a verdict that knows rounding."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import firstdiff as fd
from firstdiff.capturing.onnx_file import open_model
from firstdiff.capturing.onnx_values import distance
from firstdiff.server.inference.table import LIMIT, build_table
from firstdiff.server.inference.wire import TableOut

onnx = pytest.importorskip("onnx")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Subtracts two products that are nearly the same, so that one rounding is a large share of what is left."""
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "one"], ["p"]),
        helper.make_node("MatMul", ["x", "other"], ["q"]),
        helper.make_node("Sub", ["p", "q"], ["d"]),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 16]) for name in ("x", "d")]
    weights = [numpy_helper.from_array(weight, "one"), numpy_helper.from_array(weight * np.float32(1 + 1e-5), "other")]
    graph = helper.make_graph(nodes, "cancelling", values[:1], values[1:], weights)
    path = tmp_path / "model.onnx"
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def table_of(model: Path, folder: Path, extra: float) -> TableOut:
    """Beside a run whose first product is rounded another way, and whose difference is off by `extra` besides."""
    x = np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)
    for name in ("python", "run"):
        fd.capture_onnx(model, {"x": x}, folder / name, overwrite=True)
    lines = (folder / "run" / "tensors.jsonl").read_text(encoding="utf-8").splitlines()
    files = {(line["name"], line.get("slot", "0")): folder / "run" / line["file"] for line in map(json.loads, lines)}
    product = np.load(files["p", "0"])
    product[::2] = np.nextafter(product[::2], np.float32(9))
    np.save(files["p", "0"], product)
    np.save(files["d", "0"], product - np.load(files["q", "0"]) + np.float32(extra))
    return build_table(open_model(model), folder / "run", folder / "python", None, folder / "python")


def test_rounding_that_grew_is_not_called_wrong(model: Path, tmp_path: Path) -> None:
    found = table_of(model, tmp_path, 0.0)
    row = next(row for row in found.rows if row.name == "d")
    assert row.python is not None
    assert row.python.distance > LIMIT
    assert not row.python.wrong
    assert found.first is None


def test_what_is_wrong_is_named_at_its_own_row(model: Path, tmp_path: Path) -> None:
    found = table_of(model, tmp_path, 1.0)
    assert found.first is not None
    assert found.rows[found.first].name == "d"
    marked = [(row.python.wrong, row.other.wrong) for row in found.rows if row.python and row.other]
    assert marked == [(False, False), (False, False), (True, True)]


def test_the_distance_of_a_constant_is_a_share_of_it() -> None:
    constant = np.full(12, 0.66, np.float32)
    nudged = constant.copy()
    nudged[3] = np.nextafter(nudged[3], np.float32(1))
    assert 0 < distance(constant, nudged) < 1e-6
    assert 0 < distance(nudged, constant) < 1e-6
    assert distance(constant, constant * 2) == pytest.approx(1.0)
