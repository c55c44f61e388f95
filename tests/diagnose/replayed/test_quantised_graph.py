"""A graph whose operands go through 8 bits: each node is what those give, or another weight is in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import firstdiff as fd
from firstdiff.reports.text import render

WIDTH = 32
RNG = np.random.default_rng(0)
WEIGHT = (RNG.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32)
X = RNG.standard_normal((24, WIDTH)).astype(np.float32)


def captured(path: Path, nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray]) -> Path:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [24, WIDTH]) for name in "xy"]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "main", ends[:1], ends[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return fd.capture_onnx(model, {"x": X}, path).path


def plain(folder: Path) -> Path:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["product"]), helper.make_node("Relu", ["product"], ["y"])]
    return captured(folder / "plain.trace", nodes, {"w": WEIGHT})


def quantised(folder: Path, weight: np.ndarray) -> Path:
    steps = {"x": np.abs(X).max() / 127, "w": np.abs(weight).max() / 127}
    weights: dict[str, np.ndarray] = {f"{name}_scale": np.float32(step) for name, step in steps.items()}
    weights["zero"] = np.int8(0)
    weights["w_quantised"] = np.clip(np.round(weight / steps["w"]), -127, 127).astype(np.int8)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "x_scale", "zero"], ["x_quantised"]),
        helper.make_node("DequantizeLinear", ["x_quantised", "x_scale", "zero"], ["x_real"]),
        helper.make_node("DequantizeLinear", ["w_quantised", "w_scale", "zero"], ["w_real"]),
        helper.make_node("MatMul", ["x_real", "w_real"], ["product"]),
        helper.make_node("Relu", ["product"], ["y"]),
    ]
    return captured(folder / "quantised.trace", nodes, {name: np.asarray(array) for name, array in weights.items()})


def test_quantised_operands_are_named_with_their_sqnr(tmp_path: Path) -> None:
    found = fd.compare(plain(tmp_path), quantised(tmp_path, WEIGHT))
    assert found.first_divergence is not None
    assert found.first_divergence.name == "product"
    assert found.diagnosis[0].cause == "dtype.int8"
    assert "x_real and w_real" in found.diagnosis[0].evidence
    (row,) = [pair for pair in found.pairs if pair.key == "product"]
    assert row.metrics is not None
    text = "".join(render(found, every_row=True))
    assert f"{row.metrics.sqnr_db:.1f} dB" in text
    assert "SQNR: at the lowest" in text


def test_another_weight_that_is_quantised_too_is_no_quantising(tmp_path: Path) -> None:
    wrong = WEIGHT.copy()
    wrong[:, 3] = -wrong[:, 3]
    found = fd.compare(plain(tmp_path), quantised(tmp_path, wrong))
    assert found.first_divergence is not None
    assert found.first_divergence.name == "product"
    assert "dtype.int8" not in [cause.cause for cause in found.diagnosis]


def in_integers(folder: Path, weight: np.ndarray) -> Path:
    """A product of whole numbers, as quantising at run time writes it, with a scale for each column."""
    step = np.abs(weight).max(0) / 127
    weights: dict[str, np.ndarray] = {"w_scale": step.astype(np.float32), "w_zero": np.zeros(WIDTH, np.int8)}
    weights["w_quantised"] = np.round(weight / step).astype(np.int8)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["x_quantised", "x_scale", "x_zero"], name="quantise"),
        helper.make_node(
            "MatMulInteger", ["x_quantised", "w_quantised", "x_zero", "w_zero"], ["sums"], name="integers"
        ),
        helper.make_node("Cast", ["sums"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x_scale", "w_scale"], ["scales"]),
        helper.make_node("Mul", ["real", "scales"], ["product"]),
        helper.make_node("Relu", ["product"], ["y"]),
    ]
    return captured(folder / "integers.trace", nodes, weights)


def test_a_product_of_whole_numbers_is_named_with_its_sqnr(tmp_path: Path) -> None:
    found = fd.compare(plain(tmp_path), in_integers(tmp_path, WEIGHT))
    assert found.first_divergence is not None
    assert found.first_divergence.name == "product"
    assert found.diagnosis[0].cause == "dtype.int8"
    assert found.diagnosis[0].confidence > 0.9
    assert "SQNR: at the lowest" in "".join(render(found))


def test_another_weight_in_a_product_of_whole_numbers_is_no_quantising(tmp_path: Path) -> None:
    wrong = WEIGHT.copy()
    wrong[:, 3] = -wrong[:, 3]
    found = fd.compare(plain(tmp_path), in_integers(tmp_path, wrong))
    assert found.first_divergence is not None
    assert found.first_divergence.name == "product"
    assert "dtype.int8" not in [cause.cause for cause in found.diagnosis]
