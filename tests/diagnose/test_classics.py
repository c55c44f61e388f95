"""Common porting mistakes, each diagnosed by its cause code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

import firstdiff as fd
from tests.diagnose.pairs import assert_first, compared, randn

RNG = np.random.default_rng(0)
VALUES = RNG.standard_normal((2, 12, 32)).astype("f4")


def causes(reference: np.ndarray, candidate: np.ndarray, name: str = "x", **options: str) -> list[str]:
    return [one.cause for one in fd.compare({name: reference}, {name: candidate}, **options).diagnosis]  # type: ignore[arg-type]


def test_sequence_and_width_exchanged_is_a_transpose() -> None:
    square = RNG.standard_normal((2, 16, 16)).astype("f4")
    assert causes(square, square.swapaxes(1, 2).copy())[0] == "layout.transpose"
    assert causes(VALUES, VALUES.swapaxes(1, 2).copy(), layout="strict")[0] == "layout.transpose"


def test_off_by_a_thousandth_behind_a_norm_is_its_eps(tmp_path: Path) -> None:
    reference, candidate = nn.LayerNorm(32, eps=1e-5), nn.LayerNorm(32, eps=1e-4)
    found = compared(reference, candidate, [0.2 * randn(2, 9, 32)], tmp_path)
    assert_first(found, "norm.eps")


def test_off_by_half_is_the_normalisation_by_mean_and_deviation() -> None:
    image = RNG.random((1, 3, 16, 16)).astype("f4")
    mean, std = np.array([0.485, 0.456, 0.406], "f4"), np.array([0.229, 0.224, 0.225], "f4")
    normalised = (image - mean.reshape(3, 1, 1)) / std.reshape(3, 1, 1)
    assert causes(normalised, image)[0] == "normalise.mean_std"
    assert causes(2 * image - 1, image)[0] == "normalise.mean_std"


def test_all_zeros_is_the_activation(tmp_path: Path) -> None:
    x = [-1.0 - randn(2, 9, 32).abs()]
    found = compared(nn.GELU(), nn.ReLU(), x, tmp_path)
    assert not np.asarray(found.pairs[-1].candidate.statistics.max).any()  # type: ignore[union-attr]
    assert_first(found, "activation.kind", 0.3)
    assert causes(VALUES, np.zeros_like(VALUES))[0] == "values.zero"


def test_nan_and_inf_are_an_overflow_to_compute_in_fp32() -> None:
    large = (3e4 * VALUES).astype("f4")
    with np.errstate(over="ignore"):
        narrow = large.astype(np.float16).astype("f4")
    assert np.isinf(narrow).any()
    found = fd.compare({"x": large}, {"x": narrow})
    assert found.diagnosis[0].cause == "overflow"
    assert "32" in found.diagnosis[0].fix


def test_wrong_tokens_are_the_tokenizer_or_the_vocabulary() -> None:
    ids = RNG.integers(0, 500, (1, 40))
    other = ids.copy()
    other[0, 7] += 1
    assert causes(ids, other, "input_ids")[0] == "ids.mismatch"


def test_clicks_in_sound_are_the_window_of_overlapped_frames(tmp_path: Path) -> None:
    class Synthesis(nn.Module):
        def __init__(self, window: torch.Tensor) -> None:
            super().__init__()
            self.register_buffer("window", window)

        def forward(self, frames: torch.Tensor) -> torch.Tensor:
            return frames * self.window

    frames = [randn(1, 20, 64)]
    found = compared(Synthesis(torch.hann_window(64)), Synthesis(torch.ones(64)), frames, tmp_path)
    assert "audio.window" in [one.cause for one in found.diagnosis[:3]]
