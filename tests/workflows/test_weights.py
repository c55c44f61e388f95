from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from firstdiff.trace import Record, TraceWriter
from firstdiff.workflows.weights import compare_weights
from tests.cli.conftest import Done

Run = Callable[..., Done]


@pytest.fixture
def checkpoint() -> dict[str, np.ndarray]:
    """Heavy tails, as trained weights have."""
    draw = np.random.default_rng(1)

    def weight(*shape: int) -> np.ndarray:
        return (draw.standard_t(4, size=shape) * 0.3).astype(np.float32)

    held = {"model.embed.weight": weight(64, 32)}
    for layer in range(3):
        held[f"model.layers.{layer}.attn.q.weight"] = weight(32, 32)
        held[f"model.layers.{layer}.attn.v.weight"] = weight(32, 48)
        held[f"model.layers.{layer}.norm.weight"] = weight(32)
    return held


def saved(folder: Path, name: str, held: dict[str, np.ndarray]) -> Path:
    path = folder / f"{name}.safetensors"
    save_file({key: np.ascontiguousarray(value, np.float32) for key, value in held.items()}, path)
    return path


def told(
    tmp_path: Path, reference: dict[str, np.ndarray], candidate: dict[str, np.ndarray]
) -> dict[str, tuple[str, ...]]:
    report = compare_weights(saved(tmp_path, "ref", reference), saved(tmp_path, "cand", candidate))
    return {item.name: (item.state, item.text, item.cause or "") for item in report.weights if item.state != "same"}


def test_the_same_weights_match(tmp_path: Path, checkpoint: dict[str, np.ndarray], firstdiff: Run) -> None:
    done = firstdiff("weights", saved(tmp_path, "a", checkpoint), saved(tmp_path, "b", checkpoint))
    assert done.code == 0
    assert ["model.layers.*", "9", "9", "0", "0", "0", "0", "0", "0"] in [
        line.split() for line in done.out.splitlines()
    ]


def test_a_weight_under_another_name_is_said(tmp_path: Path, checkpoint: dict[str, np.ndarray], firstdiff: Run) -> None:
    name = next(name for name in checkpoint if name.startswith("model.layers."))
    other = name.replace("weight", "wieght")
    renamed = {other if key == name else key: values for key, values in checkpoint.items()}
    paths = saved(tmp_path, "a", checkpoint), saved(tmp_path, "b", renamed)
    assert "1 found under another name (--all lists every weight)" in firstdiff("weights", *paths).out
    lines = [line.split() for line in firstdiff("weights", *paths, "--all").out.splitlines()]
    assert ["same", name, other, "in", "the", "candidate"] in lines
    assert sum(line[:1] == ["same"] for line in lines) == len(checkpoint)


def test_weights_that_were_never_loaded_are_named(tmp_path: Path, checkpoint: dict[str, np.ndarray]) -> None:
    bound = 48**-0.5
    new = {"model.layers.1.attn.v.weight": np.random.default_rng(0).uniform(-bound, bound, (32, 48))}
    new["model.layers.2.norm.weight"] = np.ones(32)
    found = told(tmp_path, checkpoint, checkpoint | new)
    assert {name: cause for name, (_, _, cause) in found.items()} == dict.fromkeys(new, "weights.missing")
    text = found["model.layers.1.attn.v.weight"][1]
    assert text == "looks newly initialised and never loaded: uniform, up to 1 / sqrt(fan_in) = 0.144"


def test_other_values_are_no_missing_weights(tmp_path: Path, checkpoint: dict[str, np.ndarray]) -> None:
    name = "model.layers.0.attn.q.weight"
    assert told(tmp_path, checkpoint, checkpoint | {name: checkpoint[name] * 1.05}) == {
        name: ("differing", "relative L2 error 0.05", "weights.differ")
    }


@pytest.mark.parametrize("name", ["model.layers.0.attn.q.weight", "model.layers.0.attn.v.weight"])
def test_a_transposed_weight_is_found(tmp_path: Path, checkpoint: dict[str, np.ndarray], name: str) -> None:
    found = told(tmp_path, checkpoint, checkpoint | {name: checkpoint[name].T})
    assert found == {name: ("transposed", "the same values as 'a b -> b a'", "")}


