"""ONNX models in a real Chromium: the page "Browser inference", and `firstdiff capture browser`."""

from __future__ import annotations

import json
import re
import subprocess
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Error, Page, expect

import firstdiff as fd
from firstdiff.capturing.onnx_values import distance
from tests.tools import needs
from tests.web.serving import FIRSTDIFF, Server, wait_until
from tests.web.watching import Console, axe, overflows

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
WITHIN = 1e-4
SEQUENCE = 6


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model as torch exports it, with vocabulary and metadata, a wrong copy, inputs and torch's trace."""
    import torch
    from torch import nn

    torch.manual_seed(0)

    class Tiny(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 16)
            self.norm = nn.LayerNorm(16)
            self.up = nn.Linear(16, 32)
            self.down = nn.Linear(32, 16)
            self.head = nn.Linear(16, 11)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            x = self.embed(ids)
            attention = torch.softmax(x @ x.transpose(-1, -2) / 4, -1)
            x = x + attention @ x
            x = x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
            found: torch.Tensor = self.head(x)
            return found

    folder = tmp_path_factory.mktemp("exported")
    model, ids = Tiny().eval(), torch.randint(0, 11, (1, SEQUENCE))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        torch.onnx.export(
            model,
            (ids,),
            folder / "model.onnx",
            input_names=["ids"],
            output_names=["logits"],
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    (folder / "vocab.json").write_text(json.dumps(list("abcdefghijk")), encoding="utf-8")
    (folder / "metadata.json").write_text(json.dumps({"vocab_size": 11}), encoding="utf-8")
    np.savez(folder / "x.npz", ids=ids.numpy())
    proto = onnx.load(folder / "model.onnx")
    bias = next(tensor for tensor in proto.graph.initializer if tensor.name == "up.bias")
    values = onnx.numpy_helper.to_array(bias).copy()
    values[5] += 1
    bias.CopyFrom(onnx.numpy_helper.from_array(values, bias.name))
    (folder / "wrong").mkdir()
    onnx.save(proto, folder / "wrong" / "model.onnx")
    with torch.no_grad(), fd.capture(model, folder / "torch.trace"):
        model(ids)
    return folder


def capture(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(FIRSTDIFF), "capture", "browser", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def lines(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (trace / "tensors.jsonl").read_text(encoding="utf-8").splitlines()]


def load(page: Page, model: Path) -> None:
    page.goto("/inference")
    page.get_by_label("Model path").fill(str(model))
    page.get_by_role("button", name="Load Model").click()


def give(page: Page, inputs: Path) -> None:
    page.get_by_label("File", exact=True).check()
    page.get_by_label("Input path").fill(str(inputs))
    page.get_by_role("button", name="Set inputs").click()


def run(page: Page) -> None:
    page.get_by_role("button", name="Test Single Inference").click()


def test_the_command_records_what_python_records(exported: Path, tmp_path: Path) -> None:
    needs("chromium")
    python, web = tmp_path / "py.trace", tmp_path / "web.trace"
    done = capture(exported / "model.onnx", "--input", exported / "x.npz", "-o", web, "--python", python)
    assert done.returncode == 0, done.stderr
    one, two = lines(python), lines(web)
    described = ("name", "role", "slot", "seq", "op", "from", "attrs", "dtype", "shape")
    assert [[line.get(key) for key in described] for line in one] == [
        [line.get(key) for key in described] for line in two
    ]
    reference, candidate = fd.open_trace(python), fd.open_trace(web)
    for left, right in zip(reference, candidate, strict=True):
        assert distance(left.values().view(), right.values().view()) < WITHIN, left.name
    assert fd.compare(python, web).verdict == "match"


def test_a_planted_weight_is_found_at_its_node_in_the_browsers_trace(exported: Path, tmp_path: Path) -> None:
    needs("chromium")
    python, web = tmp_path / "py.trace", tmp_path / "web.trace"
    fd.capture_onnx(exported / "model.onnx", exported / "x.npz", python)
    done = capture(exported / "wrong" / "model.onnx", "--input", exported / "x.npz", "-o", web)
    assert done.returncode == 0, done.stderr
    compared = fd.compare(python, web)
    assert compared.verdict == "mismatch"
    assert compared.first_divergence is not None
    row = compared.pairs[compared.first_divergence.pair]
    made_with = next(line for line in lines(web) if line["name"] == row.name)
    assert made_with["op"] in ("Add", "Gemm")
    assert "up.bias" in made_with["attrs"]["params"].values()


def test_a_value_that_optimising_takes_away_is_left_out_and_said(tmp_path: Path) -> None:
    needs("chromium")
    helper, kind = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("Shape", ["ids"], ["shape"], start=1, end=2),
        helper.make_node("Squeeze", ["shape"], ["length"]),
        helper.make_node("Range", ["zero", "length", "one"], ["positions"]),
        helper.make_node("Gather", ["table", "positions"], ["y"]),
    ]
    weights = {"zero": np.array(0), "one": np.array(1), "table": np.random.default_rng(0).random((9, 4), np.float32)}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("ids", kind.INT64, [1, "n"])],
        [helper.make_tensor_value_info("y", kind.FLOAT, ["n", 4])],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", ids=np.zeros((1, 5), np.int64))
    done = capture(tmp_path / "m.onnx", "--input", tmp_path / "x.npz", "-o", tmp_path / "web.trace", "--optimize")
    assert done.returncode == 0, done.stderr
    assert "left out: what optimising leaves of it is no tensor of numbers (positions)" in done.stdout + done.stderr
    assert (fd.open_trace(tmp_path / "web.trace")["y"].values().read() == weights["table"][:5]).all()


