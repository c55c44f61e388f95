from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from firstdiff.audio import picture
from firstdiff.audio.canvas import INK, Canvas, dots, to_png, wrapped
from tests.audio.sounds import RATE, noise, speech

MAGENTA = (210, 0, 190)


def pixels_of(data: bytes) -> np.ndarray:
    """A reader of PNG, as plain as can be; it checks the sums too."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, width, height = 8, b"", 0, 0
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", data, at + 8 + size) == (zlib.crc32(kind + body),)
        if kind == b"IHDR":
            width, height, depth, colours = struct.unpack_from(">IIBB", body)
            assert (depth, colours) == (8, 2)
        packed += body if kind == b"IDAT" else b""
        at += 12 + size
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 3 * width)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def has(pixels: np.ndarray, colour: tuple[int, int, int]) -> bool:
    return bool((pixels == colour).all(axis=2).any())


def test_pixels_come_back_from_a_png() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    assert (pixels_of(to_png(pixels)) == pixels).all()


def test_letters_have_ink_and_differ() -> None:
    letters = [dots(chr(code)).tobytes() for code in range(33, 127)]
    assert len(set(letters)) == len(letters)
    assert not dots(" ").any()
    assert dots("ab", 2).shape == (16, 24)
    assert (dots("±") == dots("+/-")).all()
    assert (dots("é") == dots("?")).all()
    assert dots("").shape == (8, 0)


def test_text_beyond_the_edge_is_cut_off() -> None:
    canvas = Canvas(20, 10)
    for left, top in ((-5, -5), (15, 5), (100, 100), (-100, 0)):
        canvas.text(left, top, "Wide")
    assert has(pixels_of(canvas.png()), INK)


def test_lines_are_no_wider_than_asked() -> None:
    assert all(len(line) <= 20 for line in wrapped("word " * 40, 240))
    assert wrapped("", 100) == [""]


def test_a_picture_shows_clicks_and_nan() -> None:
    voice = speech(RATE // 2)
    clean = pixels_of(picture(voice, 0.9 * voice, sample_rate=RATE, width=400))
    assert clean.shape[1] == 400
    assert not has(clean, MAGENTA)
    clicking = voice.copy()
    clicking[5000] += 0.5
    assert has(pixels_of(picture(voice, clicking, sample_rate=RATE, width=400)), MAGENTA)
    broken = voice.copy()
    broken[100:200] = np.nan
    assert has(pixels_of(picture(voice, broken, sample_rate=RATE, width=400)), MAGENTA)


@pytest.mark.parametrize(
    ("reference", "candidate", "rate"),
    [
        (np.zeros(0), np.zeros(0), RATE),
        (np.zeros(100), np.zeros(100), RATE),
        (np.ones(1), np.zeros(1), RATE),
        (speech(3000), np.zeros(0), RATE),
        (noise(3000, channels=2), noise(2000), 16000),
        (np.full(50, np.nan), np.full(50, np.inf), RATE),
        (speech(3000) * 1e-30, speech(3000), RATE),
    ],
)
def test_anything_can_be_drawn(reference: np.ndarray, candidate: np.ndarray, rate: float) -> None:
    data = picture(reference, candidate, sample_rate=RATE, candidate_rate=rate, title="odd ± name", width=330)
    assert pixels_of(data).shape[1] == 330
