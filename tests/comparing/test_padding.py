"""Padding is not compared; values that padding leaks into are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import firstdiff as fd
from firstdiff.trace import Trace
from tests.capturing.models import captured

LENGTH, PADDED = 12, 4
SEEN = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril().repeat(2, 1, 1, 1)
SEEN[1, :, :, :PADDED] = False
VALUES = torch.randn(2, LENGTH, 32, generator=torch.Generator().manual_seed(0))


class Attention(nn.Module):
    """Attention by hand, in which a token that sees nothing gets the mean, or by the kernel, which gives 0."""

    def __init__(self, *, by_hand: bool) -> None:
        super().__init__()
        self.by_hand = by_hand
        self.project = nn.Linear(32, 96)
        self.out = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        query, key, value = (part.unsqueeze(1) for part in self.project(x).chunk(3, dim=-1))
        if self.by_hand:
            scores = query @ key.transpose(-1, -2) / 32**0.5 + mask
            mixed = scores.softmax(-1) @ value
        else:
            mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.out(mixed.squeeze(1))


class Model(nn.Module):
    def __init__(self, *, by_hand: bool, pooled: bool = False) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.by_hand, self.pooled = by_hand, pooled
        self.attention = Attention(by_hand=by_hand)
        self.head = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(SEEN.shape).masked_fill(~SEEN, torch.finfo(torch.float32).min) if self.by_hand else SEEN
        hidden = self.attention(x, mask=mask)
        return self.head(hidden.mean(1) if self.pooled else hidden)


def run(path: Path, **options: bool) -> Trace:
    return captured(Model(**options), path, VALUES, params="all")


def test_kernels_may_disagree_about_tokens_that_see_nothing(tmp_path: Path) -> None:
    found = fd.compare(run(tmp_path / "r", by_hand=True), run(tmp_path / "c", by_hand=False))
    assert found.verdict == "match"
    head = next(pair for pair in found.pairs if pair.key == "head")
    assert head.reason == "4 tokens that the mask lets see nothing are not compared"


def test_an_error_in_any_other_token_is_found(tmp_path: Path) -> None:
    wrong = Model(by_hand=False)
    wrong.head.bias.data[3] += 0.01
    candidate = captured(wrong, tmp_path / "c", VALUES, params="all")
    found = fd.compare(run(tmp_path / "r", by_hand=True), candidate)
    assert found.first_divergence is not None
    assert found.first_divergence.key == "head"


def test_what_padding_reaches_differs(tmp_path: Path) -> None:
    found = fd.compare(run(tmp_path / "r", by_hand=True, pooled=True), run(tmp_path / "c", by_hand=False, pooled=True))
    assert found.first_divergence is not None
    assert found.first_divergence.key in ("root.mean", "head:in.0")


class Positions(nn.Module):
    """Tokens with a place each, counted from the first that is given; a decoder hands the places on."""

    def __init__(self, *, learned: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.learned = learned
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(50, 16)
        self.head = Head()

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1]) + 0
        x = self.words(ids) * mask[..., None]
        return self.head(x + self.places(places) if self.learned else x, places)


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return self.out(x)


@pytest.mark.parametrize(("learned", "verdict"), [(False, "match"), (True, "mismatch")])
def test_places_counted_from_the_padding_are_wrong_only_if_they_matter(
    tmp_path: Path, learned: bool, verdict: str
) -> None:
    ids = torch.tensor([[4, 9, 2, 33, 7, 7, 49]])
    left = functional.pad(ids, (3, 0))
    sides = [
        captured(Positions(learned=learned), tmp_path / name, given, (given > 0).long())
        for name, given in (("r", ids), ("c", left))
    ]
    found = fd.compare(*sides, allow_partial=True)
    assert found.verdict == verdict
    places = next(pair for pair in found.pairs if pair.key == "head:in.1")
    assert places.status == verdict
    assert learned or "counts from the first token" in (places.reason or "")
