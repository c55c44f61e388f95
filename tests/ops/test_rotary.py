"""Rotary embeddings against torch, and as modules record them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from firstdiff.ops import Replayed, reproduce
from firstdiff.ops.rotary import apply_rotary, frequencies, rotary, rotary_tables
from tests.ops.captured import assert_reproduced, operation
from tests.ops.oracle import assert_agrees, double, dtypes, seeds, values


def turned(x: torch.Tensor, angles: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """By complex numbers: each pair is one, and turning is a product."""
    half = x.shape[-1] // 2
    first, second = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    product = torch.complex(first, second) * torch.polar(torch.ones_like(angles), angles)
    if interleaved:
        return torch.stack([product.real, product.imag], -1).flatten(-2)
    return torch.cat([product.real, product.imag], -1)


@settings(max_examples=60)
@given(
    seed=seeds,
    tokens=st.integers(0, 9),
    pairs=st.integers(1, 5),
    extra=st.integers(0, 3),
    base=st.sampled_from([100.0, 10000.0, 500000.0]),
    offset=st.sampled_from([0, 1, 4096]),
    factor=st.sampled_from([1.0, 4.0]),
    interleaved=st.booleans(),
    dtype=dtypes,
)
def test_rotary_turns_pairs_as_complex_numbers_do(
    seed: int,
    tokens: int,
    pairs: int,
    extra: int,
    base: float,
    offset: int,
    factor: float,
    interleaved: bool,
    dtype: np.dtype,
) -> None:
    size = 2 * pairs
    x = values(seed, 2, 3, tokens, size + extra, dtype=dtype)
    places = (torch.arange(tokens, dtype=torch.float64) + offset) / factor
    speed = base ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    wanted = torch.cat([turned(double(x)[..., :size], places[:, None] * speed, interleaved), double(x)[..., size:]], -1)
    layout = "interleaved" if interleaved else "half"
    how = {"base": base, "offset": offset, "factor": factor, "layout": layout, "size": size}
    assert_agrees(rotary(x, **how), wanted, 1e-11)
    assert_agrees(rotary(rotary(x, **how), inverse=True, **how), double(x), 1e-11)


def test_the_axis_of_the_tokens_may_lie_elsewhere() -> None:
    x = values(1, 2, 5, 3, 8)
    np.testing.assert_array_equal(rotary(x, axis=1), rotary(x.swapaxes(1, 2)).swapaxes(1, 2))


def test_positions_may_be_given() -> None:
    x = values(1, 3, 8)
    np.testing.assert_array_equal(rotary(x, np.array([4, 5, 6])), rotary(x, offset=4))
    np.testing.assert_array_equal(rotary(x, np.array([2, 0, 1]))[1], x[1])


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_tables_of_one_number_a_pair_do_as_well(layout: str) -> None:
    x, places = values(1, 2, 5, 8), np.arange(5)
    cos, sin = rotary_tables(places, frequencies(8), layout=layout)
    angles = places[:, None] * frequencies(8)
    short = apply_rotary(x, np.cos(angles), np.sin(angles), layout=layout)
    np.testing.assert_allclose(short, apply_rotary(x, cos, sin, layout=layout), rtol=1e-15)


def test_tables_without_an_axis_of_heads() -> None:
    x = values(1, 2, 3, 5, 8)
    cos, sin = rotary_tables(np.stack([np.arange(5), np.arange(5) + 2]), frequencies(8))
    found = apply_rotary(x, cos, sin, heads_axis=1)
    np.testing.assert_array_equal(found[1], rotary(x[1], offset=2))


def test_scaling_stretches_both_tables() -> None:
    once, twice = (rotary_tables(np.arange(3), frequencies(4), scaling=scaling) for scaling in (1.0, 2.0))
    np.testing.assert_array_equal(twice, 2 * np.array(once))


def test_layouts_have_two_names() -> None:
    with pytest.raises(ValueError, match="layout is 'neox'"):
        rotary(np.zeros((2, 4)), layout="neox")


class OurRotaryEmbedding(nn.Module):
    def __init__(self, interleaved: bool) -> None:
        super().__init__()
        self._interleaved = interleaved
        self.attention_scaling = 1.2
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, 8, 2) / 8))

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        angles = position_ids[..., None].float() * self.inv_freq
        twice = angles.repeat_interleave(2, -1) if self._interleaved else torch.cat([angles, angles], -1)
        return twice.cos() * self.attention_scaling, twice.sin() * self.attention_scaling


@pytest.mark.parametrize("interleaved", [False, True])
def test_modules_that_make_the_tables(tmp_path: Path, interleaved: bool) -> None:
    found = operation(OurRotaryEmbedding(interleaved), tmp_path, torch.zeros(1, 6, 8), torch.arange(6)[None] + 3)
    layout = "interleaved" if interleaved else "half"
    assert_reproduced(found, "rotary_tables", layout=layout, scaling=1.2)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("heads_axis", [1, 2])
def test_functions_that_apply_them(layout: str, told: bool, heads_axis: int) -> None:
    x = values(1, 2, 3, 3, 8, dtype=np.dtype(np.float32))
    cos, sin = rotary_tables(np.stack([np.arange(3), np.arange(3) + 2]), frequencies(8), layout=layout)
    output = apply_rotary(x, cos, sin, layout=layout, heads_axis=heads_axis).astype(np.float32)
    attrs = {"interleaved": layout == "interleaved"} if told else {}
    again = reproduce("apply_rotary_pos_emb", attrs, {"q": x, "cos": cos, "sin": sin}, {}, {"0": output})
    assert isinstance(again, Replayed)
    assert (again.settings["layout"], again.settings["heads_axis"]) == (layout, heads_axis)
    assert again.plan.assumed == (("heads_axis",) if told else ("layout", "heads_axis"))
