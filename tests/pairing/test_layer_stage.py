from __future__ import annotations

import pytest

from firstdiff.pairing import PairingOptions, pair_up
from firstdiff.pairing.by_name import LAYER_STAGE_STRATEGY
from firstdiff.trace.order import STAGES
from tests.pairing.traces import methods_of, named, paired, pairs_of


@pytest.mark.parametrize("spelling", ["0{layer}_{stage}", "{layer}.{stage}", "{layer}-{stage}", "{layer}_{STAGE}"])
def test_layer_and_stage_are_found_in_every_spelling(spelling: str) -> None:
    names = [f"{layer}_{stage}" for layer in range(3) for stage in STAGES]
    others = [spelling.format(layer=layer, stage=stage, STAGE=stage.upper()) for layer in range(3) for stage in STAGES]
    result = pair_up(named(*names), named(*reversed(others)))
    assert pairs_of(result) == list(zip(names, others, strict=True))
    assert methods_of(result) == {"layer_stage"}
    assert min(match.pairing.confidence for match in result.pairs) == 0.98


def test_a_layer_offset_moves_the_candidate() -> None:
    ours = named("3_query", "3_key", "4_query")
    assert paired(ours, named("00_query", "00_key", "01_query"), layer_offset=3) == [
        ("3_query", "00_query"),
        ("3_key", "00_key"),
        ("4_query", "01_query"),
    ]


def test_stages_of_other_names_are_paired_as_well() -> None:
    names = ["0_mix", "0_out", "1_mix", "1_out"]
    others = ["00_Mix", "00_Out", "01_Mix", "01_Out"]
    assert paired(named(*names), named(*others)) == list(zip(names, others, strict=True))


def test_a_number_that_counts_the_tensors_is_no_layer() -> None:
    only = PairingOptions(strategies=(LAYER_STAGE_STRATEGY,))
    ours, theirs = named("01_mel", "02_text", "03_out"), named("1_mel", "2_out", "3_text")
    assert pair_up(ours, theirs, only).pairs == ()


def test_tensors_are_paired_by_what_stands_behind_a_number_that_counts() -> None:
    ours, theirs = named("01_mel", "02_text", "03_out"), named("1_mel", "2_out", "3_text")
    assert paired(ours, theirs) == [("01_mel", "1_mel"), ("02_text", "3_text"), ("03_out", "2_out")]
