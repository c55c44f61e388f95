from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from firstdiff.ops import Replayed, reproduce
from firstdiff.ops.rotary import apply_rotary, frequencies, rotary_tables
from tests.ops.captured import assert_reproduced, operation
from tests.ops.oracle import values


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
