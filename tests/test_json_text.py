from __future__ import annotations

import json
import math

import numpy as np
import pytest

from firstdiff.comparing import compare
from firstdiff.json_text import from_plain, plain, to_json
from firstdiff.schema import Comparison, Pair, Required


def test_a_comparison_comes_back_from_its_json() -> None:
    comparison = compare(
        {"a": np.array([1.0, np.nan]), "b": np.ones((2, 3)), "only": np.ones(4)},
        {"a": np.array([2.0, 1.0]), "b": np.zeros((3, 2)), "more": np.ones(9)},
    )
    back = from_plain(Comparison, json.loads(to_json(comparison)))
    assert isinstance(back.pairs[0], Pair)
    assert isinstance(back.pairs[0].reference.shape, tuple)
    assert plain(back) == plain(comparison)
    assert back.pairs == comparison.pairs


@pytest.mark.parametrize("word", ["nan", "inf", "-inf"])
def test_words_become_numbers_again(word: str) -> None:
    number = from_plain(Required, {"atol": word, "rtol": None}).atol
    assert isinstance(number, float)
    assert not math.isfinite(number)
    assert plain(number) == word


def test_unknown_fields_are_left_out() -> None:
    assert from_plain(Required, {"atol": 1.0, "rtol": None, "of a later version": 2}) == Required(1.0, None)


@pytest.mark.parametrize(
    "value",
    [
        {
            "a": (1, 2.5, None, True),
            "b": {
                3,
            },
            4: "four",
        },
        Required(float("inf"), None),
        {"x": np.float32(1.5), "y": np.int64(2), "z": np.bool_(True), "nested": [Required(1.0, np.nan)]},
        [1 + 2j, {"n": float("nan")}, {"text": "\u2028 é"}],
    ],
)
def test_the_short_way_to_json_says_the_same_as_the_long_one(value: object) -> None:
    assert json.loads(to_json(value)) == json.loads(json.dumps(plain(value)))
