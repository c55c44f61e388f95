from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from scipy import signal

from tests.audio.sounds import late, noise, speech

Run = Callable[..., tuple[int, str, str]]

RATE = 16000
VOICE = speech(RATE, rate=RATE)


def saved(folder: Path, values: np.ndarray, *, rate: int = RATE, subtype: str = "FLOAT", name: str = "b") -> Path:
    path = folder / f"{name}.wav"
    soundfile.write(path, values, rate, subtype=subtype)
    return path


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    return saved(tmp_path, VOICE, name="a")


def test_identical_sounds_match(firstdiff: Run, reference: Path, tmp_path: Path) -> None:
    code, out, err = firstdiff("audio", reference, saved(tmp_path, VOICE))
    assert (code, err) == (0, "")
    assert out.splitlines()[:2] == ["a: match, [16000] float32", "  the two are identical"]


@pytest.mark.parametrize(
    ("candidate", "says"),
    [
        (late(VOICE, 37), "the candidate is 37 samples (2.31 ms) late; apart from that they agree exactly"),
        (0.5 * VOICE, "the candidate is 6.0 dB quieter; apart from that they agree exactly"),
        (np.clip(VOICE, -0.1, 0.1), "it clips: "),
        (VOICE + 0.05 * (np.arange(RATE) % 256 == 255), "a click in the difference every 256 samples"),
        (0 * VOICE, "the candidate is silent, the other is not"),
        (VOICE[:0], "the candidate is empty"),
        (np.where(np.arange(RATE) < 3, np.nan, VOICE), "the candidate has 3 NaN and 0 Inf, left out"),
        (noise(RATE), "the two have nothing in common"),
    ],
    ids=["delay", "gain", "clipping", "clicks", "silence", "empty", "nan", "noise"],
)
def test_what_is_wrong_is_said_in_words(
    firstdiff: Run, reference: Path, tmp_path: Path, candidate: np.ndarray, says: str
) -> None:
    code, out, _ = firstdiff("audio", reference, saved(tmp_path, candidate))
    assert code == 1
    assert says in out


@pytest.mark.parametrize(
    ("subtype", "code"), [("PCM_U8", 1), ("PCM_16", 1), ("PCM_24", 0), ("PCM_32", 0), ("FLOAT", 0), ("DOUBLE", 0)]
)
def test_every_width_is_read(firstdiff: Run, reference: Path, tmp_path: Path, subtype: str, code: int) -> None:
    found, out, _ = firstdiff("audio", reference, saved(tmp_path, VOICE, subtype=subtype))
    assert found == code
    assert "clicks in the difference: 0" in out


@pytest.mark.parametrize(("steps", "code"), [(1, 0), (2, 1)])
def test_one_step_of_the_file_is_no_difference(firstdiff: Run, tmp_path: Path, steps: int, code: int) -> None:
    """A float that lies between two steps may be rounded either way."""
    values = np.round(VOICE * 2**14).astype(np.int16)
    other = values.copy()
    other[100::1000] += steps
    done = firstdiff(
        "audio", saved(tmp_path, values, subtype="PCM_16", name="a"), saved(tmp_path, other, subtype="PCM_16")
    )
    assert done[0] == code
    assert ("they differ by one step of 16 bits at most" in done[1]) == (code == 0)


def test_samples_that_agree_at_another_rate_are_no_match(firstdiff: Run, reference: Path, tmp_path: Path) -> None:
    code, out, _ = firstdiff("audio", reference, saved(tmp_path, VOICE, rate=24000))
    assert code == 1
    assert "  the samples agree, but not the sample rate: 16,000 Hz against 24,000 Hz" in out


def test_another_rate_is_resampled_and_said(firstdiff: Run, reference: Path, tmp_path: Path) -> None:
    resampled = saved(tmp_path, signal.resample_poly(VOICE, 3, 2), rate=24000)
    code, out, _ = firstdiff("audio", reference, resampled)
    assert code == 1
    assert "the reference has 16,000 Hz, the candidate 24,000 Hz: the candidate was resampled" in out


