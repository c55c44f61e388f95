"""Small ONNX models, written node by node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, tuple[int, Sequence[int | str | None] | None]],
    outputs: Sequence[str],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 18,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def saved(proto: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    onnx.save_model(proto, folder / name)
    return folder / name


def mlp(opset: int = 18, width: int = 16, eps: float = 1e-5) -> onnx.ModelProto:
    """LayerNorm written out, a Gemm, a Relu, a MatMul."""
    rng = np.random.default_rng(0)
    weights = {
        "up": rng.standard_normal((width, 4 * width)).astype(np.float32),
        "up_bias": rng.standard_normal(4 * width).astype(np.float32),
        "down": rng.standard_normal((4 * width, width)).astype(np.float32),
        "eps": np.array(eps, np.float32),
        "axes": np.array([-1]),
    }
    by_input = opset >= 18
    mean = {"inputs": ["x", "axes"]} if by_input else {"inputs": ["x"], "axes": [-1]}
    var = {"inputs": ["squares", "axes"]} if by_input else {"inputs": ["squares"], "axes": [-1]}
    nodes = [
        helper.make_node("ReduceMean", outputs=["mean"], name="mean", keepdims=1, **mean),
        helper.make_node("Sub", ["x", "mean"], ["centred"], name="centre"),
        helper.make_node("Mul", ["centred", "centred"], ["squares"]),
        helper.make_node("ReduceMean", outputs=["variance"], keepdims=1, **var),
        helper.make_node("Add", ["variance", "eps"], ["kept_apart"]),
        helper.make_node("Sqrt", ["kept_apart"], ["deviation"]),
        helper.make_node("Div", ["centred", "deviation"], ["norm"]),
        helper.make_node("Gemm", ["norm", "up", "up_bias"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("MatMul", ["active", "down"], ["y"]),
    ]
    return model(nodes, {"x": (FLOAT, ["n", width])}, ["y"], weights, opset)


def rows(count: int = 3, width: int = 16) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((count, width)).astype(np.float32)


def branches() -> onnx.ModelProto:
    """`sum(x) > 0 ? relu(x @ w) : -x`, with a choice in the first branch, too; both use the name `inner`."""
    w = numpy_helper.from_array(np.eye(4, dtype=np.float32) * 2, "w")
    nested_then = helper.make_graph(
        [helper.make_node("Relu", ["inner"], ["r"])], "a", [], [onnx.ValueInfoProto(name="r")]
    )
    nested_else = helper.make_graph(
        [helper.make_node("Neg", ["inner"], ["r"])], "b", [], [onnx.ValueInfoProto(name="r")]
    )
    then = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["inner"], name="product"),
            helper.make_node("If", ["always"], ["chosen"], "choice", then_branch=nested_then, else_branch=nested_else),
        ],
        "then",
        [],
        [onnx.ValueInfoProto(name="chosen")],
        [w],
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["inner"])], "else", [], [onnx.ValueInfoProto(name="inner")]
    )
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], name="branch", then_branch=then, else_branch=other),
        helper.make_node("Abs", ["y"], ["inner_of_all"]),
    ]
    weights = {"zero": np.array(0, np.float32), "always": np.array(True)}
    return model(nodes, {"x": (FLOAT, [2, 4])}, ["inner_of_all"], weights)
