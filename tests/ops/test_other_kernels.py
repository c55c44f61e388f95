"""ONNX nodes that other kernels compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import firstdiff as fd
from firstdiff.ops import Replayed
from firstdiff.schema import Comparison
from firstdiff.trace import TraceWriter
from tests.capturing.onnx_models import FLOAT, model
from tests.ops.test_onnx_nodes import IMAGE, KERNEL, again


def node(
    op: str, x: np.ndarray, weights: dict[str, np.ndarray], opset: int = 18, **attributes: object
) -> onnx.ModelProto:
    made = helper.make_node(op, ["x", *weights], ["y"], **attributes)
    return model([made], {"x": (FLOAT, x.shape)}, ["y"], weights, opset)


def compared(proto: onnx.ModelProto, x: np.ndarray, folder: Path, **changed: np.ndarray) -> Comparison:
    """Compare what Python's onnxruntime gives with a copy in which another runtime's kernels gave other values."""
    path = fd.capture_onnx(proto, {"x": x}, folder / "python.trace", overwrite=True).path
    with TraceWriter(folder / "other.trace", overwrite=True) as writer:
        for item in fd.open_trace(path):
            slot = item.record.slot if item.record.slot == "optimized" else item.record.name
            writer.write(item.record, changed.get(slot, item.values().read()))
    return fd.compare(path, folder / "other.trace", isolate=True)


@pytest.mark.parametrize(
    ("op", "weights", "attributes", "operator"),
    [
        ("Conv", {"k": KERNEL}, {"group": 2}, "conv"),
        ("Softmax", {}, {"axis": 3}, "softmax"),
        ("Softmax", {}, {"axis": 1}, "onnx_node"),
        ("LogSoftmax", {}, {}, "onnx_node"),
        ("ReduceSum", {}, {"axes": [1, 3]}, "reduce"),
    ],
)
def test_older_opsets_are_computed_in_float64_where_they_mean_the_same(
    op: str, weights: dict[str, np.ndarray], attributes: dict[str, object], operator: str, tmp_path: Path
) -> None:
    """Before opset 13 a softmax was one of all axes from the given one on."""
    fd.capture_onnx(node(op, IMAGE, weights, 11, **attributes), {"x": IMAGE}, tmp_path / "t.trace")
    found = again(fd.open_trace(tmp_path / "t.trace"), "y")
    assert isinstance(found, Replayed), found
    assert found.plan.operator == operator
    assert found.residual is not None
    assert found.residual <= 20


def test_a_saturated_sigmoid_is_right_to_a_step_of_one(tmp_path: Path) -> None:
    """Kernels add to a half: of a result near 0 they give no more than multiples of 6e-8."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-16, -12, (32, 64)).astype(np.float32)
    exact = 1 / (1 + np.exp(-x.astype(np.float64)))
    coarse = (np.round(exact * 2**24) / 2**24).astype(np.float32)
    proto = node("Sigmoid", x, {})
    assert compared(proto, x, tmp_path, y=coarse, optimized=coarse).verdict == "match"
    found = compared(proto, x, tmp_path, y=(exact * 1.1).astype(np.float32))
    assert [site.key for site in found.divergences] == ["y"]


def test_a_node_that_runs_by_itself_need_not_give_the_same_bits(tmp_path: Path) -> None:
    """Python's runtime gives its own bits again, which says nothing about how much another one may round."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 256)).astype(np.float32)
    proto = node("CumSum", x, {"axis": np.array(1)})
    right = np.cumsum(x, axis=1)
    rounded = (right * (1 + rng.uniform(-160, 160, x.shape) * 2.0**-24)).astype(np.float32)
    assert compared(proto, x, tmp_path, y=rounded).verdict == "match"
    assert [site.key for site in compared(proto, x, tmp_path, y=right * np.float32(1.0001)).divergences] == ["y"]


def test_a_convolution_whose_terms_cancel_may_round_each_of_them(tmp_path: Path) -> None:
    """In half of the channels little is left of what was added up."""
    rng = np.random.default_rng(0)
    x = (30 + rng.standard_normal((1, 512, 4, 40))).astype(np.float32)
    kernel = rng.standard_normal((64, 512, 1, 1)).astype(np.float32)
    kernel[:32] -= kernel[:32].mean(axis=1, keepdims=True)
    one_by_one = np.zeros((1, 64, 4, 40), np.float32)
    for channel in range(512):
        one_by_one += kernel[None, :, channel] * x[:, channel : channel + 1]
    proto = node("Conv", x, {"k": kernel})
    assert compared(proto, x, tmp_path, y=one_by_one).verdict == "match"
    lost = kernel[None, :, 5] * x[:, 5:6]
    found = compared(proto, x, tmp_path, y=one_by_one - np.float32(0.01) * lost)
    assert [site.key for site in found.divergences] == ["y"]


def test_a_softmax_of_thousands_may_round_its_sum(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 6000)).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    exact /= exact.sum(-1, keepdims=True)
    factors = 1 + rng.uniform(50, 150, (8, 1)) * 2.0**-23
    proto = node("Softmax", x, {})
    assert compared(proto, x, tmp_path, y=(exact * factors).astype(np.float32)).verdict == "match"
    found = compared(proto, x, tmp_path, y=(exact * (1 + 1e-4)).astype(np.float32))
    assert [site.key for site in found.divergences] == ["y"]


def test_an_optimised_output_may_differ_as_the_exposed_one_does(tmp_path: Path) -> None:
    """Nothing inside the optimised model is recorded that could show where its rounding became large."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-16, -12, (32, 64)).astype(np.float32)
    exact = 1 / (1 + np.exp(-x.astype(np.float64)))
    one, other = ((exact + rng.choice((-1, 1), x.shape) * 2.0**-24).astype(np.float32) for _ in range(2))
    proto = node("Sigmoid", x, {})
    assert compared(proto, x, tmp_path, y=one, optimized=other).verdict == "match"
    other[3] *= 2
    found = compared(proto, x, tmp_path, y=one, optimized=other)
    assert [site.key for site in found.divergences] == ["y:out.optimized"]


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceSum"])
def test_a_mean_that_cancels_may_round_each_of_its_terms(op: str, tmp_path: Path) -> None:
    """The mean of centred samples is a thousandth of them."""
    x = np.random.default_rng(0).standard_normal((1, 8000)).astype(np.float32)
    x -= x.mean() - np.float32(1e-3)
    proto = node(op, x, {"axes": np.array([1])})
    exact = x.astype(np.float64).mean(keepdims=True) * (8000 if op == "ReduceSum" else 1)
    magnitudes = np.abs(x.astype(np.float64)).mean() * (8000 if op == "ReduceSum" else 1)
    rounded = (exact + 4 * 2.0**-23 * magnitudes).astype(np.float32)
    assert compared(proto, x, tmp_path, y=rounded, optimized=rounded).verdict == "match"
    found = compared(proto, x, tmp_path, y=(exact + 1e-4 * magnitudes).astype(np.float32))
    assert [site.key for site in found.divergences] == ["y"]
