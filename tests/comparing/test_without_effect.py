"""Pairs that both runs make in different ways, and of which only matching values come, are no divergence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import firstdiff as fd
from firstdiff.schema import Comparison

torch = pytest.importorskip("torch")
nn = torch.nn


class Attention(nn.Module):  # type: ignore[misc]
    """Attention with the scores scaled."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(16, 16) for _ in range(4))
        self.head = nn.Linear(16, 5)

    def parts(self, x: Any) -> tuple[Any, Any, Any]:
        q, k, v = (part(x).view(2, 6, 4, 4).transpose(1, 2) for part in (self.query, self.key, self.value))
        return q, k, v

    def forward(self, x: Any) -> Any:
        q, k, v = self.parts(x)
        weights = torch.softmax(torch.matmul(q, k.transpose(2, 3)) * 0.5, -1)
        return self.end(torch.matmul(weights, v))

    def end(self, mixed: Any) -> Any:
        return self.head(torch.tanh(self.out(mixed.transpose(1, 2).reshape(2, 6, 16))))


class Folded(Attention):
    """The same with queries scaled, by the right factor or not, and heads folded into the batch."""

    factor = 0.5
    bias = 0.0

    def forward(self, x: Any) -> Any:
        q, k, v = ((part + self.bias).reshape(8, 6, 4) for part in self.parts(x))
        weights = torch.bmm(q * self.factor, k.transpose(1, 2)).softmax(-1)
        return self.end(torch.bmm(weights, v).view(2, 4, 6, 4))


def compared(folder: Path, candidate: Any) -> Comparison:
    torch.manual_seed(0)
    reference, x = Attention().eval(), torch.randn(2, 6, 16)
    candidate.load_state_dict(reference.state_dict())
    for name, model in (("reference", reference), ("candidate", candidate.eval())):
        with torch.no_grad(), fd.capture(model, folder / name):
            model(x)
    return fd.compare(folder / "reference", folder / "candidate", allow_missing=True, allow_extra=True)


def test_a_scale_on_the_queries_is_another_way_of_writing(tmp_path: Path) -> None:
    found = compared(tmp_path, Folded())
    assert found.verdict == "match"
    assert found.first_divergence is None


def test_a_wrong_scale_on_the_queries_is_found_where_it_shows(tmp_path: Path) -> None:
    candidate = Folded()
    candidate.factor = 0.25
    found = compared(tmp_path, candidate)
    assert found.verdict == "mismatch"
    assert found.first_divergence is not None
    assert found.first_divergence.key in ("root.matmul:in.input", "root.mul", "root.softmax")


def test_a_bias_that_softmax_takes_away_is_an_error_all_the_same(tmp_path: Path) -> None:
    class NoBias(Attention):
        def parts(self, x: Any) -> tuple[Any, Any, Any]:
            q, k, v = super().parts(x)
            return q, k - self.key.bias.view(4, 1, 4), v

    class Keys(Attention):
        def __init__(self) -> None:
            super().__init__()
            self.key = nn.Linear(16, 16, bias=False)

        def load_state_dict(self, state: Any, strict: bool = False, assign: bool = False) -> Any:
            return super().load_state_dict({name: state[name] for name in self.state_dict()})

    found = compared(tmp_path, Keys())
    assert found.verdict == "mismatch"
    assert found.first_divergence is not None
    assert found.first_divergence.key == "key"


class Stages(nn.Module):  # type: ignore[misc]
    """Two stages; the step between them belongs to the first or to the second."""

    def __init__(self, *, first: bool, wrong: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict({"block": nn.Linear(16, 16)}) for _ in range(2))
        self.merge = nn.Linear(32, 16)
        self.stages = nn.ModuleList(Stage(self, number, first=first, wrong=wrong) for number in range(2))

    def forward(self, x: Any) -> Any:
        for stage in self.stages:
            x = stage(x)
        return x.sin()


class Stage(nn.Module):  # type: ignore[misc]
    def __init__(self, model: Stages, number: int, *, first: bool, wrong: bool) -> None:
        super().__init__()
        self.block = model.layers[number]["block"]
        self.merges_behind, self.merges_before = first and number == 0, not first and number == 1
        if self.merges_behind or self.merges_before:
            self.merge = model.merge
        self.wrong = wrong

    def merged(self, x: Any) -> Any:
        pairs = x[:, 0::2], x[:, 1::2]
        return self.merge(torch.cat(pairs[::-1] if self.wrong else pairs, -1))

    def forward(self, x: Any) -> Any:
        x = torch.tanh(self.block(self.merged(x) if self.merges_before else x))
        return self.merged(x) if self.merges_behind else x