@pytest.mark.parametrize(
    ("candidate", "says"),
    [
        (VOICE[: RATE // 4], "25 % of the one and 100 % of the other were compared; they agree exactly"),
        (np.stack((VOICE, 0.7 * VOICE), axis=1), "the mean of the channels of the candidate was compared"),
    ],
    ids=["shorter", "stereo"],
)
def test_a_part_that_agrees_is_no_match(
    firstdiff: Run, reference: Path, tmp_path: Path, candidate: np.ndarray, says: str
) -> None:
    code, out, _ = firstdiff("audio", reference, saved(tmp_path, candidate))
    assert code == 1
    assert "  what was compared agrees, but a part has no counterpart" in out
    assert says in out


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    for side, names in (("ref", ["hello", "world"]), ("cand", ["hello"])):
        (tmp_path / side).mkdir()
        for name in names:
            saved(tmp_path / side, VOICE, name=name)
    return tmp_path / "ref", tmp_path / "cand"


def test_a_sound_without_a_partner_is_no_match(firstdiff: Run, folders: tuple[Path, Path]) -> None:
    code, out, _ = firstdiff("audio", *folders)
    assert code == 1
    assert "world: missing" in out
    assert firstdiff("audio", *folders, "hello")[0] == 0


def test_a_name_that_is_not_there(firstdiff: Run, folders: tuple[Path, Path]) -> None:
    code, _, err = firstdiff("audio", *folders, "helo")
    assert code == 2
    assert "no sound on both sides is called 'helo' (did you mean hello?)" in err


def test_tensors_become_sound_with_a_rate(firstdiff: Run, tmp_path: Path) -> None:
    sides = tmp_path / "a.npz", tmp_path / "b.npz"
    np.savez(sides[0], wave=VOICE)
    np.savez(sides[1], wave=late(VOICE, 5))
    code, _, err = firstdiff("audio", *sides)
    assert code == 2
    assert "there is no sound on both sides; give WAV files, or the sample rate with --rate" in err
    assert "5 samples (0.625 ms) late" in firstdiff("audio", *sides, "--rate", 8000)[1]


def test_a_file_that_is_no_sound(firstdiff: Run, reference: Path, tmp_path: Path) -> None:
    broken = tmp_path / "b.wav"
    broken.write_bytes(b"RIFF\x04\x00\x00\x00WAVE")
    code, out, err = firstdiff("audio", reference, broken)
    assert (code, out) == (2, "")
    assert "b.wav" in err


def test_the_picture(firstdiff: Run, reference: Path, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    out = firstdiff("audio", reference, saved(tmp_path, 0.5 * VOICE), "-o", picture)[1]
    assert out.endswith(f"a is drawn in {picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG\r\n")


def test_a_picture_that_cannot_be_written(firstdiff: Run, reference: Path, tmp_path: Path) -> None:
    code, _, err = firstdiff("audio", reference, saved(tmp_path, VOICE), "-o", tmp_path / "no" / "picture.png")
    assert code == 2
    assert "cannot write the picture" in err


def test_json_has_the_figures(firstdiff: Run, reference: Path, tmp_path: Path) -> None:
    code, out, _ = firstdiff("audio", reference, saved(tmp_path, late(VOICE, -3)), "--format", "json")
    found = json.loads(out)
    assert (code, found["schema"], found["verdict"]) == (1, "firstdiff/audio/1", "mismatch")
    (sound,) = found["sounds"]
    assert (sound["key"], sound["status"]) == ("a", "mismatch")
    assert sound["audio"]["delay"]["whole"] == -3
    assert sound["audio"]["aligned_snr_db"] == "inf"
    assert sound["metrics"]["max_abs"] > 0


def test_without_scipy_it_says_what_to_install(
    firstdiff: Run, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    code, _, err = firstdiff("audio", reference, saved(tmp_path, VOICE))
    assert code == 2
    assert err == "firstdiff: comparing sound needs scipy, which is not installed: pip install 'firstdiff[audio]'\n"
