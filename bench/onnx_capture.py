"""ONNX: what recording every value of a model costs beside running it."""

from __future__ import annotations

import itertools
import statistics
import time
from pathlib import Path

import numpy as np

from bench.row import Row, at_most

WIDTH, TOKENS, LAYERS, TIMES = 768, 512, 6, 5


def run(folder: Path) -> list[Row]:
    """The rows of this part: `capture_onnx` as a whole against loading and running the same file, in turns."""
    import onnx
    import onnxruntime

    from firstdiff.capturing import capture_onnx

    file = folder / "model.onnx"
    onnx.save_model(_model(), file)
    inputs = {"x": np.random.default_rng(0).standard_normal((1, TOKENS, WIDTH)).astype(np.float32)}
    fresh = (folder / f"{number}.trace" for number in itertools.count())

    def plain() -> None:
        onnxruntime.InferenceSession(str(file)).run(None, inputs)

    def captured() -> None:
        capture_onnx(file, inputs, next(fresh), params="none")

    plain()
    captured()
    rounds = [(_timed(plain), _timed(captured)) for _ in range(TIMES)]
    ratio = statistics.median(both / alone for alone, both in rounds)
    return [at_most("record every value / load and run", ratio, "x", 3.0)]


def _timed(work: object) -> float:
    begun = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - begun


def _model() -> object:
    """Blocks of a norm and an MLP with a residual sum."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(1)
    nodes, weights, last = [], [], "x"
    for layer in range(LAYERS):
        shapes = {"scale": (WIDTH,), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
        for name, shape in shapes.items():
            array = (rng.standard_normal(shape) / WIDTH**0.5).astype(np.float32)
            weights.append(numpy_helper.from_array(array, f"{name}{layer}"))
        nodes += [
            helper.make_node("LayerNormalization", [last, f"scale{layer}"], [f"norm{layer}"]),
            helper.make_node("MatMul", [f"norm{layer}", f"up{layer}"], [f"hidden{layer}"]),
            helper.make_node("Relu", [f"hidden{layer}"], [f"active{layer}"]),
            helper.make_node("MatMul", [f"active{layer}", f"down{layer}"], [f"back{layer}"]),
            helper.make_node("Add", [last, f"back{layer}"], [f"block{layer}"]),
        ]
        last = f"block{layer}"
    kind = TensorProto.FLOAT
    sizes = [1, "tokens", WIDTH]
    ends = [helper.make_tensor_value_info("x", kind, sizes)], [helper.make_tensor_value_info(last, kind, sizes)]
    graph = helper.make_graph(nodes, "blocks", *ends, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
