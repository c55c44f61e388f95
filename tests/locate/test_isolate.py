from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from firstdiff.locate import Replays, RowGraph, isolate, locate
from firstdiff.trace import ArraySource, Trace
from tests.capturing.models import Function, captured
from tests.locate.compared import graph_of, rows_of
from tests.locate.models import change, model, trace


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return trace(model(), tmp_path_factory.mktemp("reference") / "t")


def broken(reference: Trace, candidate: Trace) -> list[str]:
    rows = rows_of(reference, candidate)
    found = zip(rows, isolate(RowGraph(rows)), strict=True)
    return [row.key for row, judged in found if judged and judged.status == "mismatch"]


@pytest.mark.parametrize(
    ("fault", "keys"),
    [
        ("layers.0.ln_1!eps", ["layers.0.ln_1"]),
        ("layers.1.mlp.1!activation", ["layers.1.mlp.1"]),
        ("layers.1.attn.qkv!weight", ["layers.1.attn.qkv.linear"]),
    ],
)
def test_one_broken_layer_is_one_row(reference: Trace, tmp_path: Path, fault: str, keys: list[str]) -> None:
    assert broken(reference, trace(change(model(shuffled=True), fault), tmp_path / "c")) == keys


def test_healthy_noise_breaks_nothing(reference: Trace, tmp_path: Path) -> None:
    rows = rows_of(reference, trace(model(shuffled=True), tmp_path / "c"))
    found = isolate(RowGraph(rows))
    assert {result.status for result in found if result} == {"match", "unknown"}
    judged = [row.key for row, result in zip(rows, found, strict=True) if result and result.status == "match"]
    assert {"wte", "layers.0.ln_1", "layers.0.attn.softmax", "layers.0.mlp.1", "layers.0", "root"} <= set(judged)
    assert all(result is None for row, result in zip(rows, found, strict=True) if row.role == "param")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32), (torch.float32, torch.float64)],
)
def test_another_precision_breaks_nothing(tmp_path: Path, ours: torch.dtype, theirs: torch.dtype) -> None:
    sides = trace(model(dtype=ours), tmp_path / "r"), trace(model(shuffled=True, dtype=theirs), tmp_path / "c")
    assert broken(*sides) == []


def test_code_between_modules_is_one_row(reference: Trace, tmp_path: Path) -> None:
    other = trace(model(["layers.1.after_ln_1"], shuffled=True), tmp_path / "c")
    assert broken(reference, other) == ["layers.1.attn:in.0"]


def test_heads_that_are_joined_again_are_what_attention_gave(reference: Trace, tmp_path: Path) -> None:
    """They are a copy, so that no record tells where they came from."""
    key = "layers.0.attn.out:in.0"
    rows = rows_of(reference, trace(model(shuffled=True), tmp_path / "c"))
    at = next(place for place, row in enumerate(rows) if row.key == key)
    assert rows[at].record is not None
    assert not rows[at].record.sources
    assert Replays(RowGraph(rows)).judged(at).status == "match"
    assert key in broken(reference, trace(model(["layers.0.attn.joined"], shuffled=True), tmp_path / "other"))


class TinyRotaryEmbedding(nn.Module):
    """As transformers writes it: angles in float32, whatever type the model has."""

    def __init__(self, step: float) -> None:
        super().__init__()
        self.step = step
        self.register_buffer("inv_freq", 10000 ** (-torch.arange(0, 16) / 16))

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        angles = torch.from_numpy((positions[..., None].float() * self.inv_freq).numpy() * np.float32(1 + self.step))
        twice = torch.cat((angles, angles), dim=-1)
        return twice.cos().to(x.dtype), twice.sin().to(x.dtype)


@pytest.mark.parametrize(("step", "wrong"), [(1e-6, False), (0.02, True)])
def test_a_half_model_may_keep_its_table_of_angles_in_float32(tmp_path: Path, step: float, wrong: bool) -> None:
    given = torch.ones(1, 64, 32, dtype=torch.bfloat16), torch.arange(64)[None]
    sides = [captured(TinyRotaryEmbedding(by), tmp_path / name, *given) for name, by in (("r", 0.0), ("c", step))]
    assert ("root" in broken(*sides)) == wrong


def test_bf16_shows_a_channel_that_outputs_hide(tmp_path: Path) -> None:
    """Three percent of one channel pass as bf16 noise; computed again from its own inputs the layer is found out."""
    ours = trace(model(dtype=torch.bfloat16), tmp_path / "r")
    made = model(shuffled=True, dtype=torch.bfloat16)
    with torch.no_grad():
        made.layers[1].ln_2.weight[3] *= 1.03
    theirs = trace(made, tmp_path / "c")
    rows = rows_of(ours, theirs)
    row = next(row for row in rows if row.key == "layers.1.ln_2")
    assert row.status == "match"
    assert broken(ours, theirs) == ["layers.1.ln_2"]


