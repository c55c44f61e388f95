"""Table rows: Fourier transforms and mel spectrograms."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from firstdiff.ops.mel import mel_scale, mel_spectrogram, spectrogram
from firstdiff.ops.plan import Plan
from firstdiff.ops.spectral import istft, stft
from firstdiff.ops.table.call import Call, UnrecordedError
from firstdiff.ops.table.row import Row, named

_FRAMES = ("n_fft", "hop_length", "win_length")
_SPECTROGRAM = (*_FRAMES, "center", "pad", "pad_mode", "normalized", "power")
_MEL = ("sample_rate", "n_mels", "f_min", "f_max")


def _stft(call: Call) -> Iterator[Plan]:
    if call.told("return_complex") is False:
        raise UnrecordedError(f"{call.name} gives pairs of real numbers", "call it with return_complex=True")
    arrays = {"input": call.main(), "window": call.optional("window")}
    call.needed("n_fft")
    yield Plan.of(stft, arrays, **call.read(*_FRAMES, "center", "pad_mode", "normalized", "onesided").settings)


def _istft(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.main(), "window": call.optional("window")}
    call.needed("n_fft")
    yield Plan.of(istft, arrays, **call.read(*_FRAMES, "center", "normalized", "length").settings)


def _spectrogram(call: Call) -> Iterator[Plan]:
    call.needed("n_fft")
    power = call.attrs.get("power", 2.0)  # None is a setting here: the complex spectrum
    settings = {**call.read(*_SPECTROGRAM).settings, "power": power}
    yield Plan.of(spectrogram, {"input": call.main(), "window": call.optional("window")}, **settings)


def _mel_scale(call: Call) -> Iterator[Plan]:
    yield Plan.of(mel_scale, {"input": call.main(), "filters": call.array("fb").T})


def _mel_spectrogram(call: Call) -> Iterator[Plan]:
    """Window and filters are buffers of torchaudio's module; without the filters their kind is open."""
    call.needed("n_fft")
    call.needed("sample_rate")
    filters = call.optional("mel_scale.fb", "fb")
    arrays = {
        "input": call.main(),
        "window": call.optional("spectrogram.window", "window"),
        "filters": None if filters is None else filters.T,
    }
    settings = call.read(*_SPECTROGRAM, *_MEL).settings
    if filters is not None:
        yield Plan.of(mel_spectrogram, arrays, **settings)
        return
    for scale, norm in product(("htk", "slaney"), (None, "slaney")):
        yield Plan.of(mel_spectrogram, arrays, scale=scale, norm=norm, assumed=("scale", "norm"), **settings)


ROWS = (
    Row(supports=named("stft"), plans=_stft, each_token_alone=False),
    Row(supports=named("istft"), plans=_istft, each_token_alone=False),
    Row(supports=named("Spectrogram"), plans=_spectrogram, each_token_alone=False),
    Row(supports=named("MelScale"), plans=_mel_scale, each_token_alone=False),
    Row(supports=named("MelSpectrogram"), plans=_mel_spectrogram, each_token_alone=False),
)
