"""ONNX nodes, recorded and replayed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import firstdiff as fd
from firstdiff.ops import NotReplayable, Replayed, replay, reproduce
from firstdiff.trace import Trace
from tests.capturing.onnx_models import FLOAT, INT64, branches, mlp, model, rows

RNG = np.random.default_rng(3)
IMAGE = RNG.standard_normal((2, 4, 9, 9)).astype(np.float32)
TABLE = RNG.standard_normal((6, 8)).astype(np.float32)
KERNEL = RNG.standard_normal((6, 2, 3, 3)).astype(np.float32)
SCALE, SHIFT = RNG.standard_normal(4).astype(np.float32), RNG.standard_normal(4).astype(np.float32)
SPREAD = np.abs(RNG.standard_normal(4)).astype(np.float32)


def again(trace: Trace, key: str) -> Replayed | NotReplayable:
    """Replay a row of a trace from the rows it was computed from."""
    by_seq = {item.record.seq: item for item in trace}
    record = trace[key].record
    slots = zip(record.attrs.get("inputs", ()), record.sources, strict=True)
    inputs = {slot: by_seq[seq].values().read() for slot, seq in slots}
    expected = {record.slot: trace[key].values().read()}
    return reproduce(record.op or "", record.attrs, inputs, {}, expected, name=key)


NODES = {
    "Conv": (IMAGE, {"k": KERNEL}, {"pads": [1, 0, 1, 0], "strides": [2, 1], "dilations": [1, 2], "group": 2}),
    "BatchNormalization": (IMAGE, {"s": SCALE, "b": SHIFT, "m": SHIFT, "v": SPREAD}, {"epsilon": 1e-3}),
    "InstanceNormalization": (IMAGE, {"s": SCALE, "b": SHIFT}, {}),
    "LayerNormalization": (IMAGE, {"s": RNG.standard_normal((9, 9)).astype(np.float32)}, {"axis": 2}),
    "MaxPool": (IMAGE, {}, {"kernel_shape": [3, 3], "strides": [2, 2]}),
    "Resize": (IMAGE, {"roi": None, "scales": np.float32([1, 1, 2, 2])}, {"mode": "linear"}),
    "Softmax": (IMAGE, {}, {"axis": 1}),
    "LogSoftmax": (IMAGE, {}, {}),
    "Transpose": (IMAGE, {}, {"perm": [3, 1, 0, 2]}),
    "ReduceMax": (IMAGE, {"axes": np.array([1, 3])}, {"keepdims": 0}),
    "ReduceL2": (IMAGE, {"axes": np.array([1])}, {}),
    "Gather": (TABLE, {"at": np.array([[0, 2], [-1, 5]])}, {"axis": 0}),
    "Slice": (IMAGE, {"starts": np.array([1]), "ends": np.array([-1]), "axes": np.array([2])}, {}),
    "Clip": (IMAGE, {"low": np.float32(-0.5)}, {}),
    "CumSum": (TABLE, {"axis": np.array(1)}, {"reverse": 1}),
    "LeakyRelu": (IMAGE, {}, {"alpha": 0.2}),
    "Gemm": (TABLE, {"w": TABLE}, {"transB": 1, "alpha": 0.5}),
    "Erf": (IMAGE, {}, {}),
    "Cast": (IMAGE, {}, {"to": TensorProto.FLOAT16}),
    "Where": (IMAGE > 0, {"a": IMAGE, "b": np.float32(0)}, {}),
    "Flatten": (IMAGE, {}, {"axis": 2}),
    "Einsum": (TABLE, {"w": TABLE}, {"equation": "ij,kj->ik"}),
}


@pytest.mark.parametrize("op", NODES)
def test_a_node_is_computed_again(op: str, tmp_path: Path) -> None:
    x, weights, attributes = NODES[op]
    given = {name: array for name, array in weights.items() if array is not None}
    inputs = ["x", *(name if array is not None else "" for name, array in weights.items())]
    proto = model(
        [helper.make_node(op, inputs, ["y"], **attributes)],
        {"x": (helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)},
        ["y"],
        {name: np.asarray(array) for name, array in given.items()},
    )
    fd.capture_onnx(proto, {"x": x}, tmp_path / "t.trace")
    found = again(fd.open_trace(tmp_path / "t.trace"), "y")
    assert isinstance(found, Replayed), found
    assert found.residual is not None
    assert found.residual <= 20


def test_every_output_of_a_node_is_computed_again(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b", "c"], axis=1, num_outputs=3),
        helper.make_node("TopK", ["b", "two"], ["values", "places"]),
    ]
    proto = model(nodes, {"x": (FLOAT, [6, 8])}, ["values", "places", "a", "c"], {"two": np.array([2])})
    fd.capture_onnx(proto, {"x": TABLE}, tmp_path / "t.trace")
    trace = fd.open_trace(tmp_path / "t.trace")
    for key in ("a", "b", "c", "values", "places"):
        found = again(trace, key)
        assert isinstance(found, Replayed), found
        assert found.residual == 0


def test_branches_and_written_out_norms_are_computed_again(tmp_path: Path) -> None:
    fd.capture_onnx(branches(), {"x": np.ones((2, 4), np.float32)}, tmp_path / "b.trace")
    fd.capture_onnx(mlp(), {"x": rows()}, tmp_path / "m.trace")
    for path in (tmp_path / "b.trace", tmp_path / "m.trace"):
        pairs = fd.compare(path, path, isolate=True).pairs
        judged = [pair for pair in pairs if pair.op is not None]
        assert judged
        assert {pair.isolated.status for pair in judged if pair.isolated} == {"match"}


def test_what_was_not_recorded_is_named(tmp_path: Path) -> None:
    fd.capture_onnx(mlp(), {"x": rows()}, tmp_path / "m.trace", params="none")
    found = again(fd.open_trace(tmp_path / "m.trace"), "hidden")
    assert isinstance(found, NotReplayable)
    assert found.reason == "up, the 1 of hidden, was not recorded"
    attrs = {"opset": 18, "node": "n", "inputs": ["0"]}
    found = replay("Frobnicate", attrs, {"0": TABLE}, {}, name="y")
    assert isinstance(found, NotReplayable)
    assert "onnxruntime cannot run Frobnicate by itself" in found.reason


def test_a_wrong_eps_weight_or_axis_is_found_at_its_own_node(tmp_path: Path) -> None:
    fd.capture_onnx(mlp(), {"x": rows()}, tmp_path / "right.trace")
    fd.capture_onnx(mlp(eps=0.1), {"x": rows()}, tmp_path / "eps.trace")
    found = fd.compare(tmp_path / "right.trace", tmp_path / "eps.trace")
    assert found.first_divergence is not None
    assert found.first_divergence.key == "kept_apart"
    assert [site.key for site in found.divergences] == ["kept_apart"]

    def attention(axis: int, eps: float) -> Path:
        nodes = [
            helper.make_node("LayerNormalization", ["x", "scale"], ["norm"], epsilon=eps),
            helper.make_node("MatMul", ["norm", "w"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["shares"], axis=axis),
            helper.make_node("MatMul", ["shares", "w"], ["y"]),
        ]
        weights = {"scale": np.ones(16, np.float32), "w": RNG.standard_normal((16, 16)).astype(np.float32)}
        weights["w"] = np.random.default_rng(5).standard_normal((16, 16)).astype(np.float32)
        path = tmp_path / f"{axis}{eps}.trace"
        proto = model(nodes, {"x": (FLOAT, ["n", 16])}, ["y"], weights)
        fd.capture_onnx(proto, {"x": rows(8) * 0.1}, path, overwrite=True)
        return path

    right = attention(-1, 1e-5)
    for wrong, key, cause in [
        (attention(0, 1e-5), "shares", "softmax.axis"),
        (attention(-1, 1e-3), "norm", "norm.eps"),
    ]:
        found = fd.compare(right, wrong, effort="full")
        assert [site.key for site in found.divergences] == [key]
        assert found.diagnosis[0].cause == cause


def test_rounding_that_grows_is_told_from_a_wrong_kernel(tmp_path: Path) -> None:
    """A cancelling Sub and a Log near zero make much of rounding: each node is what its own inputs give."""
    nodes = [
        helper.make_node("Mul", ["x", "third"], ["part"]),
        helper.make_node("Sub", ["part", "near"], ["rest"]),
        helper.make_node("Abs", ["rest"], ["size"]),
        helper.make_node("Log", ["size"], ["y"]),
    ]
    x = np.linspace(1, 2, 64, dtype=np.float32)
    near = (x * np.float32(1 / 3)) * np.float32(1 + 3e-6)
    proto = model(nodes, {"x": (FLOAT, [64])}, ["y"], {"third": np.float32(1 / 3), "near": near})
    fd.capture_onnx(proto, {"x": x}, tmp_path / "one.trace")
    trace = fd.open_trace(tmp_path / "one.trace")
    held = {str(item.key): item.values().read() for item in trace}
    part = np.nextafter(held["part"], np.float32(9))  # one step of rounding
    rest = part - held["near:param"]
    changed = {"part": part, "rest": rest, "size": np.abs(rest), "y": np.log(np.abs(rest))}
    pairs = _judged(trace, tmp_path, changed)
    assert pairs == {"part": "match", "rest": "match", "size": "match", "y": "match"}
    pairs = _judged(trace, tmp_path, changed | {"y": np.log(np.abs(rest)) + np.float32(0.1)})
    assert pairs == {"part": "match", "rest": "match", "size": "match", "y": "mismatch"}


def test_a_kernel_that_rounds_to_8_bits_inside_is_told_from_a_wrong_one(tmp_path: Path) -> None:
    """Rounding of its input decides between two steps: the result moves by far more than rounding."""
    x = np.random.default_rng(0).standard_normal((2048, 64)).astype(np.float32)
    weights = {
        "w": np.random.default_rng(1).integers(-127, 128, (64, 32)).astype(np.int8),
        "scale": np.float32(0.01),
        "zero": np.int8(0),
    }
    node = helper.make_node("DynamicQuantizeMatMul", ["x", "w", "scale", "zero"], ["y"], domain="com.microsoft")

    def recorded(x: np.ndarray, w: np.ndarray) -> Trace:
        proto = model([node], {"x": (FLOAT, [2048, 64])}, ["y"], weights | {"w": w})
        proto.opset_import.extend([helper.make_opsetid("com.microsoft", 1)])
        captured = fd.capture_onnx(proto, {"x": x}, tmp_path / "t.trace", overwrite=True)
        return fd.open_trace(captured.path)

    def y_of(x: np.ndarray, w: np.ndarray = weights["w"]) -> np.ndarray:
        return recorded(x, w)["y"].values().read().copy()

    right = y_of(x)
    signs = np.random.default_rng(2).choice((-1, 1), x.shape)
    stepped = y_of((x * (1 + 2.0**-20 * signs)).astype(np.float32))
    assert np.abs(stepped - right).max() > 1e-3
    wrong = weights["w"].copy()
    wrong[:, 7] += np.int8(1)
    faults = {"weight": y_of(x, wrong), "scale": stepped * np.float32(1.01), "row": stepped[::-1].copy()}
    trace = recorded(x, weights["w"])
    assert _judged(trace, tmp_path, {"y": stepped}) == {"y": "match"}
    for name, y in faults.items():
        assert _judged(trace, tmp_path, {"y": y}) == {"y": "mismatch"}, name


def _judged(trace: Trace, folder: Path, changed: dict[str, np.ndarray]) -> dict[str, str]:
    from firstdiff.trace import TraceWriter

    with TraceWriter(folder / "other.trace", overwrite=True) as writer:
        for item in trace:
            writer.write(item.record, changed.get(str(item.key), item.values().read()))
    found = fd.compare(trace, folder / "other.trace", isolate=True)
    return {pair.key: pair.isolated.status for pair in found.pairs if pair.op is not None and pair.isolated}


def test_whole_numbers_divide_as_in_onnx(tmp_path: Path) -> None:
    proto = model([helper.make_node("Div", ["x", "three"], ["y"])], {"x": (INT64, [3])}, ["y"], {"three": np.array(3)})
    fd.capture_onnx(proto, {"x": np.array([-7, 7, 9])}, tmp_path / "t.trace")
    found = again(fd.open_trace(tmp_path / "t.trace"), "y")
    assert isinstance(found, Replayed)
    assert found.outputs["0"].tolist() == [-2, 2, 3]
