from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from firstdiff.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "home")
    yield opened
    opened.close()
