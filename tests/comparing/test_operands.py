from __future__ import annotations

import numpy as np
import pytest

from firstdiff.comparing import compare
from firstdiff.schema import Verdict
from firstdiff.trace import ArraySource, Record, Role, Tensor, Trace


def trace(*tensors: tuple[str, Role, str]) -> Trace:
    return Trace("t", tuple(Tensor(Record(name=n, role=r, op=op), ArraySource(np.arange(4.0))) for n, r, op in tensors))


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        (("norm.pow", "input", "pow"), "match"),
        (("norm", "input", "RMSNorm"), "mismatch"),
        (("norm.mul", "input", "mul"), "mismatch"),
        (("norm.mul", "output", "mul"), "mismatch"),
    ],
)
def test_an_operand_that_only_one_side_had_to_write_is_no_loss(
    more: tuple[str, Role, str], verdict: Verdict, swapped: bool
) -> None:
    both: list[tuple[str, Role, str]] = [("norm.pow", "output", "pow"), ("norm", "output", "RMSNorm")]
    sides = [trace(*both), trace(more, *both)]
    assert compare(*(reversed(sides) if swapped else sides)).verdict == verdict
