from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from firstdiff.settings import cache_folder

settings.register_profile("firstdiff", deadline=None, derandomize=True)
settings.load_profile("firstdiff")


KERNELS = cache_folder() / "kernels"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unpacked members go to a folder of the test's own; compiled code, which takes long to make, is shared."""
    folder = tmp_path_factory.mktemp("cache")
    KERNELS.mkdir(parents=True, exist_ok=True)
    (folder / "kernels").symlink_to(KERNELS, target_is_directory=True)
    monkeypatch.setenv("FIRSTDIFF_CACHE", str(folder))
    unpacked = folder / "unpacked"
    unpacked.mkdir()
    return unpacked
