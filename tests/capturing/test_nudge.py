from __future__ import annotations

import pytest
import torch
from torch import nn

from firstdiff.capturing.noise_floor import in_float64, moved_by_one_ulp, nudged, nudged_embeddings


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_element_moves_to_a_neighbour(dtype: torch.dtype) -> None:
    x = torch.tensor([1.0, -1.0, 3e4, 1e-6, -7.25] * 20).to(dtype)
    moved = nudged(x)
    assert moved.dtype == dtype
    carrier = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    steps = moved.view(carrier) - x.view(carrier)
    assert set(steps.tolist()) == {-1, 1}
    assert torch.equal(moved, nudged(x)), "always the same pattern"


def test_what_cannot_move_stays() -> None:
    x = torch.tensor([0.0, float("inf"), float("-inf"), torch.finfo(torch.float32).max] * 8)
    moved = nudged(x)
    assert torch.equal(moved[x != torch.finfo(torch.float32).max], x[x != torch.finfo(torch.float32).max])
    assert torch.isfinite(moved[3::4]).all()
    assert torch.isnan(nudged(torch.tensor([float("nan")]))).all()


def test_global_random_numbers_are_not_drawn() -> None:
    state = torch.get_rng_state()
    nudged(torch.ones(100))
    assert torch.equal(torch.get_rng_state(), state)


def test_only_floating_inputs_change() -> None:
    ids, x = torch.tensor([1, 2]), torch.ones(3)
    args, kwargs = moved_by_one_ulp(((ids, [x]), {"more": {"x": x}, "flag": True}))
    assert torch.equal(args[0], ids)
    assert not torch.equal(args[1][0], x)
    assert not torch.equal(kwargs["more"]["x"], x)
    assert kwargs["flag"] is True
    (doubled,), _ = in_float64(((x,), {}))
    assert doubled.dtype == torch.float64


def test_embeddings_are_moved_for_a_while() -> None:
    model = nn.Sequential(nn.Embedding(5, 4))
    ids = torch.tensor([1, 2])
    plain = model(ids)
    with nudged_embeddings(model) as count:
        assert count == 1
        assert (model(ids) != plain).all()
    assert torch.equal(model(ids), plain)
