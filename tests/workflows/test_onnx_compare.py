"""A torch model against its ONNX file: exported, damaged, exported elsewhere."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from onnxruntime.transformers.float16 import convert_float_to_float16
from torch import nn

import firstdiff as fd
from firstdiff.errors import FirstdiffError
from firstdiff.workflows.onnx_compare import OnnxComparison, compare_onnx


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(16)
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.ln(x)
        scores = self.q(y) @ self.k(y).transpose(-1, -2) / 4
        return x + torch.softmax(scores, dim=-1) @ self.v(y)


class Model(nn.Module):
    """`layer_norm` is also what the exporter calls the first LayerNorm's value."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.layer_norm = nn.LayerNorm(16)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) * 0.02
        for block in self.blocks:
            x = block(x)
        return self.layer_norm(x)


IDS = torch.arange(10).reshape(1, 10)


def model() -> Model:
    torch.manual_seed(0)
    return Model().eval()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, OnnxComparison]:
    folder = tmp_path_factory.mktemp("exported")
    return folder, compare_onnx(model(), {"ids": IDS}, folder=folder)


def damaged(folder: Path, path: Path, change: object) -> Path:
    proto = onnx.load(folder / "model.onnx")
    change(proto.graph)  # type: ignore[operator]
    onnx.save_model(proto, path)
    return path


def test_every_module_is_paired_and_matches(exported: tuple[Path, OnnxComparison]) -> None:
    folder, found = exported
    assert found.verdict == "match"
    assert found.node is None
    assert (found.paired, found.modules) == (13, 13)
    assert max(found.optimized.values()) < 1e-4
    again = fd.compare(folder / "torch.trace", folder / "onnx.trace", allow_missing=True, allow_extra=True)
    outputs = {pair.name: pair.status for pair in again.pairs if pair.role == "output" and pair.reference}
    assert outputs.keys() == {
        str(tensor.key) for tensor in fd.open_trace(folder / "torch.trace") if tensor.record.role == "output"
    }
    assert set(outputs.values()) == {"match"}


def wrong_weight(graph: onnx.GraphProto) -> None:
    weight = next(tensor for tensor in graph.initializer if tensor.name == "blocks.1.q.bias")
    array = numpy_helper.to_array(weight).copy()
    array[3] += 0.5
    weight.CopyFrom(numpy_helper.from_array(array, weight.name))


def wrong_eps(graph: onnx.GraphProto) -> None:
    norm = [node for node in graph.node if node.op_type == "LayerNormalization"][1]
    next(item for item in norm.attribute if item.name == "epsilon").f = 1e-2


def test_a_wrong_eps_is_found_at_its_node(exported: tuple[Path, OnnxComparison], tmp_path: Path) -> None:
    found = compare_onnx(model(), {"ids": IDS}, damaged(exported[0], tmp_path / "eps.onnx", wrong_eps))
    assert found.comparison.first_divergence is not None
    assert found.comparison.first_divergence.name == "blocks.1.ln"
    assert found.comparison.diagnosis[0].cause == "norm.eps"
    assert found.node is not None
    assert (found.node.op, found.node.module, found.node.exact) == ("LayerNormalization", "blocks.1.ln", True)
    assert found.node.source is not None
    assert found.node.source.startswith("normalization.py:")


def wrong_axis(graph: onnx.GraphProto) -> None:
    softmax = [node for node in graph.node if node.op_type == "Softmax"][1]
    next(item for item in softmax.attribute if item.name == "axis").i = 1


def test_a_wrong_axis_is_found_at_its_node(exported: tuple[Path, OnnxComparison], tmp_path: Path) -> None:
    """No module gives the softmax, so that torch's own trace does not have it."""
    found = compare_onnx(model(), {"ids": IDS}, damaged(exported[0], tmp_path / "axis.onnx", wrong_axis))
    assert found.node is not None
    assert (found.node.op, found.node.module, found.node.exact) == ("Softmax", "blocks.1", True)
    assert found.comparison.diagnosis[0].cause == "softmax.axis"


