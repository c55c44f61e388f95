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
