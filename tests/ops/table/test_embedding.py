from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from firstdiff.ops import NotReplayable
from tests.ops.captured import assert_reproduced, operation

IDS = torch.tensor([[1, 4, 2], [0, 0, 6]])


class ScaledWordEmbedding(nn.Embedding):
    def __init__(self) -> None:
        super().__init__(7, 4)
        self.embed_scale = 2.0

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return super().forward(ids) * self.embed_scale


class PositionalEmbedding(nn.Embedding):
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.weight[: ids.shape[-1]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_come_out_exactly(tmp_path: Path, dtype: torch.dtype) -> None:
    again = assert_reproduced(operation(nn.Embedding(7, 4, padding_idx=0).to(dtype), tmp_path, IDS), "embedding")
    assert again.residual == 0


def test_a_scale_in_an_attribute_is_found(tmp_path: Path) -> None:
    assert_reproduced(operation(ScaledWordEmbedding(), tmp_path, IDS), "embedding", scale=2.0)


def test_positions_are_not_taken_for_rows(tmp_path: Path) -> None:
    assert isinstance(operation(PositionalEmbedding(7, 4), tmp_path, IDS).reproduce(), NotReplayable)
