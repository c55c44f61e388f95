"""Compare audio: delay, gain, clicks, clipping, as metrics, sentences and a picture."""

from firstdiff.audio.comparison import compare_audio
from firstdiff.audio.marks import SoundPair, compare_marked, marked, picture_of
from firstdiff.audio.picture import picture
from firstdiff.audio.report import AudioReport, Clicks, Clipping, Delay, Drift, Ripple, SoundInfo
from firstdiff.audio.sound import Sound, sound_of

__all__ = [
    "AudioReport",
    "Clicks",
    "Clipping",
    "Delay",
    "Drift",
    "Ripple",
    "Sound",
    "SoundInfo",
    "SoundPair",
    "compare_audio",
    "compare_marked",
    "marked",
    "picture",
    "picture_of",
    "sound_of",
]
