"""Traces of ONNX models in onnxruntime."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import firstdiff as fd
from firstdiff.capturing import CaptureWarning, capture_onnx
from firstdiff.errors import FirstdiffError
from tests.capturing.onnx_models import BOOL, FLOAT, INT64, branches, mlp, model, rows, saved


def names(path: Path, role: str = "output") -> list[str]:
    return [str(item.key) for item in fd.open_trace(path) if item.record.role == role]


def values(path: Path, key: str) -> np.ndarray:
    return fd.open_trace(path)[key].values().read()


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "run.trace"


@pytest.mark.parametrize("opset", [13, 15, 18, 21])
def test_every_value_is_recorded_in_order_with_what_made_it(tmp_path: Path, trace: Path, opset: int) -> None:
    captured = capture_onnx(saved(mlp(opset), tmp_path), {"x": rows()}, trace)
    chain = ["mean", "centred", "squares", "variance", "kept_apart", "deviation", "norm", "hidden", "active", "y"]
    assert names(trace) == [*chain, "y:out.optimized"]
    opened = fd.open_trace(trace)
    assert captured.tensors == len(opened)
    hidden, norm = opened["hidden"].record, opened["norm"].record
    assert (hidden.op, hidden.attrs["opset"]) == ("Gemm", opset)
    assert hidden.attrs["inputs"] == ["0", "1", "2"]
    assert hidden.attrs["params"] == {"1": "up", "2": "up_bias"}
    assert hidden.sources[0] == norm.seq
    x, mean = rows().astype(np.float64), rows().astype(np.float64).mean(-1, keepdims=True)
    normed = (x - mean) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(values(trace, "norm"), normed, rtol=1e-5, atol=1e-6)


def test_nodes_in_any_order_are_recorded_as_they_run(tmp_path: Path, trace: Path) -> None:
    """Converters append the casts that they insert; runtimes sort nodes by themselves."""
    proto = mlp()
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    proto.graph.node.extend([*nodes[3:], *nodes[:3]])
    capture_onnx(saved(proto, tmp_path), {"x": rows()}, trace, part_bytes=1)
    seen: set[int] = set()
    for item in fd.open_trace(trace):
        assert set(item.record.sources) <= seen
        seen.add(item.record.seq or 0)
    assert len(fd.open_trace(trace)["variance"].record.sources) == 2


def test_float16_on_the_cpu_is_told_to_be_float32_inside(trace: Path) -> None:
    """The runtime casts between nodes only what it gives out, so that no node is what its recorded inputs give."""
    rng = np.random.default_rng(0)
    wide = {"w": rng.standard_normal((32, 64)), "v": rng.standard_normal((64, 32)) / 8}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["wide"]),
        helper.make_node("Add", ["wide", "wide"], ["twice"]),
        helper.make_node("MatMul", ["twice", "v"], ["y"]),
    ]

    def run(kind: int, dtype: type, path: Path) -> Path:
        weights = {name: array.astype(dtype) for name, array in wide.items()}
        x = rng.standard_normal((16, 32)) if path == trace else fd.open_trace(trace)["x:in.0"].values().read()
        return capture_onnx(model(nodes, {"x": (kind, [16, 32])}, ["y"], weights), {"x": x.astype(dtype)}, path).path

    reference = run(FLOAT, np.float32, trace)
    candidate = run(TensorProto.FLOAT16, np.float16, trace.with_name("half.trace"))
    assert fd.open_trace(candidate)["twice"].record.attrs["dtype_was"] == "float32"
    found = fd.compare(reference, candidate, isolate=True)
    assert found.verdict == "match", found.first_divergence
    assert {pair.isolated.status for pair in found.pairs if pair.op and pair.isolated} == {"match"}


def test_casts_at_both_ends_of_a_float16_graph_are_no_differences(trace: Path) -> None:
    """Converters keep the types of inputs and outputs, so that an output is one more cast than the original has."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((32, 32))
    x = rng.standard_normal((16, 32)).astype(np.float32)

    def run(nodes: list[onnx.NodeProto], kind: type, path: Path) -> Path:
        built = model(nodes, {"x": (FLOAT, [16, 32])}, ["y"], {"w": weight.astype(kind)})
        return capture_onnx(built, {"x": x}, path).path

    product = [helper.make_node("MatMul", ["x", "w"], ["wide"]), helper.make_node("Softmax", ["wide"], ["y"])]
    half = [
        helper.make_node("Cast", ["x"], ["x_cast"], to=TensorProto.FLOAT16),
        helper.make_node("MatMul", ["x_cast", "w"], ["wide"]),
        helper.make_node("Softmax", ["wide"], ["y_cast"]),
        helper.make_node("Cast", ["y_cast"], ["y"], to=FLOAT),
    ]
    reference = run(product, np.float32, trace)
    found = fd.compare(reference, run(half, np.float16, trace.with_name("half.trace")))
    assert found.verdict == "match", [(pair.key, pair.status) for pair in found.pairs]
    half[2] = helper.make_node("Softmax", ["wide"], ["y_cast"], axis=0)
    found = fd.compare(reference, run(half, np.float16, trace.with_name("wrong.trace")))
    assert found.verdict == "mismatch"
    assert found.first_divergence is not None
    assert found.pairs[found.first_divergence.pair].op == "Softmax"


