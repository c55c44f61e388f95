"""A short run of `make fuzz` in this process, over every format."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from firstdiff.readers import open_trace
from tests.readers.damage import SAMPLES, damaged, read_everything


@pytest.mark.parametrize("name", SAMPLES)
def test_an_undamaged_sample_is_read_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"x.{name}"
    path.write_bytes(SAMPLES[name]())
    for tensor in open_trace(path):
        tensor.values().read()


@pytest.mark.parametrize("name", SAMPLES)
def test_damage_gives_values_or_a_read_error_and_nothing_else(tmp_path: Path, name: str) -> None:
    rng = random.Random(name)
    path = tmp_path / f"x.{name}"
    for _ in range(150):
        path.write_bytes(damaged(SAMPLES[name](), rng))
        read_everything(path)
