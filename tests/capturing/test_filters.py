from __future__ import annotations

from pathlib import Path

import pytest
import torch

from firstdiff.capturing.session import Filters
from tests.capturing.models import captured, gpt, ids, keys


@pytest.mark.parametrize(
    ("include", "exclude", "wanted"),
    [
        ((), (), {"a", "a.b", "layers.0.attn", "layers.10.attn"}),
        (["a"], (), {"a"}),
        (["a*"], (), {"a", "a.b"}),
        ("layers.?.attn", (), {"layers.0.attn"}),
        (["*.attn", "a"], ["layers.1*"], {"a", "layers.0.attn"}),
        ((), ["*"], set()),
    ],
)
def test_globs_choose_by_name(include: list[str], exclude: list[str], wanted: set[str]) -> None:
    filters = Filters(include, exclude)
    assert {name for name in ("a", "a.b", "layers.0.attn", "layers.10.attn") if filters.wants(name, "output")} == wanted


def test_the_environment_narrows_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTDIFF_ONLY", " *.attn , wte,")
    filters = Filters(["layers.*"])
    assert filters.wants("layers.0.attn", "output")
    assert not filters.wants("layers.0.ln", "output")
    assert not filters.wants("wte", "output")


def test_filters_hold_for_modules_functions_and_parameters(tmp_path: Path) -> None:
    trace = captured(gpt(), tmp_path / "t", ids(), include=["layers.1.attn*"], exclude=["*.qkv*"])
    assert {tensor.name for tensor in trace} == {
        *("layers.1.attn", "layers.1.attn.chunk", "layers.1.attn.scaled_dot_product_attention"),
        *("layers.1.attn.out", "layers.1.attn.out.weight", "layers.1.attn.out.bias"),
    }


def test_roles_choose_by_role(tmp_path: Path) -> None:
    trace = captured(gpt(), tmp_path / "t", ids(), roles=["output", "param"])
    assert {tensor.record.role for tensor in trace} == {"output", "param"}


@pytest.mark.parametrize("tokens", [slice(2, 5), "2:5"])
def test_a_part_of_the_tokens_is_cut_from_the_sequence_axis(tokens: slice | str, tmp_path: Path) -> None:
    model, x = gpt(fused=False), ids(batch=2)
    whole = captured(model, tmp_path / "whole", x)
    part = captured(model, tmp_path / "part", x, tokens=tokens)
    assert keys(whole) == keys(part)
    for key, axis in (("root:in.0", 1), ("layers.0", 1), ("layers.0.attn.softmax", 2)):
        kept = part[key].values().read()
        assert (kept == whole[key].values().read()[(slice(None),) * axis + (slice(2, 5),)]).all()
        assert part[key].record.attrs["tokens"] == "2:5"
        assert part[key].record.attrs["tokens_axis"] == axis
        assert part[key].record.attrs["tokens_of"] == x.shape[1]
    weight = part["layers.0.ln_1.weight:param"]
    assert weight.values().shape == (32,)


def test_a_call_with_a_single_token_is_kept_whole(tmp_path: Path) -> None:
    trace = captured(gpt(), tmp_path / "t", ids(tokens=1), tokens=slice(4, 8))
    assert trace["root"].values().shape == (1, 1, 50)


def test_floats_are_stored_as_the_type_asked_for_and_integers_as_they_are(tmp_path: Path) -> None:
    trace = captured(gpt(), tmp_path / "t", ids(), dtype=torch.float16)
    assert trace["root:in.0"].values().dtype == "int64"
    assert trace["layers.0"].values().dtype == "float16"
    assert trace["layers.0"].record.attrs["dtype_was"] == "float32"
    assert trace["layers.1:in.0"].record.attrs["dtype_was"] == "float32"
