"""Modules written again with other functions: an error in one of them is placed at the function it is in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from firstdiff.capturing import capture
from firstdiff.comparing import compare
from firstdiff.pairing.agreement import agreement_of_runs
from firstdiff.pairing.dataflow import Dataflow
from firstdiff.pairing.fingerprints import Fingerprints
from firstdiff.pairing.name_forms import Forms
from firstdiff.pairing.names import AS_COUNTED
from firstdiff.pairing.strategy import PairingOptions, Side, Situation
from firstdiff.readers import open_trace
from firstdiff.schema import Comparison
from firstdiff.trace import Trace

D = 12


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return make().eval().requires_grad_(False)


def traced(model: nn.Module, path: Path, *inputs: torch.Tensor) -> Trace:
    with torch.no_grad(), capture(model, path):
        model(*inputs)
    return open_trace(path)


def compared(reference: nn.Module, candidate: nn.Module, folder: Path, *inputs: torch.Tensor) -> Comparison:
    sides = traced(reference, folder / "reference", *inputs), traced(candidate, folder / "candidate", *inputs)
    return compare(*sides, allow_missing=True, allow_extra=True)


def pairs(found: Comparison) -> dict[str, str]:
    return {pair.key: pair.candidate.name for pair in found.pairs if pair.reference and pair.candidate}


class Pooling(nn.Module):
    """Slots that take their share of every frame; the shares go through a dropout, which holds their values, too."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.out, self.drop = nn.Linear(D, 5), nn.Linear(D, D), nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares = self.drop(functional.softmax(self.score(x) / 2.0, dim=1))
        return self.out(shares.transpose(1, 2) @ x)


class OtherPooling(nn.Module):
    def __init__(self, model: Pooling, axis: int) -> None:
        super().__init__()
        self.rating, self.last, self.axis = model.score, model.out, axis

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rated = self.rating(x) * 0.5
        return self.last(torch.einsum("bts,btd->bsd", rated.softmax(self.axis), x))


@pytest.mark.parametrize(("axis", "first"), [(1, None), (2, "root.softmax")])
def test_a_function_with_a_purpose_is_paired_by_it_though_a_module_holds_its_values(
    axis: int, first: str | None, tmp_path: Path
) -> None:
    model = seeded(Pooling)
    assert isinstance(model, Pooling)
    found = compared(model, OtherPooling(model, axis), tmp_path, torch.randn(2, 7, D))
    assert (found.first_divergence.key if found.first_divergence else None) == first