def test_parts_give_the_same_bits_as_the_whole(tmp_path: Path) -> None:
    file = saved(mlp(), tmp_path)
    capture_onnx(file, {"x": rows()}, tmp_path / "whole.trace")
    capture_onnx(file, {"x": rows()}, tmp_path / "parts.trace", part_bytes=1)
    assert names(tmp_path / "parts.trace") == names(tmp_path / "whole.trace")
    for key in names(tmp_path / "whole.trace"):
        np.testing.assert_array_equal(values(tmp_path / "parts.trace", key), values(tmp_path / "whole.trace", key))


def test_weights_are_recorded_as_asked(tmp_path: Path, trace: Path) -> None:
    wide = mlp(width=128)  # `up` and `down` have 256 KiB
    for params, expected in [
        ("none", set()),
        ("small", {"axes", "eps", "up_bias"}),
        ("auto", {"axes", "eps", "up_bias", "up", "down"}),
        ("all", {"axes", "eps", "up_bias", "up", "down"}),
    ]:
        capture_onnx(wide, {"x": rows(width=128)}, trace, params=params, overwrite=True)  # type: ignore[arg-type]
        assert {item.name for item in fd.open_trace(trace) if item.record.role == "param"} == expected
    np.testing.assert_array_equal(values(trace, "up:param"), onnx.numpy_helper.to_array(wide.graph.initializer[0]))


@pytest.mark.parametrize(("sign", "taken", "inner"), [(1, "then", 2.0), (-1, "else", -1.0)])
def test_what_a_branch_computes_is_recorded(tmp_path: Path, trace: Path, sign: int, taken: str, inner: float) -> None:
    x = np.abs(np.random.default_rng(0).standard_normal((2, 4))).astype(np.float32) * sign
    capture_onnx(saved(branches(), tmp_path), {"x": x}, trace)
    assert ("choice" in [item.record.attrs.get("node") for item in fd.open_trace(trace)]) == (taken == "then")
    np.testing.assert_array_equal(values(trace, "inner"), x * inner)
    result = fd.open_trace(trace)["y"].record
    assert result.op == "If"
    record = fd.open_trace(trace)["inner"].record
    assert record.parent == "branch"
    assert values(trace, "inner_of_all").tolist() == np.abs(x * inner).tolist()


def test_names_that_two_branches_share_are_told_apart(trace: Path) -> None:
    proto = branches()
    again = helper.make_node("If", ["positive"], ["z"], name="again")
    again.attribute.extend(proto.graph.node[2].attribute)
    proto.graph.node.append(again)
    x = np.ones((2, 4), np.float32)
    capture_onnx(proto, {"x": x}, trace)
    assert {"inner", "again/inner", "chosen", "again/chosen"} <= set(names(trace))
    np.testing.assert_array_equal(values(trace, "z"), x * 2)


def test_long_and_strange_names_survive(tmp_path: Path, trace: Path) -> None:
    odd = "a;b/c:in.0@1 #s2\n" + "x" * 400
    proto = model(
        [helper.make_node("Relu", ["x"], [odd]), helper.make_node("Neg", [odd], ["y"])], {"x": (FLOAT, [2])}, ["y"]
    )
    capture_onnx(saved(proto, tmp_path), {"x": np.float32([1, -1])}, trace)
    assert fd.open_trace(trace).tensors[1].name == odd
    assert fd.open_trace(trace).tensors[1].values().read().tolist() == [1, 0]


def test_sequences_are_left_out_and_said(tmp_path: Path, trace: Path) -> None:
    proto = model(
        [
            helper.make_node("SequenceConstruct", ["x", "x"], ["pair"]),
            helper.make_node("SequenceAt", ["pair", "one"], ["second"]),
            helper.make_node("Neg", ["second"], ["y"]),
        ],
        {"x": (FLOAT, [2])},
        ["y"],
        {"one": np.array(1)},
    )
    captured = capture_onnx(saved(proto, tmp_path), {"x": np.float32([1, 2])}, trace, part_bytes=1)
    assert names(trace) == ["second", "y", "y:out.optimized"]
    assert captured.left_out == ("left out: seq(tensor(float)) is no tensor of numbers (pair)",)


