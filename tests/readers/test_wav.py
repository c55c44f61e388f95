from __future__ import annotations

import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.errors import ReadError
from firstdiff.readers.blob import Extent, StoredBlob, file_blob
from firstdiff.readers.format import Found
from firstdiff.readers.wav import FORMAT
from tests.readers.sample_files import (
    assert_bits,
    assert_reads_as,
    assert_survives,
    counted_decodes,
    damaged,
    refusal_of,
    source_of,
)

ENCODINGS = ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"]
CODECS = [("ULAW", 2), ("ALAW", 1), ("IMA_ADPCM", 2), ("MS_ADPCM", 1), ("GSM610", 1)]


def make_sample(path: Path) -> None:
    soundfile.write(path, sound(50, 2), 16_000, subtype="PCM_16", format="WAV")


def sound(frames: int, channels: int) -> np.ndarray:
    values = np.random.default_rng(frames).uniform(-1.2, 1.2, (frames, channels))
    values[:4] = [[1], [-1], [0], [0.999999]]
    return values


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.wav"


def opened(path: Path) -> Found:
    (found,) = FORMAT.open(file_blob(path))
    assert found.name == ""
    return found


def as_soundfile_reads(path: Path) -> np.ndarray:
    dtype = "float64" if soundfile.info(path).subtype == "DOUBLE" else "float32"
    values, _ = soundfile.read(path, dtype=dtype)
    return np.asarray(values)


