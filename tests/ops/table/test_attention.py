from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.ops.captured import Operation, assert_reproduced, function_call, operations

G = torch.Generator().manual_seed(1)
Q, KV = torch.randn(2, 4, 6, 8, generator=G), torch.randn(2, 2, 6, 8, generator=G)
X = torch.randn(2, 6, 16, generator=G)
SEEN = torch.rand(2, 1, 6, 6, generator=G) < 0.7
SEEN[0, 0, 2] = False  # a query that sees nothing
HIDDEN = torch.rand(6, 6, generator=G) < 0.3

sdpa = functional.scaled_dot_product_attention


@pytest.mark.parametrize(
    "function",
    [
        lambda q, k: sdpa(q, q, q),
        lambda q, k: sdpa(q, q * 2, q, is_causal=True, scale=0.3),
        lambda q, k: sdpa(q, q, q, SEEN),
        lambda q, k: sdpa(q, q, q, attn_mask=torch.where(SEEN, 0.0, float("-inf")).to(q.dtype)),
        lambda q, k: sdpa(q, k, k, enable_gqa=True, is_causal=True),
        lambda q, k: sdpa(q[:, :, :3], q, q),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_by_function(tmp_path: Path, function: Callable[..., Any], dtype: torch.dtype) -> None:
    assert_reproduced(function_call(function, tmp_path, Q.to(dtype), KV.to(dtype)), "attention")


def test_the_scale_is_a_number_also_where_it_was_left_out(tmp_path: Path) -> None:
    assert_reproduced(function_call(lambda q: sdpa(q, q, q), tmp_path, Q), "attention", scale=1 / 8**0.5)


def multi_head(path: Path, module: nn.Module, *args: Any, **kwargs: Any) -> Operation:
    return next(found for found in operations(module, path, *args, **kwargs) if found.name == "root")


@pytest.mark.filterwarnings("ignore::firstdiff.capturing.CaptureWarning")
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"attn_mask": HIDDEN},
        {"attn_mask": torch.where(HIDDEN, -1e4, 0.0)},
        {"key_padding_mask": torch.tensor([[False] * 6, [False] * 4 + [True] * 2])},
        {"key_padding_mask": torch.tensor([[False] * 6, [True] * 6]), "attn_mask": HIDDEN},
        {"need_weights": False},
        {"average_attn_weights": False},
        {"attn_mask": HIDDEN.repeat(8, 1, 1)},
    ],
)
@pytest.mark.parametrize("batch_first", [False, True])
def test_multi_head_attention_of_torch(tmp_path: Path, how: dict[str, Any], batch_first: bool) -> None:
    module = nn.MultiheadAttention(16, 4, batch_first=batch_first).eval()
    x = X if batch_first else X.transpose(0, 1)
    assert_reproduced(multi_head(tmp_path, module, x, x, x, **how), "multi_head_attention", heads=4)


@pytest.mark.filterwarnings("ignore::firstdiff.capturing.CaptureWarning")
def test_keys_and_values_of_other_sizes(tmp_path: Path) -> None:
    module = nn.MultiheadAttention(16, 4, kdim=8, vdim=12, batch_first=True, bias=False).eval()
    found = multi_head(tmp_path, module, X, X[..., :8].contiguous(), X[..., :12].contiguous())
    assert_reproduced(found, "multi_head_attention")


@pytest.mark.filterwarnings("ignore::firstdiff.capturing.CaptureWarning")
def test_without_a_batch(tmp_path: Path) -> None:
    module = nn.MultiheadAttention(16, 4).eval()
    assert_reproduced(multi_head(tmp_path, module, X[0], X[0], X[0]), "multi_head_attention")
