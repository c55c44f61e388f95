from __future__ import annotations

import numpy as np

from firstdiff.pairing import pair_up
from firstdiff.trace import Trace
from tests.pairing.traces import named, pairs_of, random


def test_the_only_tensor_of_each_side_is_a_pair_and_it_is_said() -> None:
    result = pair_up(named("mel"), named("something"))
    assert pairs_of(result) == [("mel", "something")]
    assert result.pairs[0].pairing.method == "order"
    assert result.warnings == (
        "mel and something are paired as the only tensor of each side, though their names differ",
    )


def test_two_against_one_are_not_paired_by_being_alone() -> None:
    ours = Trace.from_arrays(random(["mel", "text"]))
    assert pair_up(ours, Trace.from_arrays({"something": np.arange(60.0)})).pairs == ()
