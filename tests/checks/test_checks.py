"""Every check holds on a healthy tensor and names key, index and value on a broken one."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import firstdiff as fd
from firstdiff.errors import SettingsError
from firstdiff.trace import ArraySource, Record, Tensor, Trace

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(2, 5, 7)).astype(np.float32)
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)


def changed(array: np.ndarray, index: tuple[int, ...], value: float) -> np.ndarray:
    copy = array.copy()
    copy[index] = value
    return copy


def failures(array: Any, **rule: Any) -> list[tuple[str, tuple[int, ...] | None, Any]]:
    report = fd.check({"x": array}, [{"name": "x", **rule}])
    return [(failure.key, failure.index, failure.value) for failure in report.failures]


UNIT = LOGITS / np.linalg.norm(LOGITS, axis=-1, keepdims=True)
FALLING = np.linspace(1, 0, 9)

CASES: dict[str, tuple[dict[str, Any], Any, Any, tuple[int, ...] | None, Any]] = {
    "finite": ({"check": "finite"}, LOGITS, changed(LOGITS, (1, 2, 3), np.inf), (1, 2, 3), np.inf),
    "range": ({"check": "range", "min": -10, "max": 10}, LOGITS, changed(LOGITS, (0, 4, 6), 11), (0, 4, 6), 11.0),
    "range of NaN": ({"check": "range", "min": -10}, LOGITS, changed(LOGITS, (0, 0, 1), np.nan), (0, 0, 1), None),
    "positive": ({"check": "positive"}, PROBS, changed(PROBS, (0, 1, 0), 0.0), (0, 1, 0), 0.0),
    "not negative": ({"check": "positive", "allow_zero": True}, [0.0, 1.0], [0.0, -1.0], (1,), -1.0),
    "sum": ({"check": "sum", "atol": 1e-5}, PROBS, changed(PROBS, (1, 3, 2), 2.0), (1, 3, 0), None),
    "sum of an inner axis": ({"check": "sum", "axis": 0}, np.full((4, 3), 0.25), np.eye(3, 4), (0, 3), None),
    "norm": ({"check": "norm", "atol": 1e-5}, UNIT, changed(UNIT, (1, 0, 0), 2.0), (1, 0, 0), None),
    "down": (
        {"check": "monotone", "axis": 0, "direction": "down", "strict": True},
        FALLING,
        changed(FALLING, (4,), FALLING[3]),
        (4,),
        float(FALLING[3]),
    ),
    "up": ({"check": "monotone", "axis": -1, "direction": "up"}, [[1, 1], [2, 3]], [[1, 1], [3, 2]], (1, 1), 2),
    "dtype": ({"check": "dtype", "dtype": ["int64", "int32"]}, np.zeros(2, np.int32), [1.0], None, "float64"),
    "shape": ({"check": "shape", "shape": "2 ... 7"}, LOGITS, LOGITS[..., :6], None, [2, 5, 6]),
    "shape with one name twice": ({"check": "shape", "shape": "n n"}, np.eye(3), np.ones((3, 2)), None, [3, 2]),
    "ids": ({"check": "ids", "vocab_size": 5}, np.arange(5), np.array([0, 4, 5]), (2,), 5),
    "ids below zero": ({"check": "ids", "vocab_size": 5}, np.arange(5), np.array([0, -1]), (1,), -1),
    "ids to ignore": ({"check": "ids", "vocab_size": 5, "allow": [-100]}, [-100, 4], [-100, -1], (1,), -1),
    "ids as floats": ({"check": "ids", "vocab_size": 5}, [0.0, 4.0], [0.0, 1.5], (1,), 1.5),
    "equal": ({"check": "equal", "values": [1.0, 0.5], "atol": 1e-9}, [1.0, 0.5], [1.0, 0.6], (1,), 0.6),
    "equal in number": ({"check": "equal", "values": [1.0, 0.5]}, [1.0, 0.5], [1.0], None, [1]),
    "unique": ({"check": "unique"}, [[3, 1, 2], [1, 2, 3]], [[3, 1, 2], [2, 1, 2]], (1, 0), 2),
    "no constant rows": ({"check": "no_constant_rows"}, LOGITS, np.ones((2, 3)), (0, 0), 1.0),
    "rows of NaN": ({"check": "no_constant_rows"}, LOGITS, changed(LOGITS, (0, 2), np.nan), (0, 2, 0), None),
    "not uniform": ({"check": "not_uniform", "min_std": 0.1}, LOGITS, LOGITS * 1e-3, None, None),
    "not uniform with NaN": ({"check": "not_uniform"}, LOGITS, changed(LOGITS, (0, 0, 0), np.nan), None, None),
}


@pytest.mark.parametrize("case", CASES)
def test_a_check_holds_for_one_tensor_and_fails_for_the_other(case: str) -> None:
    rule, good, bad, index, value = CASES[case]
    assert failures(good, **rule) == []
    ((key, found_index, found_value),) = failures(bad, **rule)
    assert key == "x"
    if index is not None or value is not None:
        assert found_index == index
    if value is not None:
        assert found_value == value


def steps(name: str, *arrays: Any) -> list[Tensor]:
    return [Tensor(Record(name=name, step=step), ArraySource(np.asarray(array))) for step, array in enumerate(arrays)]


def series_failures(tensors: list[Tensor], **rule: Any) -> list[tuple[str, tuple[int, ...] | None, Any]]:
    report = fd.check(Trace("run", tuple(tensors)), [{"name": tensors[0].name, **rule}])
    return [(failure.key, failure.index, failure.value) for failure in report.failures]


def test_order_over_steps_compares_each_element_with_the_step_before() -> None:
    rule = {"check": "monotone", "direction": "down"}
    assert series_failures(steps("sigma", [5.0, 5.0], [1.0, 2.0], [1.0, 0.1]), **rule) == []
    assert series_failures(steps("sigma", [5.0, 5.0], [1.0, 2.0], [1.0, 2.5]), **rule) == [("sigma#s2", (1,), 2.5)]


def test_steps_count_as_numbers_not_as_words() -> None:
    falling = steps("sigma", *[[float(12 - step)] for step in range(12)])
    assert series_failures(falling[::-1], check="monotone", direction="down", strict=True) == []


def test_a_generator_that_repeats_itself_fails() -> None:
    first, second = RNG.normal(size=(2, 4))
    assert series_failures(steps("noise", first, second), check="varies") == []
    assert series_failures(steps("noise", first, second, first), check="varies") == [
        ("noise#s2", (0,), float(first[0]))
    ]


def test_the_share_that_changes_stays_within_its_limits() -> None:
    ids = steps("ids", [1, 2, 3, 4], [1, 2, 3, 5], [9, 9, 9, 9])
    assert series_failures(ids, check="changed", low=0.2, high=1.0) == []
    assert series_failures(ids, check="changed", low=0.2, high=0.5) == [("ids#s1", None, 1.0)]


def test_samples_of_a_batch_are_judged_one_by_one() -> None:
    before = steps("ids", np.zeros((2, 4), int))
    after = steps("sampled", np.array([[1, 0, 0, 0], [0, 0, 0, 0]]))
    rule = {"check": "changed", "with": "sampled", "low": 0.1, "high": 0.5, "axis": 0}
    assert series_failures([*before, *after], **rule) == [("ids", (1,), 0.0)]


def test_a_series_of_one_step_is_a_mistake_in_the_rule() -> None:
    with pytest.raises(SettingsError, match=r"rules, rule 1: sigma: was recorded once only; give axis"):
        series_failures(steps("sigma", [5.0]), check="monotone", direction="down")


def test_a_slice_leaves_the_rest_out() -> None:
    rule = {"check": "monotone", "axis": 0, "direction": "down"}
    assert failures([3.0, 2.0, 9.0], **rule) == [("x", (2,), 9.0)]
    assert failures([3.0, 2.0, 9.0], slice=":-1", **rule) == []


def test_small_floats_are_checked_as_what_they_are() -> None:
    values = np.array([1.0, np.inf], ml_dtypes.bfloat16)
    assert failures(values, check="finite") == [("x", (1,), np.inf)]


def test_names_of_sizes_hold_across_rules(tmp_path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[sizes]\nvocab = 7\n[[rules]]\nname = "logits"\ncheck = "shape"\nshape = "b s vocab"\n'
        '[[rules]]\nname = "ids"\ncheck = "shape"\nshape = "b s"\n'
        '[[rules]]\nname = "ids"\ncheck = "ids"\nvocab_size = "vocab"\n'
    )
    assert fd.check({"logits": LOGITS, "ids": np.zeros((2, 5), int)}, rules).passed
    (failure,) = fd.check({"logits": LOGITS, "ids": np.zeros((2, 4), int)}, rules).failures
    assert failure.text == "has the shape [2, 4], which 'b s' does not fit, where s is 5 (logits)"


def test_an_unreadable_tensor_fails_every_rule_about_it() -> None:
    trace = Trace("run", (Tensor(Record(name="x"), error="the file was cut off"),))
    (failure,) = fd.check(trace, [{"name": "*", "check": "finite"}]).failures
    assert failure.text == "cannot be read: the file was cut off"


def test_globs_reach_steps_and_roles() -> None:
    trace = Trace(
        "run",
        (
            Tensor(Record(name="attn", role="input"), ArraySource(np.array([np.nan]))),
            Tensor(Record(name="attn", role="output", step=1), ArraySource(np.array([1.0]))),
        ),
    )
    assert fd.check(trace, [{"name": "attn", "check": "finite"}]).passed
    assert not fd.check(trace, [{"name": "attn:in.0", "check": "finite"}]).passed
    assert fd.check(trace, [{"name": "attn#s1", "check": "finite"}]).rules[0].tensors == 1


def test_empty_tensors_have_no_element_that_fails() -> None:
    empty = np.zeros((0, 3))
    for rule in ({"check": "finite"}, {"check": "sum"}, {"check": "unique"}, {"check": "not_uniform"}):
        assert failures(empty, **rule) == []


def test_a_failure_says_how_many_elements_fail() -> None:
    report = fd.check({"x": np.array([1.0, np.nan, np.inf])}, [{"name": "x", "check": "finite"}])
    assert report.failures[0].text == "nan at [1] is not finite; 2 of 3 elements fail"
