"""Write the pictures of docs/port-a-model.md: the speech example in a terminal and on the page.

cd examples/tts_port && make golden && make validate FAULT=modulate-one
python scripts/picture-port.py [PROJECT]   # needs Chromium and Playwright
"""

from __future__ import annotations

import sys
from pathlib import Path

from pictures import PATIENCE_MS, open_browser, open_page, picture_comparison, picture_terminal, run_in_terminal
from playwright.sync_api import expect

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "examples" / "tts_port"
PICTURES = ROOT / "docs" / "images"
FAULT = {"TTS_FAULT": "modulate-one"}
# a picture, the command whose output it shows, and where to begin
TERMINAL = (
    ("port-validate.png", ["validate", "--input", "short"], "component "),
    ("port-next.png", ["plan", "--next"], ""),
    ("port-bisect.png", ["bisect"], ""),
)


def picture_terminals(project: Path, target: Path) -> None:
    """Write what the commands print of a port with a mistake in it."""
    with open_browser() as browser:
        for name, command, start in TERMINAL:
            picture_terminal(browser, run_in_terminal(command, project, FAULT, start), target / name)


def picture_page(project: Path, target: Path) -> None:
    """Write port-project.png and port-comparison.png."""
    with open_page("serve", folder=project, size=(1280, 860)) as page:
        section = page.get_by_role("region", name="Project")
        expect(section).to_contain_text("vocoder", timeout=PATIENCE_MS)
        section.screenshot(path=target / "port-project.png")
        section.get_by_role("button", name="Open the comparison").first.click()
        picture_comparison(page, target / "port-comparison.png")


def main() -> None:
    project = Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT
    if not (project / ".firstdiff" / "validations").is_dir():
        raise SystemExit(f"{project} was not validated yet; run `make validate FAULT=modulate-one` in it first")
    PICTURES.mkdir(parents=True, exist_ok=True)
    picture_terminals(project, PICTURES)
    picture_page(project, PICTURES)


if __name__ == "__main__":
    main()