def test_what_runs_inside_a_loop_is_left_out_and_said(trace: Path) -> None:
    body = helper.make_graph(
        [helper.make_node("Add", ["kept", "x"], ["sum"]), helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("go", BOOL, []),
            helper.make_tensor_value_info("kept", FLOAT, None),
        ],
        [onnx.ValueInfoProto(name="on"), onnx.ValueInfoProto(name="sum")],
    )
    proto = model(
        [helper.make_node("Loop", ["times", "", "x"], ["y"], body=body)],
        {"x": (FLOAT, [2])},
        ["y"],
        {"times": np.array(3)},
    )
    captured = capture_onnx(proto, {"x": np.float32([1, 2])}, trace)
    assert values(trace, "y").tolist() == [4, 8]
    assert "inside a Loop" in captured.left_out[0]


def test_bfloat16_is_recorded_as_what_it_is(tmp_path: Path, trace: Path) -> None:
    proto = model(
        [
            helper.make_node("Cast", ["x"], ["half"], to=TensorProto.BFLOAT16),
            helper.make_node("Cast", ["half"], ["y"], to=FLOAT),
        ],
        {"x": (FLOAT, [3])},
        ["y"],
    )
    capture_onnx(saved(proto, tmp_path), {"x": np.float32([1.001, 2, 3])}, trace, part_bytes=1)
    half = fd.open_trace(trace)["half"].values()
    assert half.dtype.name == "bfloat16"
    assert half.read().astype(np.float32).tolist() == values(trace, "y").tolist()


def test_external_data_is_found_beside_the_model(tmp_path: Path, trace: Path) -> None:
    file = tmp_path / "model.onnx"
    onnx.save_model(mlp(width=64), file, save_as_external_data=True, location="weights.bin", size_threshold=100)
    capture_onnx(file, {"x": rows(width=64)}, trace)
    session = onnxruntime.InferenceSession(str(file))
    np.testing.assert_allclose(values(trace, "y"), session.run(None, {"x": rows(width=64)})[0], rtol=1e-4, atol=1e-5)

    whole = (tmp_path / "weights.bin").read_bytes()
    (tmp_path / "weights.bin").write_bytes(whole[:1000])
    with pytest.raises(FirstdiffError, match=r"should reach to byte .* has 1,000; copy it again"):
        capture_onnx(file, {"x": rows(width=64)}, trace, overwrite=True)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(FirstdiffError, match=r"its weights are in weights.bin, which is not beside it"):
        capture_onnx(file, {"x": rows(width=64)}, trace, overwrite=True)


