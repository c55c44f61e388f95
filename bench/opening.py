"""Opening: listing many members, touching one slice, reading a large file in little memory."""

from __future__ import annotations

import io
import subprocess
import zipfile
from pathlib import Path

import numpy as np

from bench.commands import cost, firstdiff, median_cost, script
from bench.row import Row, at_most

MEMBERS = 1000
LARGE = 4 << 30

LOAD_ALL = """
import io, sys, zipfile, torch
with zipfile.ZipFile(sys.argv[1]) as archive:
    for name in archive.namelist():
        tensor = torch.load(io.BytesIO(archive.read(name)), weights_only=True)
        print(name, tuple(tensor.shape), tensor.dtype)
"""

# the peak is set back (Linux) right before 4 MB out of 4 GB are read
ONE_SLICE = """
import sys
from pathlib import Path
from firstdiff.readers import open_trace

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))

source = open_trace(sys.argv[1]).tensors[0].values()
Path("/proc/self/clear_refs").write_text("5")
before = peak()
source.read((slice(512, 516), slice(0, 1 << 18)))
sys.stderr.write(str(peak() - before))
"""


def run(folder: Path) -> list[Row]:
    """The rows of this part; files are made in `folder`."""
    archive = _many_members(folder / "many.zip")
    listing = median_cost(firstdiff("inspect", archive, "--no-statistics"))
    loading = median_cost(script(LOAD_ALL, archive), times=3)
    large = _large_file(folder / "large.npy")
    touched = subprocess.run(script(ONE_SLICE, large), check=True, capture_output=True, text=True)
    whole = cost(firstdiff("inspect", large))
    rows = [
        Row(f"list a stored zip of {MEMBERS:,} .pth", listing.seconds, "s"),
        Row("torch.load of each of them", loading.seconds, "s"),
        at_most("listing, of torch.load", listing.seconds / loading.seconds, "x", 0.1),
        at_most("memory that reading 4 MB of a 4 GB tensor adds", float(touched.stderr), "MB", 16),
        at_most("peak memory: statistics of a 4 GB file", whole.peak_mb, "MB", 250),
        Row("statistics of a 4 GB file", LARGE / whole.seconds / 1e9, "GB/s"),
    ]
    archive.unlink()
    large.unlink()
    return rows


def _many_members(path: Path) -> Path:
    import torch

    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for n in range(MEMBERS):
            out = io.BytesIO()
            torch.save(torch.full((512, 512), float(n)), out)
            archive.writestr(f"{n // 13}_stage{n % 13}.pth", out.getvalue())
    return path


def _large_file(path: Path) -> Path:
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(1024, LARGE // 4 // 1024))
    noise = np.random.default_rng(0).standard_normal(rows.shape[1], dtype=np.float32)
    for n in range(rows.shape[0]):
        rows[n] = noise
    rows.flush()
    return path