class Attention(nn.Module):
    """Attention in one function of torch, of which the exporter makes several nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = nn.Embedding(2, 16)
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.kinds(torch.zeros(1, 10, dtype=torch.long))
        q, k, v = (part.unsqueeze(1) for part in self.qkv(x).chunk(3, dim=-1))
        found: torch.Tensor = nn.functional.scaled_dot_product_attention(q, k, v)
        return found


def test_a_wrong_axis_inside_one_function_of_torch_is_found_at_its_node(tmp_path: Path) -> None:
    """The file is optimised: an embedding of constants was folded, which is no error."""
    torch.manual_seed(0)
    attention, x = Attention().eval(), torch.randn(1, 10, 16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(attention, (x,), tmp_path / "model.onnx", dynamo=True, external_data=False, verbose=False)
    assert compare_onnx(attention, x, tmp_path / "model.onnx").verdict == "match"

    def transposed(graph: onnx.GraphProto) -> None:
        (softmax,) = [node for node in graph.node if node.op_type == "Softmax"]
        next(item for item in softmax.attribute if item.name == "axis").i = -2

    found = compare_onnx(attention, x, damaged(tmp_path, tmp_path / "axis.onnx", transposed))
    assert found.node is not None
    assert (found.node.op, found.node.exact) == ("Softmax", True)
    assert found.comparison.diagnosis[0].cause == "softmax.axis"


def other_weight(graph: onnx.GraphProto) -> None:
    """The weight of the second block's key projection, which exporters transpose and number."""
    at = [node for node in graph.node if node.op_type == "MatMul"][6]
    weight = next(tensor for tensor in graph.initializer if tensor.name == at.input[1])
    array = numpy_helper.to_array(weight).copy()
    array[3] *= 1.5
    weight.CopyFrom(numpy_helper.from_array(array, weight.name))