@pytest.mark.parametrize("wrong", [False, True])
def test_a_stage_that_begins_elsewhere_is_another_way_of_writing(tmp_path: Path, wrong: bool) -> None:
    torch.manual_seed(1)
    reference, candidate, x = Stages(first=True), Stages(first=False, wrong=wrong), torch.randn(3, 8, 16)
    candidate.load_state_dict(
        {
            name: reference.state_dict()[name.replace("stages.1.merge", "stages.0.merge")]
            for name in candidate.state_dict()
        }
    )
    for name, model in (("reference", reference), ("candidate", candidate)):
        with torch.no_grad(), fd.capture(model, tmp_path / name):
            model(x)
    found = fd.compare(tmp_path / "reference", tmp_path / "candidate", allow_missing=True, allow_extra=True)
    assert found.verdict == ("mismatch" if wrong else "match")
    assert (found.first_divergence is None) is not wrong


class Stack(nn.Module):  # type: ignore[misc]
    """Two attentions, each given a mask, which one side hands down as a larger buffer."""

    def __init__(self, part: type[Attention], *, buffer: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(part() for _ in range(2))
        for layer in self.layers:
            layer.head = nn.Linear(16, 16)
        self.buffer = buffer

    def forward(self, x: Any) -> Any:
        mask = torch.ones(9, 9).tril()[:6] if self.buffer else torch.full((6, 6), -1e9).triu(1)
        for layer in self.layers:
            x = layer.masked(x, mask)
        return x


class Masked(Attention):
    def forward(self, x: Any, mask: Any) -> Any:
        q, k, v = self.parts(x)
        weights = torch.softmax(torch.matmul(q, k.transpose(2, 3)) * 0.5 + mask, -1)
        return self.end(torch.matmul(weights, v))

    def masked(self, x: Any, mask: Any) -> Any:
        return self(x, mask)


class FoldedMasked(Masked):
    sharper = 1.0

    def forward(self, x: Any, mask: Any) -> Any:
        q, k, v = (part.reshape(8, 6, 4) for part in self.parts(x))
        scores = torch.bmm(q * 0.5, k.transpose(1, 2)) * self.sharper
        weights = scores.masked_fill(mask[:, :6] == 0, -1e30).softmax(-1)
        return self.end(torch.bmm(weights, v).view(2, 4, 6, 4))


@pytest.mark.parametrize("layer", [None, 1])
def test_what_is_written_otherwise_in_every_layer_is_no_divergence_in_the_one_that_is_wrong(
    tmp_path: Path, layer: int | None
) -> None:
    torch.manual_seed(2)
    reference, candidate, x = Stack(Masked, buffer=False), Stack(FoldedMasked, buffer=True), torch.randn(2, 6, 16)
    candidate.load_state_dict(reference.state_dict())
    if layer is not None:
        candidate.layers[layer].sharper = 1.5
    for name, model in (("reference", reference.eval()), ("candidate", candidate.eval())):
        with torch.no_grad(), fd.capture(model, tmp_path / name):
            model(x)
    found = fd.compare(tmp_path / "reference", tmp_path / "candidate", allow_missing=True, allow_extra=True)
    assert found.verdict == ("match" if layer is None else "mismatch")
    if found.first_divergence is not None:
        assert found.first_divergence.key in {f"layers.{layer}.{op}" for op in ("mul", "add", "softmax")}


class Part(nn.Module):  # type: ignore[misc]
    """A product, with the norm before it and the sum behind it or without."""

    def __init__(self, *, whole: bool) -> None:
        super().__init__()
        self.norm, self.fc, self.whole = nn.LayerNorm(16), nn.Linear(16, 16), whole

    def forward(self, x: Any) -> Any:
        return x + self.fc(self.norm(x)).tanh() if self.whole else self.fc(x).tanh()


class Parts(nn.Module):  # type: ignore[misc]
    def __init__(self, *, whole: bool) -> None:
        super().__init__()
        self.name, self.whole = "ffn" if whole else "mlp", whole
        self.layers = nn.ModuleList(nn.ModuleDict({self.name: Part(whole=whole)}) for _ in range(2))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            part = layer[self.name]
            x = part(x) if self.whole else x + part(part.norm(x))
        return x.sin()


@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_a_part_that_holds_its_norm_is_another_way_of_writing(tmp_path: Path, eps: float) -> None:
    torch.manual_seed(3)
    reference, candidate, x = Parts(whole=False), Parts(whole=True), torch.randn(2, 6, 16)
    candidate.load_state_dict({name.replace("mlp", "ffn"): value for name, value in reference.state_dict().items()})
    candidate.layers[1]["ffn"].norm.eps = eps
    for name, model in (("reference", reference), ("candidate", candidate)):
        with torch.no_grad(), fd.capture(model, tmp_path / name):
            model(x)
    found = fd.compare(tmp_path / "reference", tmp_path / "candidate", allow_missing=True, allow_extra=True)
    if eps == 1e-5:
        assert found.verdict == "match"
    else:
        assert found.first_divergence is not None
        assert found.first_divergence.key == "layers.1.mlp.norm"
