from __future__ import annotations

import pytest

from firstdiff.trace.order import STAGES, layer_and_stage, natural_key, rule_for, sort_key


@pytest.mark.parametrize(
    ("names", "rule"),
    [
        (["01_tokens", "02_mel", "10_audio"], "numbered"),
        (["1_tokens", "2_mel", "10_audio"], "numbered"),
        (["001", "002"], "numbered"),
        (["01_a", "02_b", "02_c", "03_d"], "numbered"),
        (["0_query", "0_key", "1_query", "1_key"], "layer_stage"),
        (["0_query", "0_key"], "layer_stage"),
        (["00_query", "00_key", "01_query", "01_key"], "layer_stage"),
        (["tokens", "mel"], "natural"),
        (["1_tokens", "mel"], "natural"),
        ([], "natural"),
    ],
)
def test_the_rule_names_follow(names: list[str], rule: str) -> None:
    assert rule_for(names) == rule


def test_stages_come_in_the_order_of_execution_and_others_after_them() -> None:
    names = ["1_query", "0_zeta", *(f"0_{stage}" for stage in reversed(STAGES)), "10_key", "2_key"]
    got = sorted(names, key=lambda name: sort_key("layer_stage", name))
    assert got == [*(f"0_{stage}" for stage in STAGES), "0_zeta", "1_query", "2_key", "10_key"]


def test_numbers_inside_names_count_as_numbers() -> None:
    assert sorted(["h.10.ln", "h.9.ln", "h.9.attn", "h"], key=natural_key) == ["h", "h.9.attn", "h.9.ln", "h.10.ln"]


def test_names_without_a_number_come_last_under_a_numbered_rule() -> None:
    assert sorted(["b", "2_x", "a", "1_y"], key=lambda name: sort_key("numbered", name)) == ["1_y", "2_x", "a", "b"]


@pytest.mark.parametrize(
    ("name", "found"), [("3_query", (3, "query")), ("0_post_mlp", (0, "post_mlp")), ("query", None), ("3", None)]
)
def test_layer_and_stage(name: str, found: tuple[int, str] | None) -> None:
    assert layer_and_stage(name) == found
