"""An image in memory to draw on: lines, filled columns, images and labels."""

from __future__ import annotations

from typing import final

import numpy as np

from firstdiff.audio.font import ADVANCE, dots
from firstdiff.audio.png import to_png

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
