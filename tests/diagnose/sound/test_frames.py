"""Frames inside a model: cut at another hop, multiplied by another window, set down at another hop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import signal
from torch import nn

import firstdiff as fd
from firstdiff.diagnose.sound.frames import cut, hop_of, joined, looks_like_window, window_named
from firstdiff.schema import Diagnosis
from tests.audio.sounds import speech
from tests.diagnose.sound.planted import explained

SIZE = 64
VOICE = torch.from_numpy(speech(2048)[None] + speech(2048, 5)[None])


class Analysis(nn.Module):
    """The spectrum of frames under a window."""

    def __init__(self, hop: int = 16, window: torch.Tensor | None = None) -> None:
        super().__init__()
        self.hop = hop
        self.register_buffer("window", torch.hann_window(SIZE) if window is None else window)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        frames = wave.unfold(-1, SIZE, self.hop)[:, :100].clone()
        return torch.fft.rfft(frames * self.window).abs()


class Synthesis(nn.Module):
    """Frames set down one after the other."""

    def __init__(self, hop: int = 16, window: torch.Tensor | None = None) -> None:
        super().__init__()
        self.hop = hop
        self.register_buffer("window", torch.hann_window(SIZE) if window is None else window)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        length = (frames.shape[-1] - 1) * self.hop + SIZE
        made = torch.nn.functional.fold(frames * self.window[:, None], (1, length), (1, SIZE), stride=(1, self.hop))
        return torch.nn.functional.pad(made[:, 0, 0], (0, 99 * 16 + SIZE - length))


def told(folder: Path, reference: nn.Module, candidate: nn.Module, given: torch.Tensor) -> tuple[Diagnosis, ...]:
    for name, model in (("ref", reference), ("cand", candidate)):
        with torch.no_grad(), fd.capture(model, folder / f"{name}.trace"):
            model(given)
    return explained(folder)


FRAMES = torch.from_numpy(speech(SIZE * 100).reshape(1, 100, SIZE)).transpose(1, 2).contiguous()


@pytest.mark.parametrize("hop", [12, 15, 20])
def test_frames_cut_at_another_hop(tmp_path: Path, hop: int) -> None:
    found = told(tmp_path, Analysis(), Analysis(hop), VOICE)
    assert found[0].cause == "audio.hop"
    assert f"frames start every {hop} samples in place of 16" in found[0].evidence


class Frames(nn.Module):
    """As many frames as there are."""

    def __init__(self, hop: int) -> None:
        super().__init__()
        self.hop = hop

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        return wave[0].unfold(-1, SIZE, self.hop).clone()


@pytest.mark.parametrize("hop", [12, 20])
def test_more_or_fewer_frames_at_another_hop(tmp_path: Path, hop: int) -> None:
    found = told(tmp_path, Frames(16), Frames(hop), VOICE)
    assert found[0].cause == "audio.hop"
    frames = [len(VOICE[0].unfold(-1, SIZE, step)) for step in (hop, 16)]
    assert f"every {hop} samples in place of 16: {frames[0]} frames instead of {frames[1]}" in found[0].evidence


def test_fewer_frames_at_the_same_hop_are_no_other_hop(tmp_path: Path) -> None:
    frames = Frames(16)(VOICE).numpy()
    found = fd.compare({"frames": frames}, {"frames": frames[:50]})
    assert found.verdict == "mismatch"
    assert all(one.cause != "audio.hop" for one in found.diagnosis)


@pytest.mark.parametrize(
    ("window", "name"),
    [
        (torch.ones(SIZE), "no window"),
        (torch.hamming_window(SIZE), "a Hamming window"),
        (torch.hann_window(SIZE, periodic=False), "a Hann window (symmetric)"),
        (torch.hann_window(SIZE).sqrt(), "the root of a Hann window"),
    ],
)
def test_another_window_is_named(tmp_path: Path, window: torch.Tensor, name: str) -> None:
    found = told(tmp_path, Analysis(), Analysis(window=window), VOICE)
    assert found[0].cause == "audio.window"
    assert f"multiplied by {name} in place of a Hann window" in found[0].evidence


def test_a_gain_is_no_other_window(tmp_path: Path) -> None:
    found = told(tmp_path, Analysis(), Analysis(window=2 * torch.hann_window(SIZE)), VOICE)
    assert found[0].cause != "audio.window"


@pytest.mark.parametrize("hop", [12, 15])
def test_frames_set_down_at_another_hop(tmp_path: Path, hop: int) -> None:
    found = told(tmp_path, Synthesis(), Synthesis(hop), FRAMES)
    assert found[0].cause == "audio.hop"
    assert f"every {hop} samples in place of 16" in found[0].evidence


def test_a_synthesis_without_its_window(tmp_path: Path) -> None:
    found = told(tmp_path, Synthesis(), Synthesis(window=torch.ones(SIZE)), FRAMES)
    assert found[0].cause == "audio.window"


def test_another_window_over_more_frames_than_are_looked_at(tmp_path: Path) -> None:
    frames = FRAMES.repeat(1, 1, 30) * torch.linspace(0.5, 1.5, 3000)
    found = told(tmp_path, Synthesis(), Synthesis(window=torch.hann_window(SIZE).sqrt()), frames)
    assert found[0].cause == "audio.window"
    assert "multiplied by the root of a Hann window in place of a Hann window" in found[0].evidence


def test_healthy_frames_raise_nothing(tmp_path: Path) -> None:
    assert told(tmp_path, Analysis(), Analysis(), VOICE) == ()


@pytest.mark.parametrize("hop", [1, 7, 30])
def test_the_hop_of_frames_is_read_off_them(hop: int) -> None:
    sound = np.random.default_rng(0).standard_normal(500)
    frames = cut(sound, hop, 32, 10)
    assert hop_of(frames) == hop
    assert np.array_equal(joined(frames, hop), sound[: 9 * hop + 32])


def test_rows_that_do_not_overlap_have_no_hop() -> None:
    assert hop_of(np.random.default_rng(0).standard_normal((10, 32))) is None
    assert hop_of(np.zeros((10, 32))) is None


@pytest.mark.parametrize(("scipy_name", "name"), [("hann", "Hann"), ("hamming", "Hamming"), ("blackman", "Blackman")])
def test_windows_have_their_names(scipy_name: str, name: str) -> None:
    periodic = signal.get_window(scipy_name, 32)
    assert window_named(periodic) == f"a {name} window"
    assert window_named(signal.get_window(scipy_name, 32, fftbins=False)) == f"a {name} window (symmetric)"
    assert looks_like_window(periodic)
    assert not looks_like_window(np.sin(np.arange(32.0)))
