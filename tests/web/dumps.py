"""Dumps to drop on the page: small ones that match, differ, or mean harm."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

LAYERS = 3
STAGES = ("ln_1", "attn", "mlp")


def npy(values: object) -> bytes:
    out = io.BytesIO()
    np.save(out, np.asarray(values))
    return out.getvalue()


def tensors(*, wrong_from: int | None = None, size: int = 48) -> dict[str, np.ndarray]:
    """The outputs of a small model; from layer `wrong_from` on they are off."""
    random = np.random.default_rng(7)
    made: dict[str, np.ndarray] = {}
    for layer in range(LAYERS):
        for stage in STAGES:
            values = random.standard_normal((4, size), np.float32)
            off = wrong_from is not None and layer >= wrong_from
            made[f"layers.{layer}.{stage}"] = values + np.float32(0.1) if off else values
    return made


def files(arrays: Mapping[str, np.ndarray]) -> dict[str, bytes]:
    return {f"{name}.npy": npy(values) for name, values in arrays.items()}


def write_folder(folder: Path, arrays: Mapping[str, np.ndarray]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files(arrays).items():
        (folder / name).write_bytes(data)
    return folder


def write_zip(path: Path, members: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def encrypted_zip(path: Path) -> Path:
    """Every member is marked as encrypted."""
    write_zip(path, {"x.npy": npy([1.0])})
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    return path


def bomb(path: Path) -> Path:
    """Claims two gigabytes in a few hundred bytes."""
    write_zip(path, {"x.npy": bytes(100_000)}, zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    size = (2 << 30).to_bytes(4, "little")
    entry = data.index(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = size
    data[22:26] = size
    path.write_bytes(data)
    return path


def hostile_pickle(path: Path, touches: Path) -> Path:
    """A .pth that would create the file `touches` if it were unpickled as pickle does it."""
    code = b"cbuiltins\nopen\n(V" + str(touches).encode("raw_unicode_escape") + b"\nVw\ntR."
    return write_zip(path, {"archive/data.pkl": code, "archive/version": b"3\n"})
