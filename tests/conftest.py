from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from firstdiff.settings import cache_folder

if TYPE_CHECKING:
    from playwright.sync_api import Playwright

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


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    """One for all tests of a process: a second one could not start beside it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright
