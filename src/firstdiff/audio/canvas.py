"""An image in memory to draw on: lines, columns, images and labels, written as PNG."""

from __future__ import annotations

import struct
import zlib
from functools import cache
from typing import final

import numpy as np

ADVANCE = 6
HEIGHT = 8

# five columns for each letter from the space on, the lowest bit on top
_COLUMNS = bytes.fromhex(
    "0000000000 00005F0000 0007000700 147F147F14 242A7F2A12 2313086462 3649562050 0008070300 001C224100 0041221C00"
    "2A1C7F1C2A 08083E0808 0080703000 0808080808 0000606000 2010080402 3E5149453E 00427F4000 7249494946 2141494D33"
    "1814127F10 2745454539 3C4A494931 4121110907 3649494936 464949291E 0000140000 0040340000 0008142241 1414141414"
    "0041221408 0201590906 3E415D594E 7C1211127C 7F49494936 3E41414122 7F4141413E 7F49494941 7F09090901 3E41415173"
    "7F0808087F 00417F4100 2040413F01 7F08142241 7F40404040 7F021C027F 7F0408107F 3E4141413E 7F09090906 3E4151215E"
    "7F09192946 2649494932 03017F0103 3F4040403F 1F2040201F 3F4038403F 6314081463 0304780403 6159494D43 007F414141"
    "0204081020 004141417F 0402010204 4040404040 0003070800 2054547840 7F28444438 3844444428 384444287F 3854545418"
    "00087E0902 18A4A49C78 7F08040478 00447D4000 2040403D00 7F10284400 00417F4000 7C04780478 7C08040478 3844444438"
    "FC18242418 18242418FC 7C08040408 4854545424 04043F4424 3C4040207C 1C2040201C 3C4030403C 4428102844 4C9090907C"
    "4464544C44 0008364100 0000770000 0041360800 0201020402"
)
_SPELT = {"±": "+/-", "…": "...", "−": "-", "×": "x", "·": "-", "µ": "u"}


def dots(text: str, scale: int = 1) -> np.ndarray:
    """Render a line of text as bool [8 * scale, 6 * letters * scale]; unknown letters are question marks."""
    spelt = "".join(_SPELT.get(letter, letter) for letter in text)
    letters = [_letter(letter) for letter in spelt]
    if not letters:
        return np.zeros((HEIGHT * scale, 0), bool)
    return np.kron(np.concatenate(letters, axis=1), np.ones((scale, scale), bool))


@cache
def _letter(letter: str) -> np.ndarray:
    code = ord(letter) - 32 if 32 <= ord(letter) < 127 else ord("?") - 32
    columns = np.frombuffer(_COLUMNS[5 * code : 5 * code + 5], np.uint8)
    ink = np.zeros((HEIGHT, ADVANCE), bool)
    ink[:, :5] = np.unpackbits(columns[None, :], axis=0, bitorder="little").astype(bool)
    return ink


def to_png(pixels: np.ndarray) -> bytes:
    """Pixels [height, width, 3] of uint8 as a file."""
    height, width, _ = pixels.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


Colour = tuple[int, int, int]

INK: Colour = (40, 44, 52)
FAINT: Colour = (200, 204, 210)
PAPER: Colour = (255, 255, 255)

# dark to bright, each step as far from the last for the eye
_HEAT = np.array([(0, 0, 4), (59, 15, 112), (140, 41, 129), (222, 73, 104), (254, 159, 109), (252, 253, 191)], float)


@final
class Canvas:
    """Pixels from the top left; whatever lies outside is cut off."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._pixels = np.full((height, width, 3), PAPER, np.uint8)

    def fill(self, left: int, top: int, right: int, bottom: int, colour: Colour) -> None:
        self._pixels[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = colour

    def frame(self, left: int, top: int, right: int, bottom: int, colour: Colour = FAINT) -> None:
        for box in (
            (left, top, right, top + 1),
            (left, bottom - 1, right, bottom),
            (left, top, left + 1, bottom),
            (right - 1, top, right, bottom),
        ):
            self.fill(*box, colour)

    def columns(self, left: int, tops: np.ndarray, bottoms: np.ndarray, colour: Colour) -> None:
        """One vertical line per pixel, from its top to its bottom, both included."""
        rows = np.arange(self.height)[:, None]
        ink = (rows >= tops) & (rows <= bottoms)
        self._pixels[:, left : left + len(tops)][ink[:, : self.width - left]] = colour

    def image(self, left: int, top: int, values: np.ndarray) -> None:
        """Values from 0 to 1, [height, width], dark to bright."""
        place = np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0) * (len(_HEAT) - 1)
        low = np.minimum(place.astype(int), len(_HEAT) - 2)
        part = (place - low)[..., None]
        colours = _HEAT[low] * (1 - part) + _HEAT[low + 1] * part
        height, width = values.shape
        self._pixels[top : top + height, left : left + width] = np.round(colours).astype(np.uint8)

    def text(self, left: int, top: int, text: str, colour: Colour = INK, scale: int = 2, align: str = "left") -> None:
        ink = dots(text, scale)
        left -= {"left": 0, "right": ink.shape[1], "centre": ink.shape[1] // 2}[align]
        ink = ink[max(-top, 0) : self.height - top, max(-left, 0) : max(self.width - left, 0)]
        top, left = max(top, 0), max(left, 0)
        self._pixels[top : top + ink.shape[0], left : left + ink.shape[1]][ink] = colour

    def png(self) -> bytes:
        return to_png(self._pixels)


def wrapped(text: str, width: int, scale: int = 2) -> list[str]:
    """Lines no wider than so many pixels; words are kept whole where they fit."""
    import textwrap

    return textwrap.wrap(text, max(width // (ADVANCE * scale), 8)) or [""]
