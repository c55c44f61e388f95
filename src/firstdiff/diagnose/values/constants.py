"""Name constants that appear as factors where a multiplication or division was forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import e, isfinite, log, pi, sqrt

_LEAST = 2e-6
_MOST = 2e-3

LOG_BASES = {
    log(10.0): "ln(10), from base 10 to e",
    1.0 / log(10.0): "log10(e), from base e to 10",
    log(2.0): "ln(2), from base 2 to e",
    1.0 / log(2.0): "log2(e), from base e to 2",
    log(10.0) / log(2.0): "log2(10), from base 10 to 2",
    log(2.0) / log(10.0): "log10(2), from base 2 to 10",
    10.0 / log(10.0): "10 / ln(10), from natural logarithms to decibels",
    20.0 / log(10.0): "20 / ln(10), from natural logarithms of amplitudes to decibels",
    log(10.0) / 10.0: "ln(10) / 10, from decibels to natural logarithms",
    log(10.0) / 20.0: "ln(10) / 20, from decibels to natural logarithms of amplitudes",
}

_PLAIN = {
    255.0: "255, the range of a byte",
    256.0: "256, the values of a byte",
    127.5: "127.5, half the range of a byte",
    127.0: "127, the range of a signed byte",
    128.0: "128, half the values of a byte",
    32768.0: "32768, the range of 16-bit samples",
    32767.0: "32767, the range of 16-bit samples",
    2147483648.0: "2^31, the range of 32-bit samples",
    sqrt(2.0): "the root of 2",
    2.0: "2",
    3.0: "3",
    4.0: "4",
    8.0: "8",
    10.0: "10",
    100.0: "100",
    1000.0: "1000",
    pi: "pi",
    2 * pi: "2 pi",
    180.0 / pi: "180 / pi, from radians to degrees",
    e: "e",
    0.18215: "0.18215, the scale of a latent space",
    0.13025: "0.13025, the scale of a latent space",
    0.3611: "0.3611, the scale of a latent space",
    1.702: "1.702, of the quick gelu",
}


def name_of(factor: float, error: float, sizes: Iterable[int]) -> str | None:
    """Describe a factor that is a known constant; None for any other.

    error: how exactly it is known
    sizes: lengths of axes and heads, whose roots and inverses are looked for too
    """
    if not isfinite(factor) or factor == 0:
        return None
    size, slack = abs(factor), min(max(5 * error / abs(factor), _LEAST), _MOST)
    for value, text in _known(sizes):
        for known, words in (
            (value, text),
            (1 / value, f"1 / {text}" if "," in text or text.isdigit() else f"1 / ({text})"),
        ):
            if abs(size / known - 1.0) <= slack:
                return f"minus {words}" if factor < 0 else words
    return None


def _known(sizes: Iterable[int]) -> Iterator[tuple[float, str]]:
    found = [size for size in dict.fromkeys(sizes) if size > 1]
    yield from _PLAIN.items()
    for size in found:
        yield sqrt(size), f"sqrt({size}), the root of a size"
    for size in found:
        yield float(size), f"{size}, a size"
    for size in found:
        yield size**0.25, f"the fourth root of {size}"
    yield from LOG_BASES.items()


def sizes_of(shapes: Iterable[tuple[int, ...]]) -> list[int]:
    """The lengths of axes, and the head sizes that the last ones may be made of."""
    lengths = [length for shape in shapes for length in shape if length > 1]
    heads = [size for shape in shapes if shape for size in _heads(shape[-1])]
    return list(dict.fromkeys([*lengths, *heads]))


def _heads(length: int) -> Iterator[int]:
    for size in (64, 128, 32, 96, 80, 256, 16, 8, 48, 72, 40, 112, 160, 192, 512, 4):
        if size < length and length % size == 0:
            yield size
