"""Masks are compared by what they hide, however they are written."""

from __future__ import annotations

import numpy as np
import pytest

import firstdiff as fd
from firstdiff.judge import tokens_that_see_nothing
from firstdiff.schema import Comparison

SEEN = np.tril(np.ones((1, 1, 8, 8), bool))
ADDED = np.where(SEEN, 0, np.finfo(np.float32).min).astype(np.float32)
FORMS = {
    "bool": SEEN,
    "without batch and heads": SEEN[0, 0],
    "repeated": np.repeat(np.repeat(SEEN, 2, axis=0), 4, axis=1),
    "int": SEEN.astype(np.int64),
    "0 and 1 as floats": SEEN.astype(np.float32),
    "-inf": np.where(SEEN, 0, -np.inf).astype(np.float32),
    "True for hidden": ~SEEN,
}


def compared(reference: np.ndarray, candidate: np.ndarray) -> Comparison:
    values = np.linspace(0, 1, 9, dtype=np.float32)
    return fd.compare({"attention_mask": reference, "values": values}, {"attention_mask": candidate, "values": values})


@pytest.mark.parametrize("form", FORMS)
def test_masks_that_hide_the_same_places_match(form: str) -> None:
    assert compared(ADDED, FORMS[form]).verdict == "match"
    assert compared(FORMS[form], ADDED).verdict == "match"


@pytest.mark.parametrize("form", [form for form in FORMS if form != "repeated"])
def test_a_mask_that_hides_one_place_more_is_another(form: str) -> None:
    other = FORMS[form].copy()
    other[..., 5, 2] = other[..., 2, 5]
    found = compared(ADDED, other)
    assert found.pairs[0].status == "mismatch"
    assert [cause.cause for cause in found.pairs[0].diagnosis][:1] == ["attention.mask"]


def test_a_mask_that_hides_nothing() -> None:
    nothing = np.zeros((1, 1, 8, 8), np.float32)
    assert compared(nothing, np.ones((8, 8), bool)).verdict == "match"
    assert compared(nothing, SEEN).verdict == "mismatch"


def test_zeros_that_are_no_mask_are_compared_as_numbers() -> None:
    ids = np.zeros((2, 8), np.int64)
    assert fd.compare({"token_type": ids}, {"token_type": ids.astype(np.float32)}).verdict == "match"
    assert fd.compare({"token_type": ids}, {"token_type": ids.astype(np.float32) + 1}).verdict == "mismatch"


def test_tokens_from_which_everything_is_hidden() -> None:
    padded = np.repeat(SEEN, 2, axis=0)
    padded[1, :, :, :3] = False
    blind = tokens_that_see_nothing(padded)
    assert blind is not None
    assert blind.tolist() == [[False] * 8, [True] * 3 + [False] * 5]
    assert tokens_that_see_nothing(SEEN) is None
