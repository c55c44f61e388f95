"""Routes of sounds."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, Depends, Response

from firstdiff.audio import AudioReport, Sound, SoundPair, compare_marked
from firstdiff.audio.canvas import Canvas
from firstdiff.audio.view import Difference, Peaks, peaks, spectrogram, wav
from firstdiff.errors import UsageError
from firstdiff.server.responses import ResponseHeader, answer
from firstdiff.server.routes.values import ThisRow
from firstdiff.server.row_tensors import RowTensors
from firstdiff.server.schemas import AudioOut, PeaksOfSides, PeaksOut

router = APIRouter(prefix="/comparisons/{comparison}/rows/{row}/audio")

_COLUMNS = 1200
_PICTURE = (1200, 160)
_QUIET_DB = 90.0
_MOST_CLICKS = 1000

Heard = Literal["reference", "candidate", "difference"]


class Sounds:
    """Return both sides of a row as sound."""

    def __init__(self, seen: RowTensors) -> None:
        reference, candidate = seen.tensor("reference"), seen.tensor("candidate")
        pair = None if reference is None or candidate is None else SoundPair.of(reference, candidate)
        if pair is None or reference is None or candidate is None:
            raise UsageError(f"{seen.pair.key} is not marked as sound on both sides; record it with a sample_rate")
        self._tensors = reference, candidate
        self._pair = pair

    def report(self) -> AudioReport:
        found = compare_marked(*self._tensors)
        assert found is not None, "it is marked as sound"
        return found

    def sound(self, side: Heard) -> Sound:
        if side == "difference":
            return Difference(self._pair.reference, self._pair.candidate)
        return self._pair.reference if side == "reference" else self._pair.candidate


def _sounds(seen: ThisRow) -> Sounds:
    return Sounds(seen)


TheseSounds = Annotated[Sounds, Depends(_sounds)]


@router.get("/report", response_model=AudioOut)
def report_audio(sounds: TheseSounds) -> Response:
    report = sounds.report()
    return answer(
        AudioOut(
            sample_rate=report.sample_rate,
            seconds=max(report.reference.seconds, report.candidate.seconds),
            verdict=report.verdict,
            snr_db=report.snr_db,
            si_snr_db=report.si_snr_db,
            log_mel_distance=report.log_mel_db,
            delay_samples=None if report.delay is None else report.delay.samples,
            gain_db=report.gain_db,
            clicks=tuple(report.clicks.positions[:_MOST_CLICKS]),
            peaks=PeaksOfSides(
                *(_drawn(peaks(sounds.sound(side), _COLUMNS)) for side in ("reference", "candidate", "difference"))
            ),
        )
    )


@router.get("", response_class=Response)
def play_audio(sounds: TheseSounds, side: Heard) -> Response:
    played = wav(sounds.sound(side), loud=side == "difference")
    return Response(played.data, media_type="audio/wav", headers={ResponseHeader.NOTE: played.note or ""})


@router.get("/spectrogram", response_class=Response)
def draw_spectrogram(sounds: TheseSounds, side: Heard) -> Response:
    width, height = _PICTURE
    db = spectrogram(sounds.sound(side), width, height).db
    ceiling = float(db[np.isfinite(db)].max(initial=-_QUIET_DB))
    canvas = Canvas(width, height)
    canvas.image(0, 0, np.clip((db - ceiling) / _QUIET_DB + 1.0, 0.0, 1.0))
    return Response(canvas.png(), media_type="image/png")


def _drawn(found: Peaks) -> PeaksOut:
    """Mix all channels down to one."""
    return PeaksOut(tuple(found.low.min(axis=0).tolist()), tuple(found.high.max(axis=0).tolist()))
