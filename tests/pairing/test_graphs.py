"""Two graphs of one model whose exporters counted differently: pairs follow modules and values, not numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import firstdiff as fd

WIDTH = 8
RNG = np.random.default_rng(0)
SCALE = RNG.uniform(0.5, 1.5, WIDTH).astype(np.float32)
UP, DOWN = (RNG.standard_normal((WIDTH, WIDTH)).astype(np.float32) for _ in range(2))
X = RNG.standard_normal((3, WIDTH)).astype(np.float32)


def node(op: str, inputs: str, output: str, module: str, **attributes: object) -> onnx.NodeProto:
    made = helper.make_node(op, inputs.split(), [output], name=f"node_{output}", **attributes)
    made.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=str(["", module, ""]))
    return made


def run(folder: Path, nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], opset: int) -> Path:
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, WIDTH])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return fd.capture_onnx(proto, {"x": X}, folder / f"{opset}.trace").path


def spelt_out(folder: Path) -> Path:
    """An RMS norm in five nodes, so that what follows has higher numbers."""
    nodes = [
        node("Mul", "x x", "val_1", "norm"),
        node("ReduceMean", "val_1 axes", "val_2", "norm"),
        node("Sqrt", "val_2", "val_3", "norm"),
        node("Div", "x val_3", "val_4", "norm"),
        node("Mul", "val_4 val_0", "mul_1", "norm"),
        node("MatMul", "mul_1 val_5", "val_6", "up"),
        node("Relu", "val_6", "val_7", "act"),
        node("MatMul", "val_7 val_8", "val_9", "down"),
        node("Add", "x val_9", "y", ""),
    ]
    weights = {"val_0": SCALE, "val_5": UP, "val_8": DOWN, "axes": np.array([-1], np.int64)}
    return run(folder, nodes, weights, 18)


def in_one(folder: Path, down: np.ndarray = DOWN) -> Path:
    """The same with the norm as one node; `val_1` and `val_5` are other values, `val_8` none."""
    nodes = [
        node("RMSNormalization", "x val_0", "mul_1", "norm", axis=-1, epsilon=0.0),
        node("MatMul", "mul_1 val_1", "val_2", "up"),
        node("Relu", "val_2", "val_3", "act"),
        node("MatMul", "val_3 val_5", "val_6", "down"),
        node("Add", "x val_6", "y", ""),
    ]
    return run(folder, nodes, {"val_0": SCALE, "val_1": UP, "val_5": down}, 23)


def partners(found: fd.Comparison) -> dict[str, str | None]:
    return {
        pair.reference.name: pair.candidate.name if pair.candidate else None
        for pair in found.pairs
        if pair.reference and pair.role == "output"
    }


def test_opset_against_opset_matches(tmp_path: Path) -> None:
    found = fd.compare(spelt_out(tmp_path), in_one(tmp_path))
    assert found.verdict == "match"
    pairs = partners(found)
    assert {name: pairs[name] for name in ("val_6", "val_7", "val_9", "mul_1", "y")} == {
        "val_6": "val_2", "val_7": "val_3", "val_9": "val_6", "mul_1": "mul_1", "y": "y",
    }  # fmt: skip
    status = {pair.key: pair.status for pair in found.pairs}
    assert {status[name] for name in ("val_1", "val_2", "val_3", "val_4", "axes:param")} == {"rewritten"}


def test_a_wrong_weight_is_found_at_its_node_in_the_other_opset(tmp_path: Path) -> None:
    wrong = DOWN.copy()
    wrong[2, 3] += 1
    found = fd.compare(spelt_out(tmp_path), in_one(tmp_path, wrong))
    assert found.verdict == "mismatch"
    assert found.first_divergence is not None
    assert found.first_divergence.name == "val_9"
    assert partners(found)["val_9"] == "val_6"
    assert found.diagnosis[0].cause == "weights.differ"


def test_values_that_lead_to_a_difference_are_not_excused(tmp_path: Path) -> None:
    reference = spelt_out(tmp_path)
    nodes = [
        node("RMSNormalization", "x val_0", "mul_1", "norm", axis=-1, epsilon=3.0),
        node("MatMul", "mul_1 val_1", "val_2", "up"),
        node("Relu", "val_2", "val_3", "act"),
        node("MatMul", "val_3 val_5", "val_6", "down"),
        node("Add", "x val_6", "y", ""),
    ]
    candidate = run(tmp_path, nodes, {"val_0": SCALE, "val_1": UP, "val_5": DOWN}, 23)
    found = fd.compare(reference, candidate)
    assert found.verdict == "mismatch"
    assert {pair.status for pair in found.pairs if pair.key in ("val_1", "val_2", "val_3", "val_4")} == {"missing"}
    assert found.first_divergence is not None
    assert found.first_divergence.name == "mul_1"


def activated(folder: Path, *, late: bool, opset: int, factor: float = 0.5) -> Path:
    """A GELU whose half is taken first or last: two products in one module, of which only the last agrees."""
    half = [("Mul", "sum half", "val_3"), ("Mul", "hidden val_3", "gelu")]
    if late:
        half = [("Mul", "hidden sum", "val_7"), ("Mul", "val_7 half", "gelu")]
    nodes = [
        node("MatMul", "x up", "hidden", "up"),
        node("Div", "hidden root", "part", "act"),
        node("Erf", "part", "erf", "act"),
        node("Add", "erf one", "sum", "act"),
        *(node(*words, "act") for words in half),
        node("MatMul", "gelu down", "y", "down"),
    ]
    numbers = {"root": 2**0.5, "one": 1.0, "half": factor}
    weights = {"up": UP, "down": DOWN} | {name: np.array(value, np.float32) for name, value in numbers.items()}
    return run(folder, nodes, weights, opset)


def test_products_in_another_order_are_another_spelling(tmp_path: Path) -> None:
    first = activated(tmp_path, late=False, opset=18)
    found = fd.compare(first, activated(tmp_path, late=True, opset=17))
    assert found.verdict == "match"
    assert {pair.key: pair.status for pair in found.pairs}["val_3"] == "rewritten"
    wrong = fd.compare(first, activated(tmp_path, late=True, opset=19, factor=0.51))
    assert wrong.verdict == "mismatch"
    assert {pair.key: pair.status for pair in wrong.pairs}["gelu"] == "mismatch"
