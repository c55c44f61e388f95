from __future__ import annotations

import sys

import numpy as np
import pytest

from firstdiff.audio import compare_audio
from firstdiff.audio.sound import fourier, has_scipy, signal
from firstdiff.errors import UsageError


def test_scipy_is_there() -> None:
    assert has_scipy()
    assert fourier().__name__ == "scipy.fft"


def test_without_scipy_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("scipy", "scipy.fft", "scipy.signal"):
        monkeypatch.setitem(sys.modules, name, None)
    for ask in (fourier, signal, lambda: compare_audio(np.ones(5), np.ones(5), sample_rate=8000)):
        with pytest.raises(UsageError, match=r"needs scipy, .* pip install 'firstdiff\[audio\]'"):
            ask()
