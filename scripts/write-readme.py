"""Write what README.md shows of the demo: the report of `firstdiff compare`, and a picture of the page.

python scripts/write-readme.py            # both; the picture needs Chromium and Playwright
python scripts/write-readme.py --report   # the report alone
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "images" / "page.png"
COMMAND = ("compare", "demo/reference.trace", "demo/candidate.trace")
_FIRSTDIFF = (sys.executable, "-m", "firstdiff")
_BLOCK = re.compile(r"^```\n\$ firstdiff compare .*?^```$", re.DOTALL | re.MULTILINE)
_SIZE = (1280, 760)


def report() -> str:
    """Return what the command prints of the demo, as the block of README.md."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*_FIRSTDIFF, "demo", "-o", "demo"], cwd=folder, check=True, capture_output=True)
        ran = subprocess.run([*_FIRSTDIFF, *COMMAND], cwd=folder, check=False, capture_output=True, encoding="utf-8")
    if ran.returncode != 1:
        raise SystemExit(f"the demo has a planted bug, but compare ended with {ran.returncode}: {ran.stderr}")
    return f"```\n$ firstdiff {' '.join(COMMAND)}\n{ran.stdout}```"


def with_report(text: str, block: str) -> str:
    """Return the text of README.md with that block in the place of the one it has."""
    if len(_BLOCK.findall(text)) != 1:
        raise SystemExit("README.md must hold one block that begins with `$ firstdiff compare`")
    return _BLOCK.sub(lambda _: block, text)


def take_picture(target: Path) -> None:
    """Write a picture of the page that `firstdiff demo` opens, with the rows that differ."""
    from pictures import open_page, picture_comparison

    with open_page("demo", size=_SIZE) as page:
        picture_comparison(page, target)


def main() -> None:
    """Write the report, and the picture unless `--report` is given."""
    README.write_text(with_report(README.read_text("utf-8"), report()), encoding="utf-8", newline="\n")
    if "--report" not in sys.argv[1:]:
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        take_picture(PICTURE)


if __name__ == "__main__":
    main()
