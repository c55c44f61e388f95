"""Modules that hold the same weights are one, whatever they are called and compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import firstdiff as fd
from firstdiff.pairing import pair_up
from firstdiff.readers import open_trace

torch = pytest.importorskip("torch")
nn = torch.nn


def pairs(folder: Path, reference: Any, candidate: Any, x: Any) -> dict[str, tuple[str, ...]]:
    for name, model in (("reference", reference), ("candidate", candidate)):
        with torch.no_grad(), fd.capture(model.eval(), folder / name):
            model(x)
    result = pair_up(open_trace(folder / "reference"), open_trace(folder / "candidate"))
    sides = result.reference.tensors, result.candidate.tensors
    return {
        " + ".join(str(sides[0][at].key) for at in match.reference): tuple(
            str(sides[1][at].key) for at in match.candidate
        )
        for match in result.pairs
    }


class Stem(nn.Module):  # type: ignore[misc]
    """Patches of an image by a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 10, 4, stride=4)
        self.head = nn.Linear(10, 5)

    def forward(self, x: Any) -> Any:
        return self.head(self.conv(x).flatten(2).transpose(1, 2))


class Cut(nn.Module):  # type: ignore[misc]
    """The same by a product of patches, whose pixels may be in the wrong order."""

    def __init__(self, source: Stem, order: str) -> None:
        super().__init__()
        self.inner = nn.Linear(48, 10)
        self.inner.load_state_dict(
            {"weight": source.conv.weight.flatten(1), "bias": source.conv.bias},
        )
        self.out = nn.Linear(10, 5)
        self.out.load_state_dict(source.head.state_dict())
        self.order = order

    def forward(self, x: Any) -> Any:
        cut = x.unfold(2, 4, 4).unfold(3, 4, 4)
        patches = cut.permute(0, 2, 3, 1, 4, 5) if self.order == "right" else cut.permute(0, 3, 2, 1, 5, 4)
        return self.out(self.inner(patches.flatten(3).flatten(1, 2)))


@pytest.mark.parametrize("order", ["right", "wrong"])
def test_what_goes_into_modules_of_equal_weights_is_a_pair(tmp_path: Path, order: str) -> None:
    torch.manual_seed(0)
    stem = Stem()
    found = pairs(tmp_path, stem, Cut(stem, order), torch.randn(2, 3, 8, 8))
    assert found["conv:in.0"] == ("inner:in.0",)
    assert found["conv"] == ("inner",)
    assert found["head"] == ("out",)