def test_the_page_runs_a_model_and_finds_it_equal(page: Page, server: Server, exported: Path) -> None:
    page.goto("/")
    page.get_by_role("link", name="Browser inference").click()
    names = ("model.onnx", "vocab.json", "metadata.json")
    page.get_by_label("Model files").set_input_files([exported / name for name in names])
    page.get_by_role("button", name="Load Model").click()
    expect(page.get_by_role("region", name="Model").get_by_text("model.onnx: opset")).to_be_visible()
    page.get_by_role("button", name="Set inputs").click()
    expect(page.get_by_text(f"ids int64 [1, {SEQUENCE}]: min")).to_be_visible()
    run(page)
    expect(page.get_by_text("within 0.0001 deviations of Python’s")).to_be_visible()
    expect(page.get_by_role("list", name="Checks").get_by_text("11 entries, the first ten are equal")).to_be_visible()
    expect(page.get_by_role("list", name="Final outputs").get_by_role("listitem")).to_have_count(3)
    log = page.get_by_role("log")
    assert "at position 0" not in log.inner_text()
    assert "(Softmax): min" not in log.inner_text()
    for toggle in ("Verbose logging", "Log distribution stats", "Log each position"):
        page.get_by_label(toggle).check()
    page.get_by_label("Torch trace").fill(str(exported / "torch.trace"))
    page.get_by_role("button", name="Compare with it").click()
    expect(page.get_by_role("columnheader", name="Torch, deviations apart")).to_be_visible()
    run(page)
    expect(log).to_contain_text(f"logits at position {SEQUENCE - 1}: largest")
    expect(log).to_contain_text("(Softmax): min")
    expect(log).to_contain_text("logits: float32 [1, 6, 11]")
    assert log.evaluate("pane => pane.scrollHeight - pane.clientHeight - pane.scrollTop") < 8
    kept = server.home / "debug_browser.log"
    assert "logits at position 0" in kept.read_text(encoding="utf-8")
    assert axe(page) == []
    page.set_viewport_size({"width": 400, "height": 800})
    assert not overflows(page)
    page.get_by_label("Other run").select_option(index=1)
    expect(page.get_by_role("columnheader", name="Other run, deviations apart")).to_be_visible()
    page.get_by_role("button", name="Clear log").click()
    expect(log).to_have_text("Nothing yet.")
    page.get_by_role("button", name="Open the whole comparison").click()
    page.wait_for_url("**/c/*")
    assert server.settled(page.url.rpartition("/")[2])["verdict"] == "match"