@pytest.mark.parametrize(
    ("change", "op", "cause"),
    [
        (wrong_axis, "Softmax", "softmax.axis"),
        (other_weight, "MatMul", "weights.differ"),
        (wrong_eps, "LayerNormalization", "norm.eps"),
    ],
)
@pytest.mark.parametrize("dynamo", [False, True], ids=["old exporter", "optimised"])
def test_errors_in_files_of_other_exporters_are_found_at_their_nodes(
    tmp_path: Path, change: Callable[[onnx.GraphProto], None], op: str, cause: str, dynamo: bool
) -> None:
    """The old exporter notes nothing, and both fold weights, so that only a graph tells the node."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model(), (IDS,), tmp_path / "model.onnx", dynamo=dynamo, input_names=["ids"], verbose=False)
    found = compare_onnx(model(), {"ids": IDS}, damaged(tmp_path, tmp_path / "wrong.onnx", change))
    assert found.node is not None
    assert (found.node.op, found.node.exact) == (op, True)
    assert found.comparison.diagnosis[0].cause == cause


@pytest.mark.parametrize("kind", ["plain", "bare"])
def test_a_wrong_weight_is_found_in_files_exported_elsewhere(
    exported: tuple[Path, OnnxComparison], tmp_path: Path, kind: str
) -> None:
    """Bare: no metadata, and no names that say anything; values pair by what they hold."""

    def change(graph: onnx.GraphProto) -> None:
        wrong_weight(graph)
        for number, node in enumerate(graph.node):
            del node.metadata_props[:]
            node.name = f"n{number}"
        if kind == "bare":
            names = {name: f"v{number}" for number, node in enumerate(graph.node) for name in node.output}
            for node in graph.node:
                node.input[:] = [names.get(name, name) for name in node.input]
                node.output[:] = [names[name] for name in node.output]
            for output in graph.output:
                output.name = names[output.name]
            del graph.value_info[:]

    found = compare_onnx(model(), {"ids": IDS}, damaged(exported[0], tmp_path / "weight.onnx", change))
    assert found.verdict == "mismatch"
    assert found.comparison.first_divergence is not None
    assert found.comparison.first_divergence.name == "blocks.1.q"


def fused(file: Path, path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def in_float16(file: Path, path: Path) -> None:
    onnx.save_model(convert_float_to_float16(onnx.load(file)), path)


@pytest.mark.parametrize("convert", [fused, in_float16])
def test_values_that_a_converter_took_away_have_no_partner(
    tmp_path: Path, convert: Callable[[Path, Path], None]
) -> None:
    """Folded embeddings and sums inside a fused norm are not there; what looks like them is something else."""

    class Norms(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.types = nn.Embedding(2, 32)
            self.dense = nn.Linear(32, 32)
            self.norm = nn.LayerNorm(32)
            nn.init.normal_(self.dense.bias, std=0.003)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.types(torch.zeros(x.shape[:2], dtype=torch.int64))
            return self.norm(self.dense(x) + x)

    torch.manual_seed(0)
    made, x = Norms().eval(), torch.randn(1, 8, 32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(made, (x,), tmp_path / "model.onnx", dynamo=True, external_data=False, verbose=False)
    convert(tmp_path / "model.onnx", tmp_path / "converted.onnx")
    found = compare_onnx(made, x, tmp_path / "converted.onnx")
    assert found.verdict == "match"
    assert sum(pair.status == "match" for pair in found.comparison.pairs) > 2


def test_a_wrong_weight_of_a_fused_product_is_found_at_its_node(tmp_path: Path) -> None:
    """The runtime flattens around the product, and gives it no module."""
    torch.manual_seed(0)
    layers = nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32), nn.LayerNorm(32)
    made, x = nn.Sequential(*layers).eval(), torch.randn(1, 8, 32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(made, (x,), tmp_path / "model.onnx", dynamo=True, external_data=False, verbose=False)
    fused(tmp_path / "model.onnx", tmp_path / "fused.onnx")
    proto = onnx.load(tmp_path / "fused.onnx")
    product = next(node for node in reversed(proto.graph.node) if node.op_type in ("Gemm", "MatMul"))
    weight = next(tensor for tensor in proto.graph.initializer if tensor.name == product.input[1])
    array = numpy_helper.to_array(weight).copy()
    array[3] *= 1.5
    weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    onnx.save_model(proto, tmp_path / "wrong.onnx")
    found = compare_onnx(made, x, tmp_path / "wrong.onnx")
    assert found.node is not None
    assert found.node.value == product.output[0]
    assert found.comparison.first_divergence is not None
    assert found.comparison.first_divergence.name == "2"


def test_nodes_that_an_optimiser_fused_across_modules_match_unless_they_are_wrong(tmp_path: Path) -> None:
    """A bias goes into the activation after it, and a residual sum into the norm: no value is the module's own."""
    from onnxruntime.transformers.optimizer import optimize_model

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down, self.norm = nn.Linear(16, 32), nn.Linear(32, 16), nn.LayerNorm(16)
            self.activation = nn.GELU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.norm(self.down(self.activation(self.up(x))) + x)
            return found

    torch.manual_seed(0)
    right = nn.Sequential(Residual(), Residual()).eval()
    x = torch.randn(1, 6, 16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(right, (x,), tmp_path / "plain.onnx", dynamo=False, opset_version=17)
    fused = optimize_model(str(tmp_path / "plain.onnx"), "bert", num_heads=4, hidden_size=16, opt_level=0)
    assert {"BiasGelu", "SkipLayerNormalization"} <= {node.op_type for node in fused.model.graph.node}
    fused.save_model_to_file(str(tmp_path / "model.onnx"))
    found = compare_onnx(right, x, tmp_path / "model.onnx")
    assert found.verdict == "match"
    assert found.node is None

    def wrong_bias(graph: onnx.GraphProto) -> None:
        node = [node for node in graph.node if node.op_type == "BiasGelu"][1]
        bias = next(tensor for tensor in graph.initializer if tensor.name == node.input[1])
        bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + np.float32(0.5), bias.name))

    found = compare_onnx(right, x, damaged(tmp_path, tmp_path / "wrong.onnx", wrong_bias))
    assert found.node is not None
    assert found.node.op == "com.microsoft:BiasGelu"
    assert found.comparison.first_divergence is not None
    assert found.comparison.first_divergence.name == "1.up"  # whose bias it is