@pytest.mark.parametrize("channels", [1, 2, 5])
@pytest.mark.parametrize("container", ["WAV", "WAVEX", "RF64"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_samples_have_the_bits_that_soundfile_gives(path: Path, encoding: str, container: str, channels: int) -> None:
    soundfile.write(path, sound(301, channels), 44_100, subtype=encoding, format=container)
    found = opened(path)
    assert FORMAT.sniff(file_blob(path))
    assert found.attrs == {"sample_rate": 44_100, "channels": channels, "encoding": encoding, "audio": True}
    assert_reads_as(source_of(found), as_soundfile_reads(path))


@pytest.mark.parametrize("width", [1, 2, 3])
def test_every_value_a_sample_can_have(path: Path, width: int) -> None:
    count = 1 << (8 * min(width, 2))
    # for 24 bits, every value of the upper two bytes under one of the lowest
    samples = np.arange(count, dtype="<u4") * (257 if width == 3 else 1)
    data = samples.view(np.uint8).reshape(-1, 4)[:, :width].tobytes()
    path.write_bytes(riff(fmt(1, 1, 8 * width), (b"data", data)))
    assert_bits(source_of(opened(path)).view(), as_soundfile_reads(path))


@pytest.mark.parametrize(("encoding", "channels"), CODECS)
def test_other_encodings_go_through_soundfile(path: Path, encoding: str, channels: int) -> None:
    soundfile.write(path, sound(3000, channels), 8_000, subtype=encoding, format="WAV")
    found = opened(path)
    assert found.attrs == {"sample_rate": 8_000, "channels": channels, "encoding": encoding, "audio": True}
    assert_reads_as(source_of(found), as_soundfile_reads(path))


def test_without_soundfile_the_message_tells_what_to_install(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soundfile.write(path, sound(50, 1), 8_000, subtype="ULAW", format="WAV")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    assert refusal_of(FORMAT, path) == (
        "is sound that takes a codec, which needs soundfile: pip install 'firstdiff[audio]'"
    )
    make_sample(path)
    assert source_of(opened(path)).shape == (50, 2)


@pytest.mark.parametrize("encoding", ["PCM_24", "FLOAT", "ALAW"])
def test_a_member_of_an_archive_is_read_in_place(path: Path, tmp_path: Path, encoding: str) -> None:
    soundfile.write(path, sound(400, 2), 8_000, subtype=encoding, format="WAV")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("before", b"x" * 999)
        archive.write(path, "x.wav")
        archive.writestr("after", b"x" * 999)
    first = (tmp_path / "x.zip").read_bytes().index(b"RIFF")
    blob = StoredBlob("x.wav", "x.zip!x.wav", Extent(str(tmp_path / "x.zip"), first, path.stat().st_size))
    (found,) = FORMAT.open(blob)
    assert_reads_as(source_of(found), as_soundfile_reads(path))


def test_a_nan_keeps_its_payload(path: Path) -> None:
    bits = np.array([0x7FC00001, 0xFFA12345, 0x7F800001], "<u4")
    path.write_bytes(riff(fmt(3, 1, 32), (b"data", bits.tobytes())))
    assert source_of(opened(path)).read().view(np.uint32).tolist() == bits.tolist()


def riff(*chunks: tuple[bytes, bytes], kind: bytes = b"RIFF", size: int | None = None) -> bytes:
    body = b"WAVE" + b"".join(
        name + len(data).to_bytes(4, "little") + data + b"\0" * (len(data) % 2) for name, data in chunks
    )
    return kind + (len(body) if size is None else size).to_bytes(4, "little") + body


def fmt(tag: int, channels: int, bits: int, rate: int = 8000, align: int | None = None) -> tuple[bytes, bytes]:
    align = channels * bits // 8 if align is None else align
    return b"fmt ", struct.pack("<HHIIHH", tag, channels, rate, rate * align, align, bits)


MONO = fmt(1, 1, 16)
SAMPLES = np.array([1, -2, 3, -4], "<i2")


def test_chunks_nobody_asked_for_are_stepped_over(path: Path) -> None:
    path.write_bytes(
        riff((b"JUNK", b"x" * 7), MONO, (b"LIST", b"y" * 33), (b"data", SAMPLES.tobytes()), (b"id3 ", b"z"))
    )
    assert_bits(source_of(opened(path)).view(), as_soundfile_reads(path))


def test_odd_bytes_at_the_end_are_no_frame(path: Path) -> None:
    path.write_bytes(riff(fmt(1, 2, 16), (b"data", SAMPLES.tobytes() + b"odd")))
    assert source_of(opened(path)).shape == (2, 2)


@pytest.mark.parametrize("odd", [fmt(1, 2, 16, align=2), fmt(1, 1, 12, align=2), fmt(1, 1, 20, align=3)])
def test_an_odd_layout_is_read_as_soundfile_takes_it(path: Path, odd: tuple[bytes, bytes]) -> None:
    path.write_bytes(riff(odd, (b"data", bytes(range(48)))))
    assert_reads_as(source_of(opened(path)), as_soundfile_reads(path))


def test_no_sound_at_all_is_an_empty_tensor(path: Path) -> None:
    path.write_bytes(riff(MONO, (b"data", b"")))
    assert_reads_as(source_of(opened(path)), np.empty(0, np.float32))
    path.write_bytes(riff(fmt(1, 3, 24), (b"data", b""), (b"LIST", b"abcd")))
    assert_reads_as(source_of(opened(path)), np.empty((0, 3), np.float32))


@pytest.mark.parametrize("claimed", [0, 0xFFFFFFFF, 1000])
def test_a_stream_that_was_never_closed_is_read_as_far_as_it_goes(path: Path, claimed: int) -> None:
    whole = riff(MONO, (b"data", SAMPLES.tobytes()), size=0xFFFFFFFF)
    at = whole.index(b"data") + 4
    path.write_bytes(whole[:at] + claimed.to_bytes(4, "little") + whole[at + 4 :])
    found = opened(path)
    assert_bits(source_of(found).view(), SAMPLES.astype(np.float32) / 32768)
    assert found.attrs["note"] == f"the header gives {claimed:,} bytes of sound; the 8 that are there were taken"


def test_the_wide_size_of_rf64_counts(path: Path) -> None:
    sizes = struct.pack("<QQQI", 0, SAMPLES.nbytes, 4, 0)
    whole = riff((b"ds64", sizes), MONO, (b"data", SAMPLES.tobytes()), (b"LIST", b"more"), kind=b"RF64")
    path.write_bytes(whole.replace(b"data\x08\0\0\0", b"data\xff\xff\xff\xff"))
    found = opened(path)
    assert source_of(found).shape == (4,)
    assert "note" not in found.attrs


def test_sound_of_gigabytes_is_listed_and_sliced_without_reading_it(path: Path) -> None:
    frames = 1 << 30
    sizes = struct.pack("<QQQI", 0, 6 * frames, frames, 0)
    head = riff((b"ds64", sizes), fmt(1, 2, 24), (b"data", b""), kind=b"RF64")[:-4] + b"\xff\xff\xff\xff"
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + 6 * frames)
    source = source_of(opened(path))
    assert source.shape == (frames, 2)
    assert source.read((slice(frames - 3, None), 1)).tolist() == [0, 0, 0]
    assert source.window(2 * frames - 5, 2 * frames).tolist() == [0] * 5


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "does not start as a WAV file does"),
        (b"RIFX\0\0\0\0WAVE", "does not start as a WAV file does"),
        (b"RIFF\0\0\0\0AVI ", "does not start as a WAV file does"),
        (riff(), "has no sound in it (no data chunk); was it cut off?"),
        (riff(MONO), "has no sound in it (no data chunk); was it cut off?"),
        (riff((b"data", b"abcd")), "has sound before it says what kind (no fmt chunk before its data)"),
        (riff((b"fmt ", b"abcd"), (b"data", b"abcd")), "has a fmt chunk of 4 bytes, too short to be one"),
        (riff((b"ds64", b"abcd"), kind=b"RF64"), "has a ds64 chunk of 4 bytes, too short to be one"),
        (riff(fmt(1, 0, 16), (b"data", b"abcd")), "claims 0 channels at 8000 samples a second"),
        (riff(fmt(1, 1, 16, rate=0), (b"data", b"abcd")), "claims 1 channels at 0 samples a second"),
        (riff(*[(b"JUNK", b"")] * 10_001), "has more than 10,000 chunks and still no sound"),
        (riff(fmt(0x1234, 1, 16), (b"data", b"abcd")), "is sound that soundfile does not read ("),
        (riff(fmt(3, 1, 16), (b"data", b"abcd")), "is sound that soundfile does not read ("),
    ],
)
def test_a_bad_file_says_why(path: Path, data: bytes, says: str) -> None:
    path.write_bytes(data)
    assert str(refusal_of(FORMAT, path)).startswith(says)


