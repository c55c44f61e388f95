"""Damage to files of every format, and the one thing that may come of it: ReadError."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import zstandard

from firstdiff.errors import ReadError
from firstdiff.readers import open_trace
from tests.readers import test_gguf_file, test_hdf5, test_json_file, test_npy, test_safetensors_file, test_wav


@cache
def _made(make: Callable[[Path], None], name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / name)
        return (Path(folder) / name).read_bytes()


def _npz(path: Path) -> None:
    np.savez(path, a=np.arange(6.0), b=np.array(True))


def _compressed_npz(path: Path) -> None:
    np.savez_compressed(path, a=np.arange(600.0), b=np.array(True))


def _pth(path: Path) -> None:
    import torch

    torch.save({"a": torch.arange(6.0), "n": {"b": torch.ones(2, 3, dtype=torch.bfloat16).T}, "k": 3}, path)


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("d/1_a.npy", _made(test_npy.make_sample, "x.npy"))
        archive.writestr("d/2_b.pth", _made(_pth, "x.pth"))
        archive.writestr("trace.json", '{"format": "firstdiff-trace", "version": 1}')
        archive.writestr("tensors.jsonl", '{"name": "x", "file": "d/1_a.npy"}\n')


def _tar(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        data = _made(test_npy.make_sample, "x.npy")
        info = tarfile.TarInfo("a.npy")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))


SAMPLES: dict[str, Callable[[], bytes]] = {
    "npy": lambda: _made(test_npy.make_sample, "x.npy"),
    "npz": lambda: _made(_npz, "x.npz"),
    "compressed.npz": lambda: _made(_compressed_npz, "x.npz"),
    "pth": lambda: _made(_pth, "x.pth"),
    "safetensors": lambda: _made(test_safetensors_file.make_sample, "x.safetensors"),
    "json": lambda: _made(test_json_file.make_sample, "x.json"),
    "wav": lambda: _made(test_wav.make_sample, "x.wav"),
    "gguf": lambda: _made(test_gguf_file.make_sample, "x.gguf"),
    "h5": lambda: _made(test_hdf5.make_sample, "x.h5"),
    "zip": lambda: _made(_zip, "x.zip"),
    "tar": lambda: _made(_tar, "x.tar"),
    "tar.gz": lambda: gzip.compress(_made(_tar, "x.tar")),
    "tar.zst": lambda: zstandard.compress(_made(_tar, "x.tar")),
}


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, cut out, repeated or replaced by large numbers."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        at = rng.randrange(len(found)) if found else 0
        kind = rng.randrange(5)
        if kind == 0:
            found[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del found[at:]
        elif kind == 2:
            del found[at : at + rng.randrange(1, 16)]
        elif kind == 3:
            found[at : at + 8] = rng.choice((b"\xff" * 8, bytes(8), b"\x00\x00\x00\x80\xff\xff\xff\x7f"))
        else:
            found[at:at] = found[at : at + rng.randrange(1, 64)]
    return bytes(found)


def read_everything(path: Path) -> None:
    """Open a file and read all of it; ReadError is the only exception that is let pass."""
    with suppress(ReadError):
        for tensor in open_trace(path):
            if tensor.source is not None and tensor.source.nbytes < 1 << 24:
                with suppress(ReadError):
                    tensor.source.read()
                    tensor.source.window(0, min(tensor.source.size, 7))
