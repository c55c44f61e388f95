"""`firstdiff audio`: two sounds, in figures, in words and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from firstdiff.schema import Comparison, Pair
    from firstdiff.trace import Tensor, Trace

MISMATCH = 1
_BITS = {"PCM_U8": 8, "PCM_S8": 8, "PCM_16": 16, "PCM_24": 24}


def audio(
    reference: Annotated[Path, typer.Argument(metavar="REF", help="The sound that is right: a WAV file, or a trace.")],
    candidate: Annotated[Path, typer.Argument(metavar="CAND", help="The sound to check.")],
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The key of one tensor; else every sound.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PICTURE.png", help="Draw waveforms and spectrograms.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(metavar="HZ", min=1, help="Take tensors that say nothing as sound of this rate.")
    ] = None,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """Compare sounds: delay, gain, clicks, clipping.

    Exit code 0: they match; 1: they do not; 2: bad input.
    """
    from firstdiff.audio.sound import fourier
    from firstdiff.cli.console import comparison_progress
    from firstdiff.comparing import compare
    from firstdiff.readers import open_trace

    fourier()
    sides = _of_one_name([_as_sound(open_trace(path), rate) for path in (reference, candidate)])
    with comparison_progress() as on_progress:
        comparison = compare(*sides, on_progress=on_progress)
    rows = [_as_heard(_as_stored(pair, sides)) for pair in _chosen(comparison, name, sides)]
    drawn = None if output is None else _draw(output, rows, sides)
    if format_ == "json":
        _print_json(comparison, rows, output)
    else:
        _print_text(comparison, rows)
        if drawn is not None:
            _say(f"{drawn.key} is drawn in {output}")
    if any(pair.status != "match" for pair in rows):
        raise typer.Exit(MISMATCH)


def _as_sound(trace: Trace, rate: float | None) -> Trace:
    """The trace, with tensors that do not say what they are taken as sound of a rate, where one is given."""
    if rate is None:
        return trace
    return replace(trace, tensors=tuple(_with_rate(tensor, rate) for tensor in trace.tensors))


def _of_one_name(sides: list[Trace]) -> list[Trace]:
    """Two files of one sound each are meant to be held against each other, whatever they are called."""
    reference, candidate = sides
    if len(reference) != 1 or len(candidate) != 1:
        return sides
    named = replace(candidate.tensors[0], record=replace(candidate.tensors[0].record, name=reference.tensors[0].name))
    return [reference, replace(candidate, tensors=(named,))]


def _with_rate(tensor: Tensor, rate: float) -> Tensor:
    record = tensor.record
    return replace(tensor, record=replace(record, attrs={"sample_rate": rate, **record.attrs}, op=None))


def _as_stored(pair: Pair, sides: list[Trace]) -> Pair:
    """Files of whole numbers cannot hold less than one step: samples that far apart match."""
    infos, metrics = (pair.reference, pair.candidate), pair.metrics
    if pair.status != "mismatch" or metrics is None or not metrics.max_abs or None in infos:
        return pair
    found = [side[info.name].record.attrs.get("encoding") for side, info in zip(sides, infos, strict=True) if info]
    bits = min(_BITS.get(str(encoding), 0) for encoding in found)
    whole = pair.alignment is None or pair.alignment.is_identity
    if not bits or not whole or metrics.nan_candidate + metrics.inf_candidate or metrics.max_abs > 2.0 ** (1 - bits):
        return pair
    return replace(pair, status="match", reason=f"they differ by one step of {bits} bits at most")


def _as_heard(pair: Pair) -> Pair:
    """Samples may agree where sounds do not: a part has no counterpart, or they are played at another rate."""
    if pair.status != "match" or pair.audio is None:
        return pair
    reference, candidate = (pair.audio[side]["sample_rate"] for side in ("reference", "candidate"))
    if reference != candidate:
        reason = f"the samples agree, but not the sample rate: {reference:,.10g} Hz against {candidate:,.10g} Hz"
        return replace(pair, status="mismatch", reason=reason)
    if pair.alignment is not None and pair.alignment.coverage < 1:
        return replace(pair, status="mismatch", reason="what was compared agrees, but a part has no counterpart")
    return pair


def _chosen(comparison: Comparison, name: str | None, sides: list[Trace]) -> list[Pair]:
    from firstdiff.errors import UsageError, did_you_mean

    heard = [pair for pair in comparison.pairs if pair.audio]
    if name is not None:
        found = [pair for pair in heard if pair.key == name]
        if not found:
            near = did_you_mean(name, [pair.key for pair in heard])
            raise UsageError(f"no sound on both sides is called {name!r}{near}")
        return found
    if not heard:
        reasons = [pair.reason for pair in comparison.pairs if pair.status == "failed" and pair.reason]
        why = f" ({reasons[0]})" if reasons else ""
        raise UsageError(f"there is no sound on both sides{why}; give WAV files, or the sample rate with --rate")
    alone = [pair for pair in comparison.pairs if not pair.audio and _is_sound(pair, sides)]
    return sorted((*heard, *alone), key=lambda pair: pair.index)


def _is_sound(pair: Pair, sides: list[Trace]) -> bool:
    """True if either side of a row is marked as audio."""
    from firstdiff.audio import marked

    infos = zip((pair.reference, pair.candidate), sides, strict=True)
    return any(info is not None and marked(side[info.name]) is not None for info, side in infos)


def _draw(path: Path, rows: list[Pair], sides: list[Trace]) -> Pair:
    """One picture: of the first sound that does not match, or of the first."""
    from firstdiff.audio import picture_of
    from firstdiff.errors import WriteError

    heard = [row for row in rows if row.audio]
    pair = next((row for row in heard if row.status != "match"), heard[0])
    assert pair.reference is not None, "a sound that was compared has two sides"
    assert pair.candidate is not None, "a sound that was compared has two sides"
    data = picture_of(sides[0][pair.reference.name], sides[1][pair.candidate.name], title=pair.key)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise WriteError(f"cannot write the picture {path} ({error.strerror or error})") from error
    return pair


def _print_text(comparison: Comparison, rows: list[Pair]) -> None:
    from firstdiff.cli.console import warn
    from firstdiff.reports.sentences import shape_and_type, title
    from firstdiff.reports.terminal import columns

    for warning in comparison.warnings:
        warn(warning)
    for pair in rows:
        _say(f"{title(pair)}: {pair.status}, {shape_and_type(pair)}", "bold" if pair.status == "match" else "bold red")
        judged = pair.metrics is not None and pair.metrics.mismatched and pair.status != "match"
        if pair.reason and not (judged and pair.audio is not None):
            _say(f"  {pair.reason}")
        if pair.audio is None:
            continue
        within_a_step = pair.status == "match" and pair.reason
        _say(f"  {pair.audio['verdict'].partition(';')[0] if within_a_step else pair.audio['verdict']}")
        for line in columns(list(_table(pair.audio))):
            _say(f"  {line}")
        for line in _relation(pair, pair.audio):
            _say(f"  {line}")


def _table(audio: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    reference, candidate = (list(_side(audio[side])) for side in ("reference", "candidate"))
    yield "", "reference", "candidate"
    for (label, one), (_, other) in zip(reference, candidate, strict=True):
        yield label, one, other


def _side(side: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "length", f"{side['seconds']:.6g} s, {side['frames']:,} frames"
    yield "rate, channels", f"{side['sample_rate']:,.10g} Hz, {side['channels']}"
    silent = side["peak_db"] is None
    yield "peak, RMS", "silent" if silent else f"{_db(side['peak_db'])}, {_db(side['rms_db'])}"
    yield "DC offset", f"{side['dc']:.3g}"
    yield "clipped", _clipped(side["clipping"])
    yield "clicks", _clicks(side["clicks"])
    yield "NaN, Inf", f"{side['nan']:,}, {side['inf']:,}"


def _relation(pair: Pair, audio: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"as they are:  SNR {_db(audio['snr_db'])}, scale-invariant {_db(audio['si_snr_db'])}, "
        f"log-mel distance {_db(audio['log_mel_db'])}"
    )
    delay = audio["delay"]
    if delay is not None:
        yield (
            f"delay:        {delay['samples']:.6g} samples ({1000 * delay['seconds']:.4g} ms), "
            f"correlation {delay['correlation']:.4g}"
        )
        yield f"gain:         {_db(audio['gain_db'])}, polarity {'inverted' if audio['polarity'] < 0 else 'kept'}"
        yield (
            f"once aligned: SNR {_db(audio['aligned_snr_db'])}, log-mel distance {_db(audio['aligned_log_mel_db'])}, "
            f"clicks in the difference: {_clicks(audio['clicks'])}"
        )
    if pair.metrics is not None and pair.metrics.max_abs:
        yield f"greatest difference: {pair.metrics.max_abs:.6g} at index {list(pair.metrics.argmax or ())}"


def _db(value: float | str | None) -> str:
    if value is None:
        return "-"
    return f"{value} dB" if isinstance(value, str) else f"{value:.4g} dB"


def _clipped(clipping: Mapping[str, Any]) -> str:
    return f"{clipping['count']:,} at {clipping['level']:.4g}" if clipping["count"] else "no"


def _clicks(clicks: Mapping[str, Any]) -> str:
    every = f", every {clicks['period']:,} samples" if clicks["period"] else ""
    return f"{clicks['count']:,}{every}"


def _print_json(comparison: Comparison, rows: list[Pair], picture: Path | None) -> None:
    from firstdiff.json_text import to_json

    typer.echo(
        to_json(
            {
                "schema": "firstdiff/audio/1",
                "reference": comparison.reference.path,
                "candidate": comparison.candidate.path,
                "verdict": "match" if all(pair.status == "match" for pair in rows) else "mismatch",
                "warnings": comparison.warnings,
                "picture": None if picture is None else str(picture),
                "sounds": [
                    {
                        "key": pair.key,
                        "status": pair.status,
                        "reason": pair.reason,
                        "metrics": pair.metrics,
                        "diagnosis": pair.diagnosis,
                        "audio": pair.audio,
                    }
                    for pair in rows
                ],
            },
            indent=1,
        )
    )


def _say(text: str, style: str | None = None) -> None:
    from firstdiff.cli.console import say
    from firstdiff.reports.terminal import shown

    say(shown(text), style)
