"""A two-layer transformer run whole, and by 2, 4 and 8 ranks that each hold a part of it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from torch.nn import functional

from firstdiff.align import layout_rule, solve_shards
from firstdiff.trace import ArraySource, Source

LAYERS, HEADS, HEAD, WIDTH, HIDDEN = 2, 8, 8, 64, 256
BATCH, TOKENS = 2, 10
Run = dict[str, list[torch.Tensor]]  # what each rank holds


@cache
def weights() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "o": (WIDTH, WIDTH)}
    shapes |= {"up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN)}
    return {
        f"{layer}.{name}": torch.randn(shape, generator=generator) / shape[1] ** 0.5
        for layer in range(LAYERS)
        for name, shape in shapes.items()
    }


def run(ranks: int) -> Run:
    """Column-parallel q, k, v and up, row-parallel o and down, an all-reduce after each of these."""
    taken: Run = {}
    x = torch.randn(BATCH, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))
    for layer in range(LAYERS):
        held = {
            name: weights()[f"{layer}.{name}"].chunk(ranks, 1 if name in ("o", "down") else 0)
            for name in ("q", "k", "v", "o", "up", "down")
        }
        taken |= {f"{layer}.{name}.weight": list(parts) for name, parts in held.items()}
        taken[f"{layer}.norm"] = [functional.layer_norm(x, (WIDTH,)) for _ in range(ranks)]
        heads = {
            name: [
                (seen @ held[name][rank].T).view(BATCH, TOKENS, HEADS // ranks, HEAD).transpose(1, 2)
                for rank, seen in enumerate(taken[f"{layer}.norm"])
            ]
            for name in ("q", "k", "v")
        }
        taken |= {f"{layer}.{name}": parts for name, parts in heads.items()}
        taken[f"{layer}.attended"] = [
            functional.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2)
            for parts in zip(heads["q"], heads["k"], heads["v"], strict=True)
        ]
        taken[f"{layer}.o"] = _times(taken[f"{layer}.attended"], held["o"])
        x = x + torch.stack(taken[f"{layer}.o"]).sum(0)
        taken[f"{layer}.middle"] = [x] * ranks
        taken[f"{layer}.up"] = [functional.gelu(part) for part in _times([x] * ranks, held["up"])]
        taken[f"{layer}.down"] = _times(taken[f"{layer}.up"], held["down"])
        x = x + torch.stack(taken[f"{layer}.down"]).sum(0)
        taken[f"{layer}.output"] = [x] * ranks
    return taken


def _times(inputs: list[torch.Tensor], held: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return [seen @ weight.T for seen, weight in zip(inputs, held, strict=True)]


def _sources(tensors: list[torch.Tensor]) -> list[Source]:
    return [ArraySource(tensor.contiguous().numpy()) for tensor in tensors]


def _expected(name: str, ranks: int) -> str:
    """Return the recipe that joins the ranks' tensors."""
    kind = name.partition(".")[2]
    if kind in ("norm", "middle", "output"):
        return f"reference: ... -> r={ranks} ...; candidate: stack()"
    if kind in ("o", "down"):
        return "sum()"
    if kind in ("q", "k", "v", "o.weight", "down.weight"):
        return "concat(axis=1)"
    return "concat(axis=0)" if kind.endswith("weight") else "concat(axis=2)"


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_what_the_ranks_hold_makes_up_the_whole_run(ranks: int) -> None:
    whole, parts = run(1), run(ranks)
    for name, reference in whole.items():
        references, candidates = _sources(reference), _sources(parts[name])
        solution = solve_shards(references, candidates)
        assert solution.fits, name
        assert str(solution.alignment) == _expected(name, ranks), name
        assert layout_rule(solution).may_match, name
        assert solution.coverage == 1.0
        assert solution.alignment is not None
        one, other = solution.alignment.apply(references, candidates)
        assert np.abs(one.view() - other.view()).max() < 1e-4, name


def test_a_rank_that_leaves_out_the_reduction_is_no_match() -> None:
    whole, parts = run(1), run(4)
    solution = solve_shards(_sources(whole["0.o"]), _sources(parts["0.o"][:3]))
    assert not solution.fits