def test_an_optimised_run_that_gives_something_else_is_said(
    tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stands in for a runtime whose fused kernel is wrong: the plain run is of a file with another weight."""
    file, other = saved(mlp(), tmp_path), mlp()
    other.graph.initializer[0].raw_data = (onnx.numpy_helper.to_array(other.graph.initializer[0]) * 1.1).tobytes()
    wrong = saved(other, tmp_path, "wrong.onnx")
    plain = onnxruntime.InferenceSession

    def session(source: str | bytes, *args: object, **kwargs: object) -> object:
        return plain(str(wrong) if isinstance(source, str) else source, *args, **kwargs)

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    with pytest.warns(CaptureWarning, match="the untouched, optimised model gives another y"):
        captured = capture_onnx(file, {"x": rows()}, trace)
    assert captured.optimized["y"] > 0.01
    assert fd.open_trace(trace).header["optimized"]["y"] == pytest.approx(captured.optimized["y"])


def test_progress_and_filters(tmp_path: Path, trace: Path) -> None:
    seen: list[tuple[int, int]] = []
    capture_onnx(
        mlp(), {"x": rows()}, trace, include=["*en*", "y"], on_progress=lambda *at: seen.append(at), part_bytes=1
    )
    assert names(trace) == ["centred", "hidden", "y", "y:out.optimized"]
    assert seen[0] == (0, 10)
    assert seen[-1] == (10, 10)
    assert len(seen) == 11


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"X": rows()}, r"has no input 'X'; it takes x \(float32 \[n, 16\]\)"),
        ({}, r"also needs x; it takes x \(float32 \[n, 16\]\)"),
        ({"x": rows().astype(np.float64)}, r"was given x as float64; it takes x \(float32 \[n, 16\]\)"),
        ({"x": rows(width=5)}, r"was given x of shape \[3, 5\]; it takes x \(float32 \[n, 16\]\)"),
    ],
)
def test_wrong_inputs_are_answered_with_the_right_ones(
    tmp_path: Path, trace: Path, inputs: dict[str, np.ndarray], sentence: str
) -> None:
    with pytest.raises(FirstdiffError, match=sentence):
        capture_onnx(saved(mlp(), tmp_path), inputs, trace)


def test_inputs_by_position(tmp_path: Path, trace: Path) -> None:
    np.savez(tmp_path / "x.npz", arg0=rows())
    capture_onnx(saved(mlp(), tmp_path), tmp_path / "x.npz", trace)
    assert names(trace, "input") == ["x:in.0"]


def test_what_is_no_model_is_said_in_one_sentence(tmp_path: Path, trace: Path) -> None:
    whole = mlp(width=64).SerializeToString()
    for content, sentence in [
        (b"", "cannot be read as an ONNX model"),
        (b"hello, this is text", "cannot be read as an ONNX model"),
        (whole[: len(whole) // 2], "it ends too early, as a download that was cut off"),
        (b"\0\0\0\0ORTM" + whole, "is in ORT format"),
    ]:
        (tmp_path / "bad.onnx").write_bytes(content)
        with pytest.raises(FirstdiffError, match=sentence) as raised:
            capture_onnx(tmp_path / "bad.onnx", {"x": rows()}, trace)
        assert "bad.onnx" in str(raised.value)
        assert "\n" not in str(raised.value)
    with pytest.raises(FirstdiffError, match=r"none.onnx: cannot be read as an ONNX model \(No such file"):
        capture_onnx(tmp_path / "none.onnx", {}, trace)


def test_operators_and_providers_that_are_not_there(tmp_path: Path, trace: Path) -> None:
    unknown = model([helper.make_node("Frobnicate", ["x"], ["y"], domain="acme")], {"x": (FLOAT, [2])}, ["y"])
    unknown.opset_import.append(helper.make_opsetid("acme", 1))
    with pytest.raises(FirstdiffError, match="onnxruntime does not know the operator acme:Frobnicate"):
        capture_onnx(saved(unknown, tmp_path), {"x": np.float32([1, 2])}, trace)
    no_kernel = model([helper.make_node("Gemm", ["x", "x"], ["y"])], {"x": (TensorProto.INT32, [2, 2])}, ["y"])
    with pytest.raises(FirstdiffError, match="has no kernel for Gemm of opset 13"):
        capture_onnx(saved(no_kernel, tmp_path), {"x": np.ones((2, 2), np.int32)}, trace)
    with pytest.raises(FirstdiffError, match=r"has no provider 'cup' \(did you mean cpu\?\); it has .*cpu"):
        capture_onnx(saved(mlp(), tmp_path), {"x": rows()}, trace, provider="cup")


def test_without_onnx_it_says_what_to_install(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(FirstdiffError, match=r"needs the package onnxruntime, which is not there; pip install"):
        capture_onnx("model.onnx", {}, trace)


def test_functions_of_the_model_are_opened(trace: Path) -> None:
    proto = model([helper.make_node("Twice", ["x"], ["y"], domain="own")], {"x": (FLOAT, [2])}, ["y"])
    proto.opset_import.append(helper.make_opsetid("own", 1))
    body = [helper.make_node("Add", ["a", "a"], ["sum"]), helper.make_node("Identity", ["sum"], ["b"])]
    proto.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], body, proto.opset_import))
    capture_onnx(proto, {"x": np.float32([1, 2])}, trace)
    assert [item.record.op for item in fd.open_trace(trace) if item.record.op] == ["Add", "Identity"]
    assert values(trace, "y").tolist() == [2, 4]


def test_operators_of_other_domains_have_the_opset_of_their_own(trace: Path) -> None:
    scaler = helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[1.0], scale=[2.0])
    proto = model([scaler], {"x": (FLOAT, [2, 1])}, ["y"])
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    capture_onnx(proto, {"x": np.float32([[1], [2]])}, trace)
    record = fd.open_trace(trace)["y"].record
    assert (record.op, record.attrs["opset"]) == ("ai.onnx.ml:Scaler", 3)


def test_an_input_without_axes_stays_one(trace: Path) -> None:
    proto = model([helper.make_node("Neg", ["x"], ["y"])], {"x": (FLOAT, [])}, ["y"])
    capture_onnx(proto, {"x": np.float32(2)}, trace)
    assert values(trace, "y").shape == ()


def test_an_axis_of_minus_one_is_open(tmp_path: Path, trace: Path) -> None:
    proto = mlp()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    fd.capture_onnx(saved(proto, tmp_path), {"x": np.ones((3, 16), np.float32)}, trace)
    assert fd.open_trace(trace)["y"].values().shape == (3, 16)
