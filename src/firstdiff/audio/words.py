"""Write the verdict of an audio report as a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator

from firstdiff.audio.report import AudioReport, Clicks, Delay, Drift, Ripple

_BEYOND_MEASURE = 150.0
_LEAST_GAIN_DB = 0.005
HARDLY_DB = 3.0


def in_words(report: AudioReport) -> str:
    """One sentence; parts of it are set apart by semicolons."""
    return "; ".join((*_compared_as(report), *_said(report)))


def _said(report: AudioReport) -> Iterator[str]:
    reference, candidate = report.reference, report.candidate
    if report.identical:
        yield "the two are identical" if reference.frames else "both are empty"
        return
    yield from _sizes(report)
    yield from _nonfinite(report)
    if not reference.frames or not candidate.frames:
        return
    silent = [side.peak_db is None for side in (reference, candidate)]
    if any(silent):
        yield from _silence(report, silent)
        return
    yield from _relation(report)
    yield from _damage(report)


def _relation(report: AudioReport) -> Iterator[str]:
    if report.delay is None or report.aligned_snr_db is None:
        if report.drift:
            yield _drifting(report.drift, report)
        else:
            yield "the two have nothing in common that a delay and a gain would bring out"
            if report.log_mel_db is not None:
                yield f"their log-mel spectrograms are {report.log_mel_db:.3g} dB apart"
        return
    changes = list(_changes(report))
    rest = _agreement(report.aligned_snr_db)
    if report.aligned_snr_db < HARDLY_DB and report.ripple is None:
        best = f", with the candidate {_listed(changes)}" if changes else ""
        yield f"no delay and gain bring the two together ({report.aligned_snr_db:.1f} dB at best{best})"
    elif changes:
        yield f"the candidate is {_listed(changes)}"
        yield f"apart from that they {rest}"
    else:
        broken = any(side.nan or side.inf for side in (report.reference, report.candidate))
        yield f"elsewhere they {rest}" if broken else f"they {rest}"
    if report.delay.period is not None and report.delay.whole and report.aligned_snr_db >= HARDLY_DB:
        yield f"the sound repeats itself: delays of {report.delay.period:,} samples more or less fit as well"
    if report.ripple:
        yield _rippling(report.ripple)
    if report.drift:
        yield _drifting(report.drift, report)


def _changes(report: AudioReport) -> Iterator[str]:
    if report.delay is not None and report.delay.samples:
        yield _shift(report.delay)
    if gain_matters(report):
        gain = report.gain_db or 0.0
        yield f"{abs(gain):.1f} dB {'louder' if gain > 0 else 'quieter'}" if abs(gain) >= 0.1 else f"{gain:+.3f} dB off"
    if report.polarity == -1:
        yield "inverted in polarity"
    if offset_matters(report):
        yield f"off centre by {report.dc_offset:+.3g}"


def gain_matters(report: AudioReport) -> bool:
    """True if the gain is larger than the rest of the difference explains by chance."""
    gain, agreed = report.gain_db, report.aligned_snr_db
    if gain is None or agreed is None or abs(gain) < _LEAST_GAIN_DB:
        return False
    return abs(gain) >= 0.5 or abs(10 ** (gain / 20) - 1) > 0.7 * 10 ** (-agreed / 20)


def offset_matters(report: AudioReport) -> bool:
    offset, agreed, level = report.dc_offset, report.aligned_snr_db, report.candidate.rms_db
    if offset is None or agreed is None or level is None:
        return False
    return abs(offset) > max(0.7 * 10 ** ((level - agreed) / 20), 1e-3 * 10 ** (level / 20))


def _shift(delay: Delay) -> str:
    amount = abs(delay.samples)
    samples = f"{amount:,.0f}" if amount == round(amount) else f"{amount:,.2f}"
    unit = "sample" if amount == 1 else "samples"
    return f"{samples} {unit} ({_milliseconds(abs(delay.seconds))}) {'late' if delay.samples > 0 else 'early'}"


def _agreement(snr: float) -> str:
    if snr == math.inf:
        return "agree exactly"
    if snr >= _BEYOND_MEASURE:
        return f"agree to more than {_BEYOND_MEASURE:.0f} dB"
    if snr >= HARDLY_DB:
        return f"agree to {snr:.0f} dB"
    return f"hardly agree ({snr:.1f} dB)"


def _rippling(ripple: Ripple) -> str:
    left = "exactly" if ripple.snr_db > _BEYOND_MEASURE else f"to {ripple.snr_db:.0f} dB"
    return (
        f"its gain ripples every {ripple.period:,} samples ({ripple.low_db:+.2g} to {ripple.high_db:+.2g} dB), as "
        f"overlapped frames do under a wrong window or hop; without the ripple they would agree {left}"
    )


def _drifting(drift: Drift, report: AudioReport) -> str:
    how = "slower" if drift.stretch > 1 else "faster"
    amount = f"{drift.stretch:.4f} times as long"
    if not drift.pitch_kept:
        rate = report.sample_rate * drift.stretch
        left = f"; taken as {rate:,.0f} Hz it agrees to {drift.snr_db:.0f} dB" if drift.snr_db is not None else ""
        return f"the candidate runs {how} ({amount}), pitch and all, as a sound of another sample rate does{left}"
    return f"the candidate runs {how} at the same pitch ({amount}), as frames set down at another hop length do"


def _damage(report: AudioReport) -> Iterator[str]:
    reference, candidate = report.reference.clipping, report.candidate.clipping
    clicks, own = new_clicks(report)
    if clicks.count and (clicks.period or not candidate.count):
        yield _clicking(clicks, own)
    if candidate.count > 2 * reference.count and candidate.level is not None:
        yield f"it clips: {candidate.count:,} samples ({100 * candidate.share:.2g} %) stand at ±{candidate.level:.4g}"
    if reference.count > 2 * candidate.count and reference.level is not None:
        yield f"the reference clips where it does not: {reference.count:,} samples stand at ±{reference.level:.4g}"
    if candidate.over and not reference.over:
        are = "sample is" if candidate.over == 1 else "samples are"
        yield f"{candidate.over:,} {are} beyond ±1 and would clip in a file"


def new_clicks(report: AudioReport) -> tuple[Clicks, bool]:
    """Those in the difference; where the two cannot be subtracted, those the candidate has more of."""
    if report.delay is not None and report.drift is None and (report.aligned_snr_db or 0) > HARDLY_DB:
        return report.clicks, False
    reference, candidate = report.reference.clicks, report.candidate.clicks
    new = candidate.count > 2 * reference.count + 2 and candidate.period != reference.period
    return (candidate, True) if new else (Clicks(), True)


def _clicking(clicks: Clicks, own: bool) -> str:
    count = f"{clicks.count:,} click{'' if clicks.count == 1 else 's'}"
    first = f"the first at sample {clicks.positions[0]:,}" if clicks.count > 1 else f"at sample {clicks.positions[0]:,}"
    where = "" if own else " in the difference"
    if clicks.period is None:
        return f"there are {count}{where}, {first}" if clicks.count > 1 else f"there is {count}{where}, {first}"
    why = "as frames overlapped under a wrong window or hop length do"
    return f"there is a click{where} every {clicks.period:,} samples ({count}, {first}), {why}"


def _sizes(report: AudioReport) -> Iterator[str]:
    lengths = report.reference.seconds, report.candidate.seconds
    if not report.reference.frames and not report.candidate.frames:
        yield "both are empty"
    elif 0 in (report.reference.frames, report.candidate.frames):
        yield f"the {'candidate' if report.reference.frames else 'reference'} is empty"
    elif _lengths_differ(report):
        shares = report.reference_coverage, report.candidate_coverage
        yield (
            f"the reference is {_seconds(lengths[0])} long, the candidate {_seconds(lengths[1])}: "
            f"{_percent(shares[0])} of the one and {_percent(shares[1])} of the other were compared"
        )


def _lengths_differ(report: AudioReport) -> bool:
    one, other = report.reference, report.candidate
    if one.sample_rate == other.sample_rate or report.rates_ignored:
        return one.frames != other.frames
    return abs(one.seconds - other.seconds) > 1.5 / min(one.sample_rate, other.sample_rate)


def _nonfinite(report: AudioReport) -> Iterator[str]:
    for name, side in (("reference", report.reference), ("candidate", report.candidate)):
        if side.nan or side.inf:
            yield f"the {name} has {side.nan:,} NaN and {side.inf:,} Inf, left out"


def _silence(report: AudioReport, silent: list[bool]) -> Iterator[str]:
    gone = [side.nan + side.inf >= side.frames * side.channels for side in (report.reference, report.candidate)]
    if any(gone):
        yield "nothing is left of either" if all(gone) else f"nothing is left of the {_name_of(gone)}"
    elif all(silent):
        yield "both are silent"
    else:
        yield f"the {_name_of(silent)} is silent, the other is not"


def _name_of(flags: list[bool]) -> str:
    return "candidate" if flags[1] else "reference"


def _compared_as(report: AudioReport) -> tuple[str, ...]:
    return report.notes


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.4g} s"


def _seconds(seconds: float) -> str:
    return f"{seconds:.4g} s"


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"