class Wave(nn.Module):
    """Phases as a product; both sides make them in other code, and nothing else has their size."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.end = nn.Linear(D, D), nn.Linear(D, 3)
        self.register_buffer("rates", torch.linspace(0.2, 0.9, D // 2)[:, None])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        phases = (self.rates @ torch.arange(1.0, x.shape[1] + 1)[None]).mT
        both = torch.cat([phases.sin(), phases.cos()], -1)
        return self.end(torch.tanh(self.inner(x)) * both)


class OtherWave(nn.Module):
    def __init__(self, model: Wave, rates: torch.Tensor) -> None:
        super().__init__()
        self.first, self.last, self.rates = model.inner, model.end, rates

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turned = torch.polar(torch.ones(x.shape[1], D // 2), torch.outer(torch.arange(1.0, x.shape[1] + 1), self.rates))
        y = self.first(x).tanh()
        return self.last(torch.cat([y[..., : D // 2] * turned.imag, y[..., D // 2 :] * turned.real], -1))


def test_the_only_function_of_its_size_has_its_place_if_its_values_are_near(tmp_path: Path) -> None:
    model = seeded(Wave)
    assert isinstance(model, Wave)
    other = OtherWave(model, torch.linspace(0.2, 0.95, D // 2))
    found = compared(model, other, tmp_path, torch.randn(2, 9, D))
    assert found.first_divergence is not None
    assert found.first_divergence.key == "root.matmul"
    assert pairs(found)["root.matmul"] == "root.outer"


class Turn(nn.Module):
    """A layer of two heads that turns what it asks for before it looks; `plain` leaves that out."""

    def __init__(self, plain: bool = False) -> None:
        super().__init__()
        self.ask, self.tell, self.back = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)
        self.plain = plain

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ask, told = (part(x).unflatten(-1, (2, -1)).transpose(1, 2) for part in (self.ask, self.tell))
        halves = ask.chunk(2, -1)
        turned = ask * 0.6 + torch.cat([-halves[1], halves[0]], -1) * 0.8
        shares = (turned @ told.mT / 6**0.5).softmax(-1)
        return x + self.back((shares @ told).transpose(1, 2).flatten(2))


class OtherTurn(Turn):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ask, told = (part(x).unflatten(-1, (2, -1)) for part in (self.ask, self.tell))
        if not self.plain:
            turned = torch.view_as_complex(torch.stack(ask.chunk(2, -1), -1)) * complex(0.6, 0.8)
            ask = torch.cat([turned.real, turned.imag], -1)
        ask, told = ask.transpose(1, 2), told.transpose(1, 2)
        seen = functional.scaled_dot_product_attention(ask, told, told)
        return x + self.back(seen.transpose(1, 2).flatten(2))


class Stack(nn.Module):
    def __init__(self, kind: type[Turn], plain: int | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(kind(plain=number == plain) for number in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_an_input_that_holds_another_tensors_values_in_one_layer_keeps_its_place(tmp_path: Path) -> None:
    reference, candidate = seeded(lambda: Stack(Turn)), seeded(lambda: Stack(OtherTurn, plain=1))
    found = compared(reference, candidate, tmp_path, torch.randn(2, 6, D))
    assert found.first_divergence is not None
    assert found.first_divergence.key == "layers.1.add"
    assert pairs(found)["layers.1.add"] == "layers.1.scaled_dot_product_attention:in.query"


class Branch(nn.Sequential):
    """A layer that begins with a norm, which takes a scale of what goes in away again."""

    def __init__(self) -> None:
        super().__init__(nn.LayerNorm(D), nn.Linear(D, D), nn.Tanh(), nn.Linear(D, D))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return input + super().forward(input)


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, D)
        self.layers = nn.ModuleList(Branch() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return x


class OtherWhole(nn.Module):
    def __init__(self, model: Whole, scale: float) -> None:
        super().__init__()
        self.begin, self.trunk, self.scale = model.stem, nn.ModuleList(model.layers), scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.begin(x).mul(self.scale)
        for block in self.trunk:
            x = block(x)
        return x


def test_what_goes_into_layers_that_correspond_is_a_pair(tmp_path: Path) -> None:
    model = seeded(Whole)
    assert isinstance(model, Whole)
    found = compared(model, OtherWhole(model, 3.5), tmp_path, torch.randn(5, 4))
    assert found.first_divergence is not None
    assert found.first_divergence.key == "layers.0:in.0"
    assert compared(model, OtherWhole(model, 1.0), tmp_path / "healthy", torch.randn(5, 4)).verdict == "match"


def situation_of(reference: Trace, candidate: Trace, *anchors: tuple[int, int]) -> Situation:
    ours, theirs = Side.of(reference), Side.of(candidate)
    prints = Fingerprints(reference), Fingerprints(candidate)
    return Situation(ours, theirs, anchors, Forms(ours, theirs, AS_COUNTED), prints, PairingOptions())


def test_an_error_is_no_noise_where_the_layout_hides_what_agrees() -> None:
    """Of a tensor with two axes of one length no fingerprint survives another order of them."""
    rng = np.random.default_rng(3)
    ours = {name: rng.standard_normal((4, 8, 8)) for name in "abc"} | {"d": rng.standard_normal((4, 9))}
    theirs = {name: np.ascontiguousarray(ours[name].transpose(0, 2, 1)) for name in "abc"}
    theirs["d"] = ours["d"] + 0.02 * rng.standard_normal((4, 9))
    situation = situation_of(Trace.from_arrays(ours), Trace.from_arrays(theirs), *((n, n) for n in range(4)))
    agree = agreement_of_runs(situation)
    assert [agree(place, place) for place in range(4)] == [True, True, True, False]


def test_repeated_values_are_of_what_they_repeat_and_not_of_what_has_their_size(tmp_path: Path) -> None:
    class Repeating(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            other = torch.tanh(torch.cat([x, x + 1]))
            few = torch.sigmoid(x)
            return other + torch.sqrt(few.expand(2, *few.shape).reshape(-1, *few.shape[1:]))

    trace = traced(Repeating(), tmp_path / "trace", torch.randn(3, 5))
    place = {str(tensor.key): number for number, tensor in enumerate(trace)}
    above = Dataflow(Side.of(trace)).upstream([place["root.sqrt"]])
    assert place["root.sigmoid"] in above
    assert place["root.tanh"] not in above


class Reading(nn.Module):
    """Attention written out, with a mask for each text."""

    def __init__(self) -> None:
        super().__init__()
        self.three, self.join = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x: torch.Tensor, hiding_mask: torch.Tensor) -> torch.Tensor:
        query, key, value = self.three(x).chunk(3, -1)
        shares = (query @ key.mT / D**0.5 + hiding_mask).softmax(-1)
        return self.join(shares @ value)


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn, self.end = Reading(), nn.Linear(D, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.full((x.shape[1], x.shape[1]), -1e30).triu(1)
        return self.end(self.attn(x, hiding_mask=mask.expand(len(x), -1, -1).clone()))


class OtherReader(nn.Module):
    """The same with torch's own module, which takes booleans, and one mask for all texts."""

    def __init__(self, model: Reader, future: int) -> None:
        super().__init__()
        self.attn, self.last, self.future = nn.MultiheadAttention(D, 1, batch_first=True), model.end, future
        own = model.attn
        self.attn.in_proj_weight, self.attn.in_proj_bias = own.three.weight, own.three.bias
        self.attn.out_proj.weight, self.attn.out_proj.bias = own.join.weight, own.join.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.ones(x.shape[1], x.shape[1]).triu(1 + self.future) > 0
        return self.last(self.attn(x, x, x, attn_mask=hidden, need_weights=False)[0])


@pytest.mark.filterwarnings("ignore:attn may take torch's fused path")
@pytest.mark.parametrize("future", [0, 1])
def test_the_only_masks_of_two_modules_are_a_pair(future: int, tmp_path: Path) -> None:
    model = seeded(Reader)
    assert isinstance(model, Reader)
    found = compared(model, OtherReader(model, future).eval().requires_grad_(False), tmp_path, torch.randn(2, 6, D))
    assert found.verdict == ("mismatch" if future else "match")
    assert pairs(found)["attn:in.hiding_mask"] == "attn:in.attn_mask"
    if future:
        assert found.first_divergence is not None
        assert found.first_divergence.key == "root.triu"
