"""The audio report of a pair: frozen dataclasses, and their JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from firstdiff.json_text import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipping:
    """Samples that stand at the greatest or the smallest value, far more than near it.

    count, share: how many samples, and of all
    level: the magnitude they stand at; None where nothing is clipped
    over: samples beyond 1, which a file of integers cannot hold
    """

    count: int = 0
    share: float = 0.0
    level: float | None = None
    over: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Clicks:
    """Sudden jumps: `positions` has the first of them, `period` the samples from one to the next where regular."""

    count: int = 0
    positions: tuple[int, ...] = ()
    period: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SoundInfo:
    """One side alone; `dc` is the mean, `rms_db` and `peak_db` are relative to 1 and None in silence."""

    frames: int
    channels: int
    sample_rate: float
    seconds: float
    peak_db: float | None
    rms_db: float | None
    dc: float
    nan: int
    inf: int
    clipping: Clipping
    clicks: Clicks


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """The delay of the candidate, in samples at the rate of comparison.

    samples: with its fraction; `whole` is the nearest sample
    correlation: at that delay, from -1 to 1; negative where the polarity is inverted
    period: where other delays fit as well, the distance to the next
    reach: how far was looked
    """

    samples: float
    whole: int
    seconds: float
    correlation: float
    period: int | None
    reach: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ripple:
    """A gain that repeats every `period` samples, from `low_db` to `high_db`; `snr_db` is what is left without it."""

    period: int
    low_db: float
    high_db: float
    snr_db: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The candidate runs slower (`stretch` above 1) or faster.

    pitch_kept: frames were moved apart; otherwise it is a sound of another sample rate
    likeness: how well the loudness of the bands follows that stretch, up to 1
    snr_db: what is left once it is taken as that rate, where the pitch was not kept
    """

    stretch: float
    pitch_kept: bool
    likeness: float | None = None
    snr_db: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioReport:
    """The result of comparing two signals.

    verdict: in words
    sample_rate: the one they were compared at
    snr_db: of the shared part, as it is; si_snr_db the same with mean and level taken out (None: silence)
    log_mel_db: mean difference of log-mel spectrograms in dB, as they are
    delay: None where the two have nothing in common
    gain_db, polarity, dc_offset: of the candidate, once aligned
    aligned_snr_db: what is left once delay, gain, polarity and offset are taken out
    aligned_log_mel_db: the same for the log-mel distance
    clicks: in the difference of the aligned sounds; alone, each side has its own
    coverage: the share of each side that had a counterpart
    notes: what was done so that the two could be compared
    rates_ignored: sample was held against sample although the stated rates differ, for only so they fit
    """

    verdict: str
    sample_rate: float
    reference: SoundInfo
    candidate: SoundInfo
    identical: bool
    snr_db: float | None = None
    si_snr_db: float | None = None
    log_mel_db: float | None = None
    delay: Delay | None = None
    gain_db: float | None = None
    polarity: int | None = None
    dc_offset: float | None = None
    aligned_snr_db: float | None = None
    aligned_log_mel_db: float | None = None
    clicks: Clicks = field(default_factory=Clicks)
    ripple: Ripple | None = None
    drift: Drift | None = None
    reference_coverage: float = 1.0
    candidate_coverage: float = 1.0
    notes: tuple[str, ...] = ()
    rates_ignored: bool = False

    def as_plain(self) -> dict[str, Any]:
        """The JSON of `audio` in a row of a comparison."""
        found: dict[str, Any] = plain(self)
        return found