class Parted(nn.Module):  # type: ignore[misc]
    """Three products of one input."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = nn.Linear(12, 12), nn.Linear(12, 6), nn.Linear(12, 6)

    def forward(self, x: Any) -> Any:
        x = torch.tanh(x)
        return torch.cat([self.one(x).sigmoid(), self.two(x) * self.three(x)], -1)


class Joined(nn.Module):  # type: ignore[misc]
    """The same by one product, whose rows stand part by part or two by two."""

    def __init__(self, source: Parted, by_twos: bool, off: float) -> None:
        super().__init__()
        parts = source.one, source.two, source.three
        self.all = nn.Linear(12, 24)
        order = torch.arange(24)
        if by_twos:
            order = torch.cat([torch.arange(12).reshape(6, 2), torch.arange(12, 24).reshape(2, 6).T], 1).flatten()
        self.register_buffer("back", order.argsort(), persistent=False)
        weight, bias = (torch.cat([getattr(part, name) for part in parts])[order] for name in ("weight", "bias"))
        self.all.load_state_dict({"weight": weight, "bias": bias})
        self.off = off

    def forward(self, x: Any) -> Any:
        one, two, three = self.all(torch.tanh(x) + self.off)[..., self.back].split([12, 6, 6], -1)
        return torch.cat([one.sigmoid(), two * three], -1)


@pytest.mark.parametrize("off", [0.0, 0.3])
@pytest.mark.parametrize("by_twos", [False, True])
def test_a_product_that_does_the_work_of_several_is_paired_with_all(tmp_path: Path, by_twos: bool, off: float) -> None:
    torch.manual_seed(2)
    source = Parted()
    found = pairs(tmp_path, source, Joined(source, by_twos, off), torch.randn(3, 5, 12))
    parts = "one.weight:param + two.weight:param + three.weight:param"
    assert found[parts] == ("all.weight:param",)
    assert found["one + two + three"] == ("all",)
    assert found["one.bias:param + two.bias:param + three.bias:param"] == ("all.bias:param",)
    assert found["one:in.0"] == ("all:in.0",)


class Flat(nn.Module):  # type: ignore[misc]
    """A block and a norm as functions of plain parameters; the norm and the product may be written out."""

    def __init__(self, source: Any, *, written_out: bool, eps: float) -> None:
        super().__init__()
        self.p = nn.ParameterDict({name.replace(".", "_"): value for name, value in source.named_parameters()})
        self.written_out, self.eps = written_out, eps

    def forward(self, x: Any) -> Any:
        p = self.p
        if self.written_out:
            y = x - x.mean(-1, keepdim=True)
            y = y / (y.square().mean(-1, keepdim=True) + self.eps).sqrt() * p["0_weight"] + p["0_bias"]
            y = torch.tanh(y @ p["1_0_weight"].T + p["1_0_bias"])
        else:
            y = nn.functional.layer_norm(x, (20,), p["0_weight"], p["0_bias"], self.eps)
            y = torch.tanh(nn.functional.linear(y, p["1_0_weight"], p["1_0_bias"]))
        return nn.functional.linear(y, p["2_weight"])


@pytest.mark.parametrize("eps", [1e-5, 0.5])
@pytest.mark.parametrize(("written_out", "outputs"), [(False, ("layer_norm", "linear")), (True, ("add@1", "add@2"))])
def test_functions_are_paired_by_the_parameters_they_use(
    tmp_path: Path, written_out: bool, outputs: tuple[str, str], eps: float
) -> None:
    torch.manual_seed(3)
    source = nn.Sequential(nn.LayerNorm(20), nn.Sequential(nn.Linear(20, 20), nn.Tanh()), nn.Linear(20, 7, bias=False))
    for parameter in source.parameters():
        nn.init.normal_(parameter)
    found = pairs(tmp_path, source, Flat(source, written_out=written_out, eps=eps), torch.randn(3, 5, 20))
    assert found["0"] == (f"root.{outputs[0]}",)
    assert found["1.0"] == (f"root.{outputs[1]}",)


def test_what_functions_of_equal_parameters_are_given_is_a_pair(tmp_path: Path) -> None:
    class Shifted(nn.Module):  # type: ignore[misc]
        def __init__(self, shift: float) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(20)
            self.shift = shift

        def forward(self, x: Any) -> Any:
            return self.norm(torch.sin(x) + self.shift * x)

    class Function(Shifted):
        def forward(self, x: Any) -> Any:
            moved = torch.sin(x) + self.shift * x
            return nn.functional.layer_norm(moved, (20,), self.norm.weight, self.norm.bias)

    torch.manual_seed(4)
    source, port = Shifted(1.0), Function(0.3)
    nn.init.normal_(source.norm.weight)
    nn.init.normal_(source.norm.bias)
    port.norm.load_state_dict(source.norm.state_dict())
    found = pairs(tmp_path, source, port, torch.randn(3, 5, 20))
    assert found["root.add"] == ("root.add",)
    assert found["norm"] == ("root.layer_norm",)


def test_a_bias_that_is_added_to_a_sum_ends_no_product(tmp_path: Path) -> None:
    class Residual(nn.Module):  # type: ignore[misc]
        def __init__(self, *, written_out: bool) -> None:
            super().__init__()
            self.inner, self.head = nn.Linear(20, 20), nn.Linear(20, 20)
            self.written_out = written_out

        def forward(self, x: Any) -> Any:
            y = torch.tanh(x)
            if self.written_out:  # from left to right
                return self.head(x + y @ self.inner.weight.T + self.inner.bias)
            return self.head(x + self.inner(y))

    torch.manual_seed(5)
    source, port = Residual(written_out=False), Residual(written_out=True)
    port.load_state_dict(source.state_dict())
    found = pairs(tmp_path, source, port, torch.randn(3, 5, 20))
    assert "inner" not in found
    assert found["root.add"] == ("root.add@1",)


def test_a_convolution_of_width_one_does_the_work_of_several_products(tmp_path: Path) -> None:
    class Products(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(12, 12), nn.Linear(12, 12)

        def forward(self, x: Any) -> Any:
            return torch.tanh(self.one(x)) * self.two(x)

    class Convolution(nn.Module):  # type: ignore[misc]
        def __init__(self, source: Products, cut: int) -> None:
            super().__init__()
            self.both = nn.Conv1d(12, 24, 1)
            weights = (
                torch.cat([getattr(part, name) for part in (source.two, source.one)]) for name in ("weight", "bias")
            )
            self.both.weight.data, self.both.bias.data = (
                value[..., None] if value.ndim == 2 else value for value in weights
            )
            self.cut = cut

        def forward(self, x: Any) -> Any:
            two, one = self.both(x.transpose(1, 2)).roll(self.cut, 1).chunk(2, 1)
            return (torch.tanh(one) * two).transpose(1, 2)

    torch.manual_seed(6)
    source = Products()
    found = pairs(tmp_path, source, Convolution(source, cut=3), torch.randn(3, 5, 12))
    assert found["two + one"] == ("both",)
