"""Event loops for tests that share a worker with Playwright's, which never ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def in_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
