from __future__ import annotations

from pathlib import Path

import numpy as np

from firstdiff.comparing import compare
from firstdiff.pairing import parse_map
from firstdiff.pairing.map_file import map_of_rows

RNG = np.random.default_rng(0)


def test_the_map_pairs_as_the_comparison_did(tmp_path: Path) -> None:
    shared, turned = RNG.standard_normal((2, 5, 3)).astype("f4")
    reference = {"a": shared, "turned": turned, "left": RNG.standard_normal(7)}
    candidate = {"a": shared, "turned": turned.T.copy(), "right": RNG.standard_normal((4, 9))}
    before = compare(reference, candidate)
    text = map_of_rows(before)
    entries = {entry.reference: entry for entry in parse_map(text).entries}
    assert set(entries) == {("a",), ("turned",)}
    assert entries["turned",].recipe == before.pairs[1].alignment.recipe
    assert '# reference = "left"' in text
    (tmp_path / "map.toml").write_text(text, encoding="utf-8")
    after = compare(reference, candidate, map=tmp_path / "map.toml")
    assert [pair.status for pair in after.pairs] == [pair.status for pair in before.pairs]


def test_names_that_toml_would_take_for_something_else() -> None:
    names = ['a"b', "c\\d", "e\nf", "g\x7fh"]
    arrays = {name: RNG.standard_normal(4) for name in names}
    entries = parse_map(map_of_rows(compare(arrays, arrays))).entries
    assert [entry.reference for entry in entries] == [(name,) for name in names]


def test_parts_of_a_fused_tensor_are_a_list() -> None:
    parts = {f"layers.0.{name}_proj.weight": RNG.standard_normal((4, 8)).astype("f4") for name in "qkv"}
    fused = {"layers.0.qkv_proj.weight": np.concatenate(list(parts.values()))}
    before = compare(parts, fused)
    assert before.summary.match == 1
    (entry,) = parse_map(map_of_rows(before)).entries
    assert entry.reference == tuple(parts)