@pytest.mark.parametrize("encoding", ["PCM_16", "ALAW"])
def test_a_file_cut_off_anywhere_gives_the_frames_that_are_whole(path: Path, encoding: str) -> None:
    soundfile.write(path, sound(20, 2), 16_000, subtype=encoding, format="WAV")
    whole, expected = path.read_bytes(), as_soundfile_reads(path)
    first = whole.index(b"data") + 8
    width = 4 if encoding == "PCM_16" else 2
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        refusal = refusal_of(FORMAT, path)
        if end < first:
            assert refusal is not None
            continue
        frames = (end - first) // width
        assert source_of(opened(path)).read().tolist() == expected[:frames].tolist()


def test_a_file_that_shrinks_after_listing_is_an_error_with_its_name(path: Path) -> None:
    make_sample(path)
    source = source_of(opened(path))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ReadError, match="was it cut off") as raised:
        source.read()
    assert raised.value.label == str(path)


def test_a_coded_file_that_shrinks_after_listing_is_an_error_with_its_name(path: Path) -> None:
    soundfile.write(path, sound(500, 2), 16_000, subtype="ULAW", format="WAV")
    source = source_of(opened(path))
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(ReadError, match="ends 250 frames early; was it cut off") as raised:
        source.window(0, source.size)
    assert raised.value.label == str(path)
    path.unlink()
    with pytest.raises(ReadError, match="is gone") as raised:
        source.read()
    assert raised.value.label == str(path)


@pytest.mark.parametrize("encoding", ["PCM_16", "PCM_24"])
def test_a_window_decodes_what_is_asked_for_and_no_more(path: Path, encoding: str) -> None:
    soundfile.write(path, sound(4000, 2), 16_000, subtype=encoding, format="WAV")
    source = source_of(opened(path))
    decoded = counted_decodes(source)
    source.window(100, 107)
    source.read((slice(1000, 1010), 1))
    source.read((slice(0, 100, 10),))
    assert decoded == [7, 10, 20]


@settings(max_examples=200)
@given(data=st.data(), encoding=st.sampled_from(["PCM_16", "ULAW", "IMA_ADPCM"]))
def test_damage_is_an_error_and_never_a_crash(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, encoding: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.wav"
    soundfile.write(path, sound(50, 2), 16_000, subtype=encoding, format="WAV")
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    assert_survives(FORMAT, path)
