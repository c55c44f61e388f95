"""Imports point the way ARCHITECTURE.md says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "firstdiff"
ROW = re.compile(r"\| L(\d) \| ([^|]+) \|")
SIBLINGS = {("pairing", "align"), ("locate", "judge")}
CAPTURE_SEES = {"measure"}


def layers() -> dict[str, int]:
    table = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    return {name: int(level) for level, names in ROW.findall(table) for name in re.findall(r"`(\w+)`", names)}


def unit_of(module: str) -> str:
    """`firstdiff.readers.npy` belongs to `readers`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imports_of(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import"
            found |= (
                {f"{node.module}.{alias.name}" for alias in node.names}
                if node.module == "firstdiff"
                else {node.module or ""}
            )
    return {unit_of(module) for module in found if module.split(".")[0] == "firstdiff"} - {""}


def allowed(importer: str, imported: str, level: dict[str, int]) -> bool:
    if imported == importer or (importer, imported) in SIBLINGS:
        return True
    if importer == "capturing":
        return level[imported] == 0 or imported in CAPTURE_SEES
    return level[imported] < level[importer] or (level[importer] == 0 and level[imported] == 0)


def modules() -> list[Path]:
    """All but the package's own two doors, which may use everything."""
    return [file for file in PACKAGE.rglob("*.py") if file not in (PACKAGE / "__init__.py", PACKAGE / "__main__.py")]


@pytest.mark.parametrize("file", modules(), ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_imports_point_down(file: Path) -> None:
    level = layers()
    importer = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert importer in level, f"{importer} stands in no row of ARCHITECTURE.md"
    wrong = {name for name in imports_of(file) if name != "__version__" and not allowed(importer, name, level)}
    assert not wrong, f"{file.relative_to(ROOT)} imports {', '.join(sorted(wrong))}"


def test_the_table_names_every_layer() -> None:
    assert set(layers().values()) == set(range(8))


def test_the_check_can_fail() -> None:
    level = layers()
    assert not allowed("readers", "comparing", level)
    assert not allowed("align", "pairing", level)
    assert allowed("pairing", "align", level)
    assert not allowed("capturing", "readers", level)


def test_words_of_the_lowest_layer_do_not_form_a_cycle() -> None:
    graph = {
        name: set().union(
            *(
                imports_of(file) - {name}
                for file in modules()
                if file.relative_to(PACKAGE).parts[0].removesuffix(".py") == name
            )
        )
        for name, number in layers().items()
        if number == 0
    }
    while leaves := {name for name, needs in graph.items() if not needs & graph.keys()}:
        graph = {name: needs for name, needs in graph.items() if name not in leaves}
    assert not graph


def test_the_table_lists_only_what_is_there() -> None:
    there = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert set(layers()) <= there
