"""`python -m bench [part …]`: run the parts, print one table, save it as JSON."""

from __future__ import annotations

import importlib
import json
import platform
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.row import Row

PARTS = (
    "opening",
    "kernels",
    "comparing",
    "differing",
    "capture",
    "onnx_capture",
    "clients",
    "pairing",
    "align",
    "locate",
    "diagnose",
    "page",
    "inspecting",
)
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    wanted = sys.argv[1:] or PARTS
    rows: dict[str, list[Row]] = {}
    for part in wanted:
        print(f"{part} …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="firstdiff-bench-") as folder:
            rows[part] = importlib.import_module(f"bench.{part}").run(Path(folder))
    _print(rows)
    RESULTS.mkdir(exist_ok=True)
    result = {
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "rows": [{"part": part, **asdict(row)} for part, found in rows.items() for row in found],
    }
    (RESULTS / "latest.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    return 0 if all(row.ok is not False for found in rows.values() for row in found) else 1


def _print(rows: dict[str, list[Row]]) -> None:
    width = max(len(row.name) for found in rows.values() for row in found)
    for part, found in rows.items():
        print(f"\n{part}")
        for row in found:
            mark = {True: "ok", False: "MISSED", None: ""}[row.ok]
            print(f"  {row.name:<{width}}  {row.value:>10.4g} {row.unit:<5} {row.target:<10} {mark}".rstrip())


if __name__ == "__main__":
    sys.exit(main())
