"""Rewrites inside a module: set apart if the module's outputs agree, counted as differences otherwise."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import firstdiff as fd
from firstdiff.schema import Comparison

torch = pytest.importorskip("torch")


class Attention(torch.nn.Module):  # type: ignore[misc]
    """Attention as one writes it out, or as one function.

    scaled: whether the scores are divided by the root of the width
    """

    def __init__(self, *, fused: bool, scaled: bool = True) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(16, 48)
        self.drop = torch.nn.Dropout(0.1)
        self.fused, self.scaled = fused, scaled

    def forward(self, x: Any, mask: Any = None) -> Any:
        query, key, value = self.qkv(x).chunk(3, -1)
        if self.fused:
            scale = 0.25 if self.scaled else 1.0
            return torch.nn.functional.scaled_dot_product_attention(
                query, key, value, is_causal=True, scale=scale
            ), None
        scores = query @ key.transpose(-1, -2)
        if self.scaled:
            scores = scores / 4.0
        seen = torch.softmax(scores + mask, -1)
        return self.drop(seen) @ value, seen


class Block(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, *, residual: bool = True, **options: Any) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.attention = Attention(**options)
        self.residual = residual

    def forward(self, x: Any, mask: Any = None) -> Any:
        out, seen = self.attention(self.norm(x), mask)
        out = x + out if self.residual else out
        return out, seen


class Model(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.block = Block(**options)
        self.head = torch.nn.Linear(16, 8)
        self.fused = options["fused"]

    def forward(self, x: Any) -> Any:
        mask = None if self.fused else torch.full((6, 6), float("-inf")).triu(1)
        return self.head(self.block(x, mask)[0])


def recorded(
    path: Path, dtype: Any = None, *, include: Sequence[str] = (), params: Any = "auto", **options: Any
) -> Path:
    """Record one run; all models have the same weights and inputs."""
    torch.manual_seed(0)
    model = Model(**options).eval()
    x = torch.randn(2, 6, 16)
    if dtype is not None:
        model, x = model.to(dtype), x.to(dtype)
    with torch.no_grad(), fd.capture(model, path, include=include, params=params):
        model(x)
    return path


def statuses(comparison: Comparison) -> dict[str, str]:
    return {pair.key: pair.status for pair in comparison.pairs}


@pytest.fixture(scope="module")
def eager(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("eager") / "eager.trace", fused=False)


def test_another_way_of_writing_attention_is_set_apart_and_matches(eager: Path, tmp_path: Path) -> None:
    comparison = fd.compare(eager, recorded(tmp_path / "fused.trace", fused=True))
    apart = {key for key, status in statuses(comparison).items() if status == "rewritten"}
    assert comparison.verdict == "match"
    assert comparison.summary.missing == comparison.summary.extra == 0
    assert comparison.summary.rewritten == len(apart)
    # functions, a module without weights, a mask that is handed down, weights that nothing uses
    assert {"block.attention.softmax", "block.attention.drop", "block:in.1", "block:out.1"} <= apart
    reason = next(pair.reason for pair in comparison.pairs if pair.key == "block.attention.softmax")
    assert reason == (
        "only the reference has it: block.attention is written differently, "
        "and what goes in and comes out of it matches"
    )


def test_strict_functions_counts_it(eager: Path, tmp_path: Path) -> None:
    fused = recorded(tmp_path / "fused.trace", fused=True)
    comparison = fd.compare(eager, fused, strict_functions=True)
    assert comparison.verdict == "mismatch"
    assert comparison.summary.rewritten == 0
    assert comparison.summary.missing > 0
    assert comparison.settings["strict_functions"] is True
    fd.assert_match(eager, fused)
    with pytest.raises(AssertionError, match=r"block\.attention\.softmax: missing"):
        fd.assert_match(eager, fused, strict_functions=True)


def test_the_same_in_half_precision_matches(eager: Path, tmp_path: Path) -> None:
    assert fd.compare(eager, recorded(tmp_path / "half.trace", torch.bfloat16, fused=True)).verdict == "match"


@pytest.mark.parametrize("fault", [{"residual": False}, {"scaled": False}])
def test_a_fault_is_not_excused_by_another_way_of_writing(eager: Path, tmp_path: Path, fault: dict[str, bool]) -> None:
    comparison = fd.compare(eager, recorded(tmp_path / "wrong.trace", fused=True, **fault))
    assert comparison.verdict == "mismatch"
    assert statuses(comparison)["block"] == "mismatch"


def test_a_missing_function_counts_where_its_module_differs(eager: Path, tmp_path: Path) -> None:
    comparison = fd.compare(eager, recorded(tmp_path / "wrong.trace", fused=False, residual=False))
    assert statuses(comparison)["block.add"] == "missing"
    assert comparison.summary.rewritten == 0


def test_nothing_is_excused_in_a_module_whose_outputs_were_not_recorded(eager: Path, tmp_path: Path) -> None:
    parts = ["*norm*", "*qkv*", "*softmax*", "*matmul*", "head*", "root*"]
    whole = recorded(tmp_path / "parts.trace", fused=False, include=parts)
    fused = recorded(tmp_path / "fused.trace", fused=True, include=parts)
    comparison = fd.compare(whole, fused)
    assert statuses(comparison)["block.attention.softmax"] == "missing"
    assert comparison.verdict == "mismatch"


def test_an_output_of_the_model_itself_is_never_unused(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 6, 16)
    for fused in (False, True):
        torch.manual_seed(1)
        model = Attention(fused=fused).eval()
        with torch.no_grad(), fd.capture(model, tmp_path / f"{fused}.trace"):
            model(x, torch.full((6, 6), float("-inf")).triu(1))
    comparison = fd.compare(tmp_path / "False.trace", tmp_path / "True.trace")
    assert comparison.verdict == "mismatch"
    assert statuses(comparison)["root:out.1"] == "missing"


class Norm(torch.nn.Module):  # type: ignore[misc]
    """RMS norm, by a product or by a quotient; `mul` is its last function or its first."""

    def __init__(self, *, product: bool, eps: float = 1e-6) -> None:
        super().__init__()
        self.product, self.eps = product, eps

    def forward(self, x: Any) -> Any:
        if self.product:
            return torch.mul(x, torch.rsqrt(torch.mean(torch.pow(x, 2), -1, keepdim=True) + self.eps))
        return torch.div(x, torch.sqrt(torch.mean(torch.mul(x, x), -1, keepdim=True) + self.eps))


@pytest.mark.parametrize(("eps", "verdict"), [(1e-6, "match"), (0.1, "mismatch")])
def test_functions_of_one_name_that_do_other_things_are_set_apart(tmp_path: Path, eps: float, verdict: str) -> None:
    x = torch.randn(4, 32, generator=torch.Generator().manual_seed(0))
    for name, norm in (("product", Norm(product=True)), ("quotient", Norm(product=False, eps=eps))):
        with fd.capture(norm, tmp_path / f"{name}.trace"):
            norm(x)
    assert fd.compare(tmp_path / "product.trace", tmp_path / "quotient.trace").verdict == verdict


class Masked(torch.nn.Module):  # type: ignore[misc]
    """A model that makes its own mask and positions where it is given none; `deaf` ignores what it is given."""

    def __init__(self, *, cast: bool = False, deaf: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed = torch.nn.Embedding(10, 16)
        self.places = torch.nn.Embedding(10, 16)
        self.block = Block(fused=False)
        self.cast, self.deaf = cast, deaf

    def forward(self, ids: Any, mask: Any = None, positions: Any = None) -> Any:
        if mask is None or self.deaf:
            mask = torch.ones_like(ids)
        if positions is None or self.deaf:
            positions = torch.arange(ids.shape[1])[None]
        seen = mask.to(torch.float32) if self.cast else torch.mul(mask, 1.0)
        hidden = torch.mul(1.0 - seen, -1e9)[:, None, :]
        return self.block(self.embed(ids) + self.places(positions), hidden)[0]


IDS = torch.tensor([[5, 9, 2, 7, 4, 8]])
SEEN = torch.tensor([[1, 1, 1, 1, 1, 0]])


def masked(path: Path, *given: Any, **options: Any) -> Path:
    with torch.no_grad(), fd.capture(model := Masked(**options).eval(), path):
        model(IDS, *given)
    return path


@pytest.mark.parametrize("cast", [False, True])
def test_what_one_side_is_given_and_the_other_makes_by_itself_is_set_apart(tmp_path: Path, *, cast: bool) -> None:
    alone = masked(tmp_path / "alone.trace", cast=cast)
    given = masked(tmp_path / "given.trace", torch.ones_like(IDS), torch.arange(6)[None], cast=cast)
    for sides in ((alone, given), (given, alone)):
        comparison = fd.compare(*sides)
        assert comparison.verdict == "match"
        assert {key for key, status in statuses(comparison).items() if status == "rewritten"} >= {
            "root:in.1",
            "root:in.2",
        }
        assert fd.compare(*sides, strict_functions=True).verdict == "mismatch"


@pytest.mark.parametrize("cast", [False, True])
@pytest.mark.parametrize("given", [(SEEN,), (None, torch.arange(6)[None] + 1)])
def test_another_mask_or_position_than_the_models_own_counts(
    tmp_path: Path, given: tuple[Any, ...], *, cast: bool
) -> None:
    alone = masked(tmp_path / "alone.trace", cast=cast)
    other = masked(tmp_path / "other.trace", *given, cast=cast)
    comparison = fd.compare(alone, other)
    assert comparison.verdict == "mismatch"
    assert comparison.summary.mismatch
    assert comparison.summary.extra
    # the same, seen by a model that ignores what it is given, has no row to be excused by
    deaf = fd.compare(other, masked(tmp_path / "deaf.trace", *given, cast=cast, deaf=True))
    assert deaf.verdict == "mismatch"
