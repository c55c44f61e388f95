"""The programs that tests drive do run here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.tools import needs


def test_chromium_shows_a_page(tmp_path: Path) -> None:
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    flags += f" --disable-component-update --disable-sync --user-data-dir={tmp_path} --dump-dom"
    page = "data:text/html,<p id=p></p><script>p.textContent=6*7</script>"
    done = subprocess.run([needs("chromium"), *flags.split(), page], capture_output=True, text=True, check=True)
    assert '<p id="p">42</p>' in done.stdout


def test_rustc_compiles(tmp_path: Path) -> None:
    (tmp_path / "main.rs").write_text('fn main() { println!("{}", 6 * 7); }')
    subprocess.run([needs("rustc"), "main.rs"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert done.stdout == "42\n"


def test_a_missing_program_is_skipped_by_name_and_fails_under_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no-such-program is not installed"):
        needs("no-such-program")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no-such-program is not installed"):
        needs("no-such-program")
