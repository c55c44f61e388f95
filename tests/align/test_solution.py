from __future__ import annotations

from typing import Any

import pytest

from firstdiff.align import Alignment, Solution, layout_rule

TURNED = Alignment.parse("a b -> b a")


def solution(**fields: Any) -> Solution:
    return Solution(**({"alignment": TURNED, "fits": True, "cause": "layout.transpose", "forced": False} | fields))


@pytest.mark.parametrize(
    ("fields", "options", "may_match", "reason"),
    [
        ({"alignment": Alignment()}, {}, True, "same layout"),
        ({"alignment": Alignment()}, {"strict": True}, True, "same layout"),
        (
            {},
            {},
            False,
            "the values fit only through 'a b -> b a' (layout.transpose); accept it with --accept-layout transpose",
        ),
        ({}, {"accepted": ["transpose"]}, True, "'a b -> b a' is accepted as transpose"),
        ({}, {"accepted": ["layout.transpose"]}, True, "'a b -> b a' is accepted as transpose"),
        ({}, {"accepted": ["rope_interleave"]}, False, "the values fit only through"),
        ({}, {"stated": True}, True, "'a b -> b a' is stated"),
        ({}, {"role": "param"}, True, "a param may be kept in any layout, here 'a b -> b a'"),
        ({"declared": True}, {}, True, "dims declare 'a b -> b a'"),
        ({"forced": True}, {}, True, "the shapes call for 'a b -> b a'"),
        (
            {"forced": True, "declared": True},
            {"strict": True, "stated": True, "role": "param"},
            False,
            "only identity may match here; 'a b -> b a' would have fitted",
        ),
        (
            {"alignment": None, "tried": ("axis order",)},
            {"role": "param"},
            False,
            "no recipe relates the shapes; tried: axis order",
        ),
    ],
)
def test_the_layout_rule(fields: dict[str, Any], options: dict[str, Any], may_match: bool, reason: str) -> None:
    ruling = layout_rule(solution(**fields), **options)
    assert ruling.may_match is may_match
    assert ruling.reason.startswith(reason)
