"""A speech pipeline in PyTorch and its port in Rust: the port matches, and every planted fault is found."""

from __future__ import annotations

import tomllib
import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import firstdiff as fd
from tests.examples.tts_port import EXAMPLE, Example, text

pytestmark = pytest.mark.xdist_group("tts-port")

FAULTS = tomllib.loads((EXAMPLE / "faults.toml").read_text(encoding="utf-8"))["fault"]
COMPONENTS = ("tokenizer", "mel", "speaker", "semantic", "gpt", "flow", "vocoder")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    return Example.build(tmp_path_factory.mktemp("tts"))


def _sound(path: Path) -> np.ndarray:
    with wave.open(str(path)) as file:
        assert file.getframerate() == 22_050
        return np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768


@pytest.mark.parametrize("words", ["short", "medium"])
def test_the_port_matches_in_every_component(example: Example, tmp_path: Path, words: str) -> None:
    voice = example.model / "voice.wav"
    for run, name in ((example.reference, "reference"), (example.candidate, "port")):
        done = run(text(words), voice, tmp_path / f"{name}.wav", trace=tmp_path / f"{name}.trace")
        assert done.returncode == 0, done.stderr

    comparison = fd.compare(tmp_path / "reference.trace", tmp_path / "port.trace", allow_missing=True, layout="strict")
    assert comparison.verdict == "match", comparison.first_divergence
    assert not comparison.summary.extra, "every tap of the port has a name of the reference"
    compared = [pair.name.split(".")[0] for pair in comparison.pairs if pair.status == "match"]
    assert all(compared.count(component) for component in COMPONENTS)

    sound, spoken = _sound(tmp_path / "reference.wav"), _sound(tmp_path / "port.wav")
    error = np.mean((sound - spoken) ** 2)
    assert 10 * np.log10(np.mean(sound**2) / error) > 60
    loudness = [float(np.sqrt(np.mean(part**2))) for part in np.array_split(sound, 8)]
    assert 0.02 < min(loudness) < max(loudness) < 3 * min(loudness), "the sound is audible and steady"


def test_the_model_is_the_same_each_time(example: Example, tmp_path: Path) -> None:
    again = Example.build(tmp_path).model
    for path in example.model.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name


@dataclass(frozen=True)
class Found:
    """A fault of faults.toml, and what was said of it."""

    fault: dict[str, str]
    place: str
    causes: list[str]


@pytest.fixture(scope="module")
def found(example: Example, tmp_path_factory: pytest.TempPathFactory) -> list[Found]:
    """Every fault, alone, against one run of the reference."""
    folder, voice = tmp_path_factory.mktemp("faults"), example.model / "voice.wav"
    assert example.reference(text("short"), voice, trace=folder / "reference.trace").returncode == 0
    told = []
    for fault in FAULTS:
        trace = folder / f"{fault['name']}.trace"
        done = example.candidate(text("short"), voice, trace=trace, fault=fault["name"])
        assert done.returncode == 0, done.stderr
        comparison = fd.compare(folder / "reference.trace", trace, allow_missing=True, layout="strict")
        first = comparison.first_divergence
        told.append(Found(fault, first.name if first else "", [one.cause for one in comparison.diagnosis]))
    return told


def test_every_fault_is_placed_at_its_tensor(found: list[Found]) -> None:
    wrong = {one.fault["name"]: one.place for one in found if one.place != one.fault["tensor"]}
    assert not wrong
    assert len(found) >= 20


def test_the_right_cause_comes_first_in_all_faults_but_two(found: list[Found]) -> None:
    wrong = {one.fault["name"]: one.causes for one in found if one.causes[:1] != [one.fault["cause"]]}
    assert len(wrong) <= 2, wrong


def test_faults_and_switches_are_the_same(example: Example) -> None:
    done = example.candidate(text("short"), example.model / "voice.wav", fault="none")
    assert done.stderr.strip().endswith("it takes " + ", ".join(fault["name"] for fault in FAULTS))


@pytest.fixture
def bad_inputs(tmp_path: Path) -> dict[str, Path]:
    """Files that neither program can use."""
    folder = {name: tmp_path / name for name in ("empty.txt", "empty.wav", "noise.wav", "silent.wav", "stereo.wav")}
    folder["empty.txt"].write_text(" \n", encoding="utf-8")
    folder["empty.wav"].write_bytes(b"")
    folder["noise.wav"].write_bytes(bytes(range(256)) * 4)
    for name, channels, frames in (("silent.wav", 1, 0), ("stereo.wav", 2, 22_050)):
        with wave.open(str(folder[name]), "wb") as file:
            file.setparams((channels, 2, 22_050, frames, "NONE", ""))
            file.writeframes(bytes(2 * channels * frames))
    return folder


@pytest.mark.parametrize(
    ("words", "voice", "sentence"),
    [
        ("empty.txt", "voice.wav", "is empty: there is nothing to say"),
        ("missing.txt", "voice.wav", "missing.txt"),
        ("short.txt", "missing.wav", "missing.wav cannot be read"),
        ("short.txt", "empty.wav", "empty.wav cannot be read as a wav file"),
        ("short.txt", "noise.wav", "noise.wav cannot be read as a wav file"),
        ("short.txt", "silent.wav", "has 0 samples; a voice of half a second (11025) is needed"),
        ("short.txt", "stereo.wav", "has 2 channel(s) of 16 bits at 22050 Hz; it takes one channel"),
    ],
)
def test_inputs_that_cannot_be_used_end_in_a_sentence(
    example: Example, bad_inputs: dict[str, Path], tmp_path: Path, words: str, voice: str, sentence: str
) -> None:
    words_path = bad_inputs.get(words, text("short") if words == "short.txt" else tmp_path / words)
    voice_path = bad_inputs.get(voice, example.model / voice)
    done = example.candidate(words_path, voice_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_reference_has_the_same_sentences(example: Example, bad_inputs: dict[str, Path]) -> None:
    done = example.reference(text("short"), bad_inputs["silent.wav"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == example.candidate(text("short"), bad_inputs["silent.wav"]).stderr
    done = example.reference(text("short"), bad_inputs["empty.wav"])
    assert done.stderr == f"{bad_inputs['empty.wav']} cannot be read as a wav file (it ends too early)\n"
    done = example.reference(text("missing"), bad_inputs["empty.wav"])
    assert done.stderr == f"{text('missing')} cannot be read (No such file or directory)\n"


def test_an_unknown_fault_lists_those_there_are(example: Example) -> None:
    done = example.candidate(text("short"), example.model / "voice.wav", fault="mel-hob")
    assert done.returncode == 2
    assert 'TTS_FAULT has no "mel-hob"; it takes merges-order, mel-hop' in done.stderr