def test_a_wrong_axis_is_found_among_attentions_that_are_nearly_alike(tmp_path: Path) -> None:
    """With small random weights every head attends to all that it may see alike, in every layer."""

    class Causal(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.ln(x)
            scores = self.q(y) @ self.k(y).transpose(-1, -2) / 400
            hidden = torch.full((10, 10), float("-inf")).triu(1)
            shares = torch.softmax(scores + hidden, dim=-1, dtype=torch.float32).to(x.dtype)
            return x + shares @ self.v(y)

    right = model()
    right.blocks = nn.ModuleList([Causal(), Causal()])
    compare_onnx(right.eval(), {"ids": IDS}, folder=tmp_path)
    path = damaged(tmp_path, tmp_path / "axis.onnx", wrong_axis)
    found = compare_onnx(right, {"ids": IDS}, path)
    assert found.node is not None
    assert (found.node.op, found.node.module, found.node.exact) == ("Softmax", "blocks.1", True)
    assert found.comparison.diagnosis[0].cause == "softmax.axis"


def test_what_fills_a_mask_in_half_precision_hides_no_wrong_weight(tmp_path: Path) -> None:
    """A converter cannot keep the least number of float32; the attention gives the same all the same."""

    class Masked(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.ln(x)
            hidden = torch.full((10, 10), torch.finfo(torch.float32).min).triu(1)
            scores = self.q(y) @ self.k(y).transpose(-1, -2) / 4
            return x + torch.softmax(scores + hidden, dim=-1) @ self.v(y)

    right = model()
    right.blocks = nn.ModuleList([Masked(), Masked()])
    compare_onnx(right.eval(), {"ids": IDS}, folder=tmp_path)
    proto = onnx.load(tmp_path / "model.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says which numbers it changes
        onnx.save_model(convert_float_to_float16(proto, keep_io_types=True), tmp_path / "model.onnx")
    assert compare_onnx(right, {"ids": IDS}, tmp_path / "model.onnx").verdict == "match"
    found = compare_onnx(right, {"ids": IDS}, damaged(tmp_path, tmp_path / "wrong.onnx", wrong_weight))
    assert found.node is not None
    assert found.node.module == "blocks.1.q"


def test_what_does_not_fit_is_said(exported: tuple[Path, OnnxComparison], tmp_path: Path) -> None:
    class Two(nn.Module):
        def forward(self) -> torch.Tensor:
            return torch.ones(2)

    with pytest.raises(FirstdiffError, match=r"model.onnx takes ids, and the torch model is given ; give one array"):
        compare_onnx(Two(), {}, exported[0] / "model.onnx")

    class Bad(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if bool(np.asarray(x.detach()).sum() > 0) else -x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(FirstdiffError, match=r"torch cannot export Bad to ONNX \(.*give the file with --onnx"):
            compare_onnx(Bad(), torch.ones(2))


@pytest.mark.parametrize("opset", [13, 17, 23])
def test_every_opset_of_either_exporter_is_compared(tmp_path: Path, opset: int) -> None:
    found = compare_onnx(model(), {"ids": IDS}, folder=tmp_path, opset=opset)
    assert onnx.load(tmp_path / "model.onnx").opset_import[0].version == opset
    assert (found.verdict, found.paired) == ("match", 13)


def test_an_opset_that_torch_does_not_export_to_is_refused() -> None:
    with pytest.raises(FirstdiffError, match="torch exports this model to opset 18, not 99; export it yourself"):
        compare_onnx(model(), {"ids": IDS}, opset=99)
