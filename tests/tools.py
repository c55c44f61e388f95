"""Programs that tests drive and a machine may lack."""

from __future__ import annotations

import os
import shutil

import pytest


def needs(program: str) -> str:
    """The path of a program; without it the test is skipped by name, and fails where CI=true."""
    found = shutil.which(program)
    if found is None:
        sentence = f"{program} is not installed: run `sudo apt-get install {program}`"
        if os.environ.get("CI") == "true":
            pytest.fail(sentence)
        pytest.skip(sentence)
    return found