@pytest.mark.parametrize("gain", [1.0, 1.01])
def test_a_row_hidden_by_numbers_beyond_the_stored_type_is_left_out(tmp_path: Path, gain: float) -> None:
    """The lowest number of float32 is -inf in float16: a row of nothing else had a softmax, and is stored as it was."""
    hidden = torch.tensor([[False, True, True], [True, True, True]])

    def masked(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.masked_fill(hidden, torch.finfo(torch.float32).min), -1)

    ours = captured(Function(masked), tmp_path / "r", torch.linspace(-1, 1, 24).reshape(4, 2, 3))
    with np.errstate(over="ignore"):
        theirs = Trace(
            "stored",
            tuple(replace(one, source=ArraySource(one.values().read().astype(np.float16))) for one in ours),
            order="seq",
        )
    changed = [
        replace(
            one, source=ArraySource(one.values().read() * np.float16(gain if one.key.name == "root.softmax" else 1))
        )
        for one in theirs
    ]
    assert ("root.softmax" in broken(ours, Trace("stored", tuple(changed), order="seq"))) == (gain != 1.0)


def test_a_sum_with_a_mask_is_judged_whatever_number_the_mask_has(tmp_path: Path) -> None:
    scores, seen = torch.linspace(-3, 3, 64).reshape(2, 4, 8), torch.ones(4, 8).tril(4).bool()

    def side(name: str, filler: float) -> Trace:
        made = Function(lambda _, x: torch.add(x, torch.zeros(4, 8).masked_fill(~seen, filler)).softmax(-1))
        return captured(made, tmp_path / name, scores)

    found = rows_of(side("r", torch.finfo(torch.float32).min), side("c", -torch.inf))
    judged = {row.key: alone for row, alone in zip(found, isolate(RowGraph(found)), strict=True)}
    (key,) = (key for key, alone in judged.items() if key.endswith(".add") and alone and alone.status != "unknown")
    assert judged[key].status == "match"


def test_what_cannot_be_judged_says_what_to_record(reference: Trace, tmp_path: Path) -> None:
    few = trace(model(shuffled=True), tmp_path / "c", include=["layers.1*"])
    rows = rows_of(reference, few)
    at = next(place for place, row in enumerate(rows) if row.key == "layers.1.attn.qkv")
    unknown = [result for result in isolate(RowGraph(rows)) if result and result.status == "unknown"]
    assert unknown
    assert all(result.reason and result.record_next for result in unknown)
    assert Replays(RowGraph(rows)).judged(at).status == "match"


def test_plain_arrays_cannot_be_judged() -> None:
    (found,) = isolate(graph_of({"a": np.ones(3)}, {"a": np.ones(3)}))
    assert found is not None
    assert (found.status, found.record_next) == ("unknown", "record op and attrs")


def test_an_error_within_tolerance_upstream_is_found(tmp_path: Path) -> None:
    """The first row that differs is right for its inputs: the one that is wrong passed as noise."""

    def side(name: str, shift: float) -> Trace:
        # a sum that loses its leading digits makes a small error large
        made = Function(lambda _, x: torch.sub(torch.add(x, 1000.0 + shift), 1000.0) * 4)
        return captured(made, tmp_path / name, torch.linspace(-2, 2, 64))

    found = locate(graph_of(side("r", 0.0), side("c", 1e-2)), order="seq")
    assert found.first_divergence is not None
    by_key = {pair.measured.key: pair for pair in found.pairs}
    assert by_key["root.add"].measured.status == "match"
    assert found.first_divergence.key == "root.sub"
    assert found.first_divergence.origin == "inherited"
    assert [site.key for site in found.divergences] == ["root.add"]
    assert by_key["root.add"].origin == "introduced"


class GELUActivation(nn.Module):
    """As transformers writes it: a module around a function."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(x)


def activated(path: Path, activation: nn.Module, dtype: torch.dtype = torch.float32) -> Trace:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(16, 64), activation, nn.Linear(64, 64)).to(dtype)
    return captured(made, path, torch.linspace(-4, 0, 32 * 16).view(32, 16).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_module_that_calls_a_function_the_other_does_without_is_judged_as_a_whole(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    ours = activated(tmp_path / "r", GELUActivation())
    assert broken(ours, activated(tmp_path / "same", nn.GELU(), dtype)) == []
    assert broken(ours, activated(tmp_path / "tanh", nn.GELU(approximate="tanh"), dtype)) == ["1"]


def test_the_estimated_time_of_a_convolution_follows_its_kernel(tmp_path: Path) -> None:
    """The last axis of its input is a width of the picture, which tells nothing."""

    def cost(kernel: int) -> int:
        torch.manual_seed(0)
        made = nn.Sequential(nn.Conv2d(64, 64, kernel, padding="same"))
        path = tmp_path / str(kernel)
        one = captured(made, path, torch.ones(1, 64, 24, 24), params="all")
        rows = rows_of(one, one)
        return Replays(RowGraph(rows)).cost(next(at for at, row in enumerate(rows) if row.key == "0"))

    few, many = cost(1), cost(9)
    assert many > 4 * few
