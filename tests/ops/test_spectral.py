from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from firstdiff.ops.spectral import hamming_window, hann_window, istft, overlap_add, stft
from tests.ops.oracle import assert_agrees, double, dtypes, seeds, values


@settings(max_examples=50)
@given(
    seed=seeds,
    n_fft=st.integers(4, 33),
    hop=st.one_of(st.none(), st.integers(1, 20)),
    shorter=st.integers(0, 3),
    length=st.integers(40, 90),
    center=st.booleans(),
    mode=st.sampled_from(["reflect", "constant", "replicate"]),
    normalized=st.booleans(),
    onesided=st.booleans(),
    dtype=dtypes,
)
def test_stft_is_torchs(
    seed: int,
    n_fft: int,
    hop: int | None,
    shorter: int,
    length: int,
    center: bool,
    mode: str,
    normalized: bool,
    onesided: bool,
    dtype: np.dtype,
) -> None:
    x, window = values(seed, 2, length, dtype=dtype), np.abs(values(seed + 1, n_fft - shorter))
    how = {
        "n_fft": n_fft,
        "hop_length": hop,
        "win_length": n_fft - shorter,
        "center": center,
        "pad_mode": mode,
        "normalized": normalized,
        "onesided": onesided,
    }
    wanted = torch.stft(double(x), window=double(window), return_complex=True, **how)
    assert_agrees(stft(x, window, **how), wanted)


@pytest.mark.filterwarnings("ignore:The length of signal is shorter")
@settings(max_examples=50)
@given(
    seed=seeds,
    n_fft=st.integers(4, 32),
    part=st.integers(2, 5),
    frames=st.integers(2, 9),
    center=st.booleans(),
    normalized=st.booleans(),
    onesided=st.booleans(),
    longer=st.sampled_from([None, -3, 0, 7]),
)
def test_istft_is_torchs(
    seed: int, n_fft: int, part: int, frames: int, center: bool, normalized: bool, onesided: bool, longer: int | None
) -> None:
    hop = max(1, n_fft // part)
    window = np.abs(values(seed, n_fft)) + 0.1
    bins = n_fft // 2 + 1 if onesided else n_fft
    spectrum = values(seed, 2, bins, frames) + 1j * values(seed + 1, 2, bins, frames)
    natural = n_fft + hop * (frames - 1) - (2 * (n_fft // 2) if center else 0)
    length = None if longer is None else natural + longer
    assume(length is None or length > 0)
    how = {"n_fft": n_fft, "hop_length": hop, "center": center, "normalized": normalized}
    wanted = torch.istft(torch.from_numpy(spectrum), window=double(window), length=length, onesided=onesided, **how)
    assert_agrees(istft(spectrum, window, length=length, **how), wanted, 1e-11)


def test_there_and_back_again() -> None:
    x, window = values(1, 400), hann_window(64)
    back = istft(stft(x, window, n_fft=64, hop_length=16), window, n_fft=64, hop_length=16, length=400)
    np.testing.assert_allclose(back, x, atol=1e-13)


@pytest.mark.parametrize(("size", "hop"), [(8, 2), (8, 3), (5, 5), (4, 7), (6, 1)])
def test_overlap_add_is_a_fold(size: int, hop: int) -> None:
    frames = values(1, 3, 6, size)
    wanted = torch.zeros(3, 5 * hop + size, dtype=torch.float64)
    for number in range(6):
        wanted[:, number * hop : number * hop + size] += double(frames)[:, number]
    assert_agrees(overlap_add(frames, hop_length=hop), wanted)


def test_overlap_add_divides_by_the_windows_if_asked() -> None:
    window = hann_window(8, periodic=True)
    ones = np.ones((6, 8)) * window
    found = overlap_add(ones, window, hop_length=2, weighted=True)
    np.testing.assert_allclose(found[2:-2], 1.0, atol=1e-13)
    assert overlap_add(np.zeros((0, 8)), hop_length=2).shape == (0,)


@pytest.mark.parametrize("length", [1, 2, 7, 16])
@pytest.mark.parametrize("periodic", [False, True])
def test_windows_are_torchs(length: int, periodic: bool) -> None:
    double_type = {"dtype": torch.float64}
    assert_agrees(hann_window(length, periodic=periodic), torch.hann_window(length, periodic, **double_type))
    assert_agrees(hamming_window(length, periodic=periodic), torch.hamming_window(length, periodic, **double_type))
