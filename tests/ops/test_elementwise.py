from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from firstdiff.ops.elementwise import BY_NAME, elementwise
from tests.ops.oracle import assert_agrees, double, values

NOT_IN_TORCH_ITSELF = {"softsign": functional.softsign, "tanhshrink": functional.tanhshrink}


@pytest.mark.parametrize("kind", BY_NAME)
def test_functions_are_torchs(kind: str) -> None:
    theirs = NOT_IN_TORCH_ITSELF.get(kind) or getattr(torch, kind)
    for x in (values(1, 4, 5), np.array([0.0, 0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, -1.0]), np.array(0.3)):
        assert_agrees(elementwise(x, kind=kind), theirs(double(x)))


def test_unknown_functions_are_refused() -> None:
    with pytest.raises(ValueError, match="no function is called 'cube'"):
        elementwise(np.zeros(1), kind="cube")