def test_a_wrong_conversion_is_named_beside_torch(page: Page, exported: Path) -> None:
    """Python and the browser agree: both run the wrong file."""
    load(page, exported / "wrong" / "model.onnx")
    give(page, exported / "x.npz")
    expect(page.get_by_text(f"ids int64 [1, {SEQUENCE}]: min")).to_be_visible()
    page.get_by_label("Torch trace").fill(str(exported / "torch.trace"))
    page.get_by_role("button", name="Compare with it").click()
    run(page)
    expect(page.get_by_text("within 0.0001 deviations of Python’s")).to_be_visible()
    expect(page.get_by_text(re.compile("First tensor that differs from torch’s: .* \\((Add|Gemm)\\)"))).to_be_visible()


def test_a_file_that_changed_on_disk_is_named(page: Page, exported: Path, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes((exported / "model.onnx").read_bytes())
    load(page, tmp_path / "model.onnx")
    give(page, exported / "x.npz")
    expect(page.get_by_text(f"ids int64 [1, {SEQUENCE}]: min")).to_be_visible()
    (tmp_path / "model.onnx").write_bytes((exported / "wrong" / "model.onnx").read_bytes())
    run(page)
    expect(page.get_by_role("alert")).to_contain_text("the browser holds another model.onnx than the disk")


def test_what_does_not_fit_together_is_shown_before_and_after_a_run(page: Page, server: Server, tmp_path: Path) -> None:
    """The model leaves the size of its logits open, so that only a run tells it.

    Two branches make it three parts, of which the last reads a value of the first.
    """
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    long = "layer;" * 60  # nobody's file name

    def branch(op: str, *outputs: str) -> onnx.GraphProto:
        nodes = [helper.make_node(op, ["x"], [output]) for output in outputs]
        return helper.make_graph(nodes, op, [], [helper.make_tensor_value_info(name, kind, None) for name in outputs])

    nodes = [
        helper.make_node("Relu", ["x"], [long]),
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Less", ["total", "total"], ["taken"]),
        helper.make_node("If", ["taken"], ["one", "two"], name="first", then_branch=branch("Abs", "a", "b"),
                         else_branch=branch("Neg", "c", "d")),
        helper.make_node("Add", ["one", "two"], ["sum"]),
        helper.make_node("If", ["taken"], ["three"], then_branch=branch("Abs", "e"), else_branch=branch("Sin", "f")),
        helper.make_node("Add", [long, "three"], ["logits"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", kind, ["n", "size"])],
        [helper.make_tensor_value_info("logits", kind, ["n", "size"])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "m.onnx")
    (tmp_path / "vocab.json").write_text(json.dumps(list("abcdefghijk")), encoding="utf-8")
    (tmp_path / "metadata.json").write_text(json.dumps({"vocab_size": 12, "license": None}), encoding="utf-8")
    load(page, tmp_path / "m.onnx")
    page.get_by_label("Size of n").fill("2")
    page.get_by_label("Size of size").fill("7")
    page.get_by_role("button", name="Set inputs").click()
    expect(page.get_by_text("x float32 [2, 7]: min")).to_be_visible()
    run(page)
    checks = page.get_by_role("list", name="Checks")
    expect(checks).to_contain_text("logits has 7 entries along its last axis, but vocab.json has 11")
    expect(checks).to_contain_text("metadata.json has no value for license")
    expect(checks).to_contain_text("vocab.json has 11 entries, but metadata.json says 12")
    expect(checks).to_contain_text("the browser holds the files that are on disk")
    expect(page.get_by_role("rowheader", name=long)).to_be_visible()
    expect(page.get_by_role("row", name="f Sin")).to_be_visible()
    expect(page.get_by_text("within 0.0001 deviations of Python’s")).to_be_visible()
    page.get_by_label("Optimise the exposed run").check()
    run(page)
    page.get_by_label("Other run").select_option(index=1)
    expect(page.get_by_role("columnheader", name="Other run, deviations apart")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save log").click()
    text = saved.value.path().read_text(encoding="utf-8")
    assert saved.value.suggested_filename == "debug_browser.log"
    assert text == (server.home / "debug_browser.log").read_text(encoding="utf-8")
    assert "check Logits: FAILED" in text
    assert "exposed, optimised, against untouched, optimised" in text


def test_bad_files_and_inputs_are_one_sentence(page: Page, exported: Path, tmp_path: Path) -> None:
    (tmp_path / "no.onnx").write_bytes(b"this is no model at all")
    load(page, tmp_path / "no.onnx")
    expect(page.get_by_role("alert")).to_contain_text("cannot be read as an ONNX model")
    load(page, exported / "model.onnx")
    np.savez(tmp_path / "names.npz", tokens=np.zeros((1, SEQUENCE), np.int64))
    give(page, tmp_path / "names.npz")
    expect(page.get_by_role("alert")).to_contain_text(f"it takes ids (int64 [1, {SEQUENCE}])")
    np.savez(tmp_path / "types.npz", ids=np.zeros((1, SEQUENCE), np.float32))
    give(page, tmp_path / "types.npz")
    expect(page.get_by_role("alert")).to_contain_text(f"it takes ids (int64 [1, {SEQUENCE}])")


def test_without_webgpu_pythons_results_stay(page: Page, exported: Path, console: Console) -> None:
    load(page, exported / "model.onnx")
    give(page, exported / "x.npz")
    run(page)
    expect(page.get_by_text("within 0.0001 deviations of Python’s")).to_be_visible()
    page.get_by_label("Provider").select_option("webgpu")
    run(page)
    expect(page.get_by_role("alert")).to_contain_text("This browser has no WebGPU")
    expect(page.get_by_text(re.compile(r"Python’s onnxruntime .* recorded \d+ tensors"))).to_be_visible()
    expect(page.get_by_text("within 0.0001 deviations of Python’s")).to_have_count(0)  # of the run before
    console.complaints.clear()  # the browser's own note that it has no adapter


@pytest.mark.parametrize("crashes", [False, True])
def test_a_tab_that_closes_or_crashes_ends_its_run(
    server: Server, page: Page, exported: Path, console: Console, crashes: bool
) -> None:
    opened = server.ask("POST", "/inference/models", {"path": str(exported / "model.onnx")})
    address = f"/inference/models/{opened['id']}"
    server.ask("POST", f"{address}/inputs", {"kind": "random"})
    server.ask("POST", f"{address}/python")
    begun = server.ask("POST", f"{address}/runs", {})
    page.route("**/part", lambda route: None)  # the run hangs as a long one does
    with page.expect_request("**/part"):
        page.goto(f"/inference?model={opened['id']}&run={begun['id']}")
    if crashes:  # without a word to the server
        with suppress(Error):
            page.goto("chrome://crash")
    else:
        page.goto("about:blank")
    wait_until(lambda: server.ask("GET", address)["runs"][0]["state"] != "running", "the server hears of it")
    state = server.ask("GET", address)
    assert state["runs"][0]["state"] == "failed"
    assert "tab was closed" in state["runs"][0]["error"]
    assert state["python"]["tensors"] > 0


def test_a_machine_without_a_browser_is_told_what_to_do(exported: Path, tmp_path: Path) -> None:
    python = tmp_path / "py.trace"
    done = capture(
        exported / "model.onnx", "--input", exported / "x.npz", "-o", tmp_path / "web.trace", "--python", python,
        "--browser", tmp_path / "nothing",
    )  # fmt: skip
    assert done.returncode == 2
    assert "cannot be started" in done.stderr
    assert (python / "trace.json").exists()


def test_an_operator_that_the_runtime_lacks_is_named(tmp_path: Path) -> None:
    needs("chromium")
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("Mystery", ["x"], ["y"], domain="strange")],
        "graph",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("strange", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "odd.onnx")
    np.savez(tmp_path / "x.npz", x=np.zeros(2, np.float32))
    done = capture(tmp_path / "odd.onnx", "--input", tmp_path / "x.npz", "-o", tmp_path / "web.trace")
    assert done.returncode == 2
    assert "does not know the operator strange" in done.stderr
