"""The page's types are those of the server it is shipped with."""

from __future__ import annotations

from pathlib import Path

import hatch_build


def test_the_generated_types_are_those_of_the_servers_routes(tmp_path: Path) -> None:
    fresh = tmp_path / "schema.d.ts"
    hatch_build.write_types(fresh)
    same = fresh.read_text(encoding="utf-8") == hatch_build.TYPES.read_text(encoding="utf-8")
    assert same, "web/src/api/schema.d.ts is older than the server's routes: run `make types`"
