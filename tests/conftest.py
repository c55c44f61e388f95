from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("firstdiff", deadline=None, derandomize=True)
settings.load_profile("firstdiff")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unpacked members go to a folder of the test's own."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("FIRSTDIFF_CACHE", str(folder))
    return folder
