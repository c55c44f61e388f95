from __future__ import annotations

from typing import Any

import pytest

from firstdiff.diagnose.diagnosis import MOST_SHOWN, as_diagnoses, ranked
from firstdiff.diagnose.hypothesis import Explanation, Fit, Specific

WRONG = Fit(1000.0, 300.0, 1.0)
FITS = Fit(0.3, 0.1, 1e-6)
ELEMENTS = 10_000


def why(cause: str, fit: Fit = FITS, **more: Any) -> Explanation:
    return Explanation(cause=cause, fit=fit, evidence="", fix="", **more)


def order(*found: Explanation, unexplained: Fit = WRONG) -> list[str]:
    return [one.cause for one in ranked(found, unexplained, ELEMENTS)]


def confidences(*found: Explanation, unexplained: Fit = WRONG) -> dict[str, float]:
    told = as_diagnoses(ranked(found, unexplained, ELEMENTS), unexplained, ELEMENTS)
    return {one.cause: one.confidence for one in told}


def test_what_reaches_the_floor_comes_before_what_does_not() -> None:
    nearly = why("a.nearly", Fit(2.0, 0.05, 1e-5))
    assert order(nearly, why("b.fits", specific=Specific.SYMPTOM)) == ["b.fits", "a.nearly"]


def test_what_says_more_comes_first() -> None:
    found = [why(kind.name, specific=kind) for kind in Specific]
    assert order(*found) == ["MISTAKE", "FORM", "SYMPTOM"]


def test_of_two_alike_the_one_that_assumes_less_comes_first() -> None:
    assert order(why("a.fitted", assumed=64), why("b.free")) == ["b.free", "a.fitted"]


def test_a_general_form_is_not_told_beside_the_cause_that_implies_it() -> None:
    special = why("norm.affine", implies=("scale.channel",))
    assert order(why("scale.channel", specific=Specific.FORM), special) == ["norm.affine"]


def test_a_general_form_stays_where_the_special_one_does_not_fit() -> None:
    special = why("norm.affine", Fit(50.0, 10.0, 0.1), implies=("scale.channel",))
    assert order(why("scale.channel", specific=Specific.FORM), special) == ["scale.channel", "norm.affine"]


def test_two_that_imply_each_other_are_both_told() -> None:
    assert order(why("a.x", implies=("b.y",)), why("b.y", implies=("a.x",))) == ["a.x", "b.y"]


def test_what_takes_away_less_than_half_is_not_told() -> None:
    assert order(why("a.little", Fit(900.0, 200.0, 0.9)), why("b.most", Fit(90.0, 20.0, 0.1))) == ["b.most"]


def test_nothing_is_to_be_explained_where_all_is_within_the_floor() -> None:
    assert order(why("a.x"), unexplained=Fit(0.9, 0.3, 1e-6)) == []


def test_each_cause_is_told_once_with_its_best_explanation() -> None:
    found = ranked([why("a.x", Fit(0.9, 0.5, 1e-5)), why("a.x", FITS), why("a.x", Fit(5.0, 1.0, 1.0))], WRONG, 10)
    assert [one.fit for one in found] == [FITS]


def test_what_either_of_two_ways_to_the_same_cause_implies_is_implied() -> None:
    [told] = ranked([why("a.x", implies=("b.y",)), why("a.x", implies=("c.z",)), why("b.y"), why("c.z")], WRONG, 10)
    assert told.implies == ("b.y", "c.z")


def test_a_lone_mistake_that_fits_is_sure_and_a_form_is_not_quite() -> None:
    assert confidences(why("a.mistake"))["a.mistake"] >= 0.95
    assert 0.8 < confidences(why("a.form", specific=Specific.FORM))["a.form"] < 0.9


def test_rivals_that_fit_as_well_share() -> None:
    found = confidences(why("a.x"), why("b.y"))
    assert found == pytest.approx({"a.x": 0.49, "b.y": 0.49}, abs=0.01)


def test_a_better_fit_wins_more_of_the_share() -> None:
    found = confidences(why("a.tight", Fit(0.1, 0.02, 1e-7)), why("b.loose", Fit(0.99, 0.9, 1e-5)))
    assert found["a.tight"] > 2 * found["b.loose"]


def test_doubt_fitted_numbers_and_small_effects_take_confidence_away() -> None:
    sure = confidences(why("a.x"))["a.x"]
    assert confidences(why("a.x", doubt=0.3))["a.x"] < 0.72 * sure
    assert confidences(why("a.x", assumed=ELEMENTS // 4))["a.x"] < 0.8 * sure
    assert confidences(why("a.x"), unexplained=Fit(1.3, 0.4, 1e-5))["a.x"] < 0.7 * sure


def test_what_does_not_reach_the_floor_is_never_sure() -> None:
    assert confidences(why("a.x", Fit(2.0, 0.01, 1e-6)))["a.x"] <= 0.6


def test_only_so_many_are_shown() -> None:
    assert len(confidences(*(why(f"a.{n}") for n in range(9)))) == MOST_SHOWN


def test_infinite_differences_can_be_explained() -> None:
    everywhere = Fit(float("inf"), float("inf"), float("inf"))
    assert order(why("overflow"), unexplained=everywhere) == ["overflow"]
    assert order(why("a.x", everywhere), unexplained=everywhere) == []


def test_what_is_hardly_likely_is_not_told() -> None:
    unlikely = why("sign.flip", doubt=0.98, specific=Specific.FORM)
    assert confidences(why("norm.eps"), unlikely).keys() == {"norm.eps"}
    assert confidences(unlikely) == {}


def test_beside_a_cause_that_explains_everything_a_part_of_it_is_not_told() -> None:
    partly = why("scale.row", Fit(100.0, 30.0, 0.1), specific=Specific.FORM)
    assert confidences(why("norm.eps"), partly).keys() == {"norm.eps"}
    assert confidences(why("norm.eps", doubt=0.5), partly).keys() == {"norm.eps", "scale.row"}
