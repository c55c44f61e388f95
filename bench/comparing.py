"""Comparing: the whole command against a plain script, memory at two sizes, many small tensors, two tiny files."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np

from bench.commands import cost, firstdiff, median_cost, script
from bench.row import Row, at_least, at_most
from firstdiff.trace import Record, TraceWriter
from firstdiff.trace.order import STAGES

LAYERS = 8
MEMBER = (890, 1000)  # float32: 3.56 MB, 104 of them are 370 MB
LARGE_MEMBER = (9615, 1000)  # 104 of them are 4 GB
SMALL = 10_000

# what people write by hand: extract, load, and one torch expression for each figure
PLAIN_SCRIPT = """
import sys, tempfile, zipfile
from pathlib import Path
import torch

with tempfile.TemporaryDirectory() as folder:
    sides = []
    for number, path in enumerate(sys.argv[1:3]):
        target = Path(folder) / str(number)
        zipfile.ZipFile(path).extractall(target)
        sides.append({file.stem: file for file in target.rglob("*.pth")})
    for name in sorted(sides[0]):
        r, c = (torch.load(side[name], weights_only=True) for side in sides)
        for x in (r, c):
            x.mean().item(), x.std().item(), x.min().item(), x.max().item()
        d = (c - r).abs()
        print(name, d.max().item(), d.mean().item(), (d * d).mean().sqrt().item(),
              torch.nn.functional.cosine_similarity(r.flatten(), c.flatten(), dim=0).item(),
              torch.allclose(c, r, rtol=1.3e-6, atol=1e-5))
"""


def run(folder: Path) -> list[Row]:
    """The rows of this part; files are made in `folder`."""
    return [*_dumps(folder), *_small(folder)]


def _dumps(folder: Path) -> list[Row]:
    sides = [_dump(folder / f"{side}.zip", MEMBER, side == "candidate") for side in ("reference", "candidate")]
    command = median_cost(firstdiff("compare", *sides))
    plain = median_cost(script(PLAIN_SCRIPT, *sides), times=3)
    large = [
        _dump(folder / f"large-{side}.zip", LARGE_MEMBER, side == "candidate") for side in ("reference", "candidate")
    ]
    at_4_gb = cost(firstdiff("compare", *large))
    by_numpy = cost(firstdiff("compare", *large, "--engine", "numpy"))
    for path in (*sides, *large):
        path.unlink()
    return [
        Row("two zips of 104 .pth, 370 MB a side: firstdiff compare, CPU", command.cpu, "s"),
        Row("the same by a plain torch script, CPU", plain.cpu, "s"),
        at_least("times less CPU than the script", plain.cpu / command.cpu, "x", 8),
        at_most("peak memory at 370 MB a side", command.peak_mb, "MB", 250),
        at_most("peak memory at 4 GB a side", max(at_4_gb.peak_mb, by_numpy.peak_mb), "MB", 250),
        Row("4 GB a side", at_4_gb.seconds, "s"),
        Row("4 GB a side, numpy", by_numpy.seconds, "s"),
    ]


def _small(folder: Path) -> list[Row]:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((16, 64)).astype(np.float32)
    for side in ("a", "b"):
        with TraceWriter(folder / side) as writer:
            for n in range(SMALL):
                writer.write(Record(name=f"layers.{n}.mlp", seq=n), values)
        np.save(folder / f"{side}.npy", values)
    many = cost(firstdiff("compare", folder / "a", folder / "b"))
    tiny = median_cost(firstdiff("compare", folder / "a.npy", folder / "b.npy"))
    return [
        at_most(f"{SMALL:,} small tensors a side, each", 1000 * many.seconds / SMALL, "ms", 1),
        at_most("two tiny files, CPU", tiny.cpu, "s", 0.5),
    ]


def _dump(path: Path, shape: tuple[int, int], candidate: bool) -> Path:
    """The dump of a healthy port: the last bits differ."""
    import torch

    values = torch.from_numpy(np.random.default_rng(0).standard_normal(shape, dtype=np.float32))
    if candidate:
        values *= 1 + 1e-7
    out = io.BytesIO()
    torch.save(values, out)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for layer in range(LAYERS):
            for stage in STAGES:
                archive.writestr(f"{layer}_{stage}.pth", out.getvalue())
    return path