def test_a_tied_weight_is_not_missing(tmp_path: Path, checkpoint: dict[str, np.ndarray]) -> None:
    found = told(tmp_path, checkpoint | {"lm_head.weight": checkpoint["model.embed.weight"]}, checkpoint)
    assert [state for state, _, _ in found.values()] == ["tied"]


def test_a_missing_weight_has_the_name_it_may_have_on_the_other_side(
    tmp_path: Path, checkpoint: dict[str, np.ndarray]
) -> None:
    other = dict(checkpoint)
    del other["model.layers.2.norm.weight"]
    other["model.layers.2.norm.gamma_q"] = np.full(32, 7.0) + np.arange(32)
    found = told(tmp_path, checkpoint, other)
    state, text, cause = found["model.layers.2.norm.weight"]
    assert (state, cause) == ("missing", "weights.missing")
    assert "did you mean model.layers.2.norm.gamma_q" in text
    assert found["model.layers.2.norm.gamma_q"][0] == "unused"


def test_gain_and_direction_are_folded(tmp_path: Path, firstdiff: Run) -> None:
    draw = np.random.default_rng(3)
    gain, direction = np.abs(draw.normal(size=(16, 1, 1))) + 0.5, draw.standard_t(4, size=(16, 8, 3))
    folded = gain * direction / np.sqrt((direction**2).sum((1, 2), keepdims=True))
    reference = saved(tmp_path, "ref", {"up.weight_g": gain, "up.weight_v": direction})
    done = firstdiff("weights", reference, saved(tmp_path, "good", {"up.weight": folded}))
    assert done.code == 0, done.out
    done = firstdiff("weights", "--format", "json", reference, saved(tmp_path, "bad", {"up.weight": direction}))
    assert done.code == 1
    (weight,) = json.loads(done.out)["weights"]
    assert (weight["state"], weight["unfolded"], weight["cause"]) == ("differing", "reference", "weights.unfolded")


def test_quantised_weights_may_be_off_by_their_bits(tmp_path: Path, checkpoint: dict[str, np.ndarray]) -> None:
    gguf = pytest.importorskip("gguf")
    for spoiled, state in ((1.0, "quantised"), (1.5, "differing")):
        path = tmp_path / f"{state}.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        for name, values in checkpoint.items():
            if values.ndim == 1 or values.shape[-1] % 32:
                writer.add_tensor(name, values)
            else:
                kind = gguf.GGMLQuantizationType.Q4_0
                packed = gguf.quants.quantize(values * spoiled, kind)
                writer.add_tensor(name, packed, raw_shape=packed.shape, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        report = compare_weights(saved(tmp_path, "ref", checkpoint), path)
        states = {item.name: item.state for item in report.weights}
        assert states["model.layers.0.attn.q.weight"] == state
        assert states["model.layers.0.norm.weight"] == "same"


def test_parameters_of_a_trace_are_weights_and_its_outputs_are_not(
    tmp_path: Path, checkpoint: dict[str, np.ndarray], firstdiff: Run
) -> None:
    for name, role in (("with", "param"), ("without", "output")):
        with TraceWriter(tmp_path / name) as trace:
            trace.write(Record(name="y", role="output", seq=0), np.zeros(3))
            trace.write(Record(name="w", role=role, seq=1), np.arange(4.0))  # type: ignore[arg-type]
    path = tmp_path / "cand.npz"
    np.savez(path, w=np.arange(4.0))
    assert firstdiff("weights", tmp_path / "with", path).code == 0
    done = firstdiff("weights", tmp_path / "without", path)
    assert (done.code, "is a trace without parameters" in done.err) == (2, True)
    done = firstdiff("weights", tmp_path / "with", saved(tmp_path, "other", {"w": np.arange(9.0)}))
    assert (done.code, "shape [4] in the reference, [9] in the candidate" in done.out) == (1, True)
