"""Draw two signals in one picture: waveforms, their difference, spectrograms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from firstdiff.audio.canvas import FAINT, INK, Canvas, Colour, wrapped
from firstdiff.audio.comparison import compare_audio
from firstdiff.audio.report import AudioReport
from firstdiff.audio.sound import Sound, sound_of
from firstdiff.audio.view import Difference, peaks, spectrogram
from firstdiff.audio.words import new_clicks

_BLUE: Colour = (31, 111, 180)
_ORANGE: Colour = (217, 95, 2)
_RED: Colour = (200, 30, 45)
_MAGENTA: Colour = (210, 0, 190)
_LEFT, _RIGHT, _GAP, _LINE = 116, 24, 34, 20
_WAVE, _SPECTRUM = 130, 170
_RANGE_DB = 90.0


class _Panel(NamedTuple):
    canvas: Canvas
    top: int
    height: int
    seconds: float

    @property
    def width(self) -> int:
        return self.canvas.width - _LEFT - _RIGHT

    def share(self, sound: Sound) -> int:
        """Pixels that a sound takes of the time shown."""
        return min(max(round(self.width * sound.seconds / self.seconds), 1), self.width) if self.seconds else self.width


def picture(
    reference: Any,
    candidate: Any,
    report: AudioReport | None = None,
    *,
    sample_rate: float,
    candidate_rate: float | None = None,
    axis: int | None = None,
    candidate_axis: int | None = None,
    title: str | None = None,
    width: int = 1280,
) -> bytes:
    """A PNG of both waveforms, their difference once aligned, and both spectrograms; clicks are marked.

    >>> import numpy as np
    >>> tone = np.sin(np.arange(4800) / 9)
    >>> picture(tone, 0.5 * tone, sample_rate=24000)[1:4]
    b'PNG'

    report: what `compare_audio` found; it is asked if left out
    title: the first line; the verdict stands under it
    """
    ref = sound_of(reference, sample_rate, axis)
    cand = sound_of(candidate, sample_rate if candidate_rate is None else candidate_rate, candidate_axis)
    if report is None:
        report = compare_audio(ref, cand, sample_rate=ref.rate, candidate_rate=cand.rate)
    width = max(width, 320)
    lines = [title] if title else []
    lines += wrapped(report.verdict, width - 2 * _RIGHT)
    head = 14 + _LINE * len(lines)
    canvas = Canvas(width, head + 3 * (_WAVE + _GAP) + 2 * (_SPECTRUM + _GAP) + 12)
    for place, line in enumerate(lines):
        canvas.text(_RIGHT, 10 + _LINE * place, line, INK)
    seconds = max(ref.seconds, cand.seconds)
    top = head + _GAP - 12
    loudest = _loudest(ref, cand)
    for name, sound, colour in (("reference", ref, _BLUE), ("candidate", cand, _ORANGE)):
        _draw_wave(_Panel(canvas, top, _WAVE, seconds), sound, _named(name, sound), colour, loudest)
        top += _WAVE + _GAP
    _draw_difference(_Panel(canvas, top, _WAVE, seconds), Difference(ref, cand, report), report)
    top += _WAVE + _GAP
    top_hz, ceiling = max(ref.rate, cand.rate) / 2, 20 * np.log10(max(loudest, 1e-9))
    for name, sound in (("reference", ref), ("candidate", cand)):
        _draw_spectrum(_Panel(canvas, top, _SPECTRUM, seconds), sound, name, top_hz, float(ceiling))
        top += _SPECTRUM + _GAP
    return canvas.png()


def _draw_wave(panel: _Panel, sound: Sound, label: str, colour: Colour, reach: float) -> None:
    canvas, top, bottom = panel.canvas, panel.top, panel.top + panel.height
    canvas.text(_LEFT, top - 18, label, colour)
    middle, half = top + panel.height // 2, panel.height // 2 - 3
    canvas.fill(_LEFT, middle, _LEFT + panel.width, middle + 1, FAINT)
    if sound.frames:
        found = peaks(sound, panel.share(sound))
        scale = half / (reach or 1.0)
        tops = middle - np.round(np.clip(found.high.max(axis=0) * scale, -half, half))
        bottoms = middle - np.round(np.clip(found.low.min(axis=0) * scale, -half, half))
        canvas.columns(_LEFT, tops, bottoms, colour)
        broken = np.where(found.broken, top, bottom)
        canvas.columns(_LEFT, broken, np.full(len(broken), bottom - 1), _MAGENTA)
    canvas.frame(_LEFT, top, _LEFT + panel.width, bottom)
    for level, at in ((reach, top), (0.0, middle - 7), (-reach, bottom - 15)):
        canvas.text(_LEFT - 6, at, f"{level:+.2g}" if level else "0", align="right")
    _draw_time(panel)


def _draw_difference(panel: _Panel, sound: Sound, report: AudioReport) -> None:
    reach = _loudest(sound)
    how = "aligned" if report.delay is not None else "as they are"
    _draw_wave(panel, sound, f"difference ({how}), up to {reach:.3g}", _RED, reach)
    clicks, own = new_clicks(report)
    if own or not sound.frames:
        return
    for place in clicks.positions:
        at = _LEFT + int(place / sound.rate / (panel.seconds or 1.0) * panel.width)
        for row in range(6):
            panel.canvas.fill(at - 5 + row, panel.top + 1 + row, at + 6 - row, panel.top + 2 + row, _MAGENTA)


def _draw_spectrum(panel: _Panel, sound: Sound, label: str, top_hz: float, ceiling: float) -> None:
    canvas, top, bottom = panel.canvas, panel.top, panel.top + panel.height
    label = f"{label}, spectrum from {ceiling - _RANGE_DB:.0f} (dark) to {ceiling:.0f} dB (bright)"
    canvas.text(_LEFT, top - 18, label)
    height = max(round(panel.height * sound.rate / 2 / top_hz), 1)
    if sound.frames:
        found = spectrogram(sound, panel.share(sound), height)
        canvas.image(_LEFT, bottom - height, (found.db - ceiling) / _RANGE_DB + 1.0)
    canvas.frame(_LEFT, top, _LEFT + panel.width, bottom)
    for share in (0.0, 0.5, 1.0):
        at = round(bottom - share * panel.height)
        label = f"{share * top_hz / 1000:.3g}kHz"
        canvas.text(_LEFT - 6, min(max(at - 7, top), bottom - 15), label, align="right")
    _draw_time(panel)


def _draw_time(panel: _Panel) -> None:
    if not panel.seconds:
        return
    step = _round_step(panel.seconds / max(panel.width // 140, 1))
    for tick in range(int(panel.seconds / step + 1e-9) + 1):
        at = _LEFT + round(panel.width * tick * step / panel.seconds)
        bottom = panel.top + panel.height
        panel.canvas.fill(at, bottom, at + 1, bottom + 3, INK)
        aligned = "left" if not tick else "right" if at > _LEFT + panel.width - 30 else "centre"
        panel.canvas.text(at, bottom + 3, f"{tick * step:.6g}s", INK, 1, aligned)


def _round_step(least: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(least))
    return float(next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * 0.999))


def _loudest(*sounds: Sound) -> float:
    found = (float(np.abs(block).max(initial=0.0)) for sound in sounds for _, block in sound.blocks())
    return max(found, default=0.0)


def _named(name: str, sound: Sound) -> str:
    channels = "" if sound.channels == 1 else f", {sound.channels} channels"
    return f"{name}: {sound.seconds:.4g} s at {sound.rate:,.10g} Hz{channels}"
