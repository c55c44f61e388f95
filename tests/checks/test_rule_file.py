"""A mistake in a rule file is one sentence with the line and what to write instead."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import firstdiff as fd
from firstdiff.checks import measure_bands, parse_rule_file
from firstdiff.checks.rule_file import FIELDS
from firstdiff.checks.running import _TENSOR_CHECKS
from firstdiff.errors import SettingsError, UsageError

ARRAYS = {"probs": np.full(4, 0.25), "ids": np.arange(4)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "r.toml: has no [[rules]], each with a name and a check"),
        ("[[rules]", "r.toml: is not valid TOML"),
        ("[rule]\nx = 1", "r.toml: rule is neither [[rules]] nor [sizes]"),
        ('[[rules]]\ncheck = "finite"', "r.toml, line 1: a rule needs a name"),
        ('[[rules]]\nname = "probs"', "r.toml, line 1: a rule needs a check, one of finite, range"),
        (
            '[[rules]]\nname = "probs"\ncheck = "finit"',
            "r.toml, line 1: there is no check 'finit' (did you mean finite?)",
        ),
        ('[[rules]]\nname = "probs"\ncheck = "zzz"', "there is no check 'zzz'; the checks are finite, range"),
        (
            '\n[[rules]]\nname = "probs"\ncheck = "sum"\naxes = 1',
            "r.toml, line 2: sum takes no 'axes' (did you mean axis?); it takes axis, value, atol, slice",
        ),
        ('[[rules]]\nname = "probs"\ncheck = "range"', "line 1: range needs min, max or both"),
        ('[[rules]]\nname = "probs"\ncheck = "range"\nmin = 2\nmax = 1', "min is 2, which is above max, 1"),
        ('[[rules]]\nname = "probs"\ncheck = "sum"\natol = -1', "atol is -1; it takes a number from 0 up"),
        ('[[rules]]\nname = "ids"\ncheck = "ids"', "ids needs vocab_size"),
        ('[[rules]]\nname = "ids"\ncheck = "ids"\nvocab_size = "v"', "vocab_size is 'v'; it takes a whole number"),
        ('[[rules]]\nname = "ids"\ncheck = "dtype"\ndtype = "int46"', "names of dtypes (did you mean"),
        ('[[rules]]\nname = "ids"\ncheck = "monotone"\ndirection = "left"', "direction is 'left'; it takes up or down"),
        ('[[rules]]\nname = "ids"\ncheck = "changed"', "changed needs either low and high, or bands"),
        ('[[rules]]\nname = "ids"\ncheck = "finite"\nslice = 1', "slice is 1; it takes a text"),
        ('[sizes]\nvocab = -1\n[[rules]]\nname = "ids"\ncheck = "finite"', "[sizes] takes whole numbers from 0 up"),
    ],
)
def test_a_wrong_rule_is_named(text: str, says: str) -> None:
    with pytest.raises(SettingsError) as error:
        parse_rule_file(text, "r.toml")
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (
            {"name": "prob", "check": "finite"},
            "rules, rule 1: 'prob' matches no tensor of arrays (did you mean probs?)",
        ),
        ({"name": ["probs", "zz*"], "check": "finite"}, "'zz*' matches no tensor of arrays"),
        ({"name": "probs", "check": "sum", "axis": 1}, "probs has the shape [4], which has no axis 1"),
        ({"name": "probs", "check": "finite", "slice": "0,0"}, "the slice '0,0' has 2 parts"),
        ({"name": "probs", "check": "no_constant_rows", "slice": ":1"}, "rows of 1 elements are always constant"),
        ({"name": "ids", "check": "changed", "low": 0.0, "with": "sample"}, "with is 'sample', which 0 tensors"),
        ({"name": "ids", "check": "changed", "bands": "none.toml"}, "none.toml: does not exist; `firstdiff check REF"),
    ],
)
def test_a_rule_that_does_not_fit_the_trace_is_an_error(rule: dict[str, object], says: str) -> None:
    with pytest.raises(SettingsError) as error:
        fd.check(ARRAYS, [rule])
    assert says in str(error.value)


def test_every_check_that_can_be_written_can_be_run() -> None:
    assert set(FIELDS) == {*_TENSOR_CHECKS, "shape", "monotone", "varies", "changed"}


def test_every_check_and_field_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "checks.md").read_text(encoding="utf-8")
    words = {word for check, fields in FIELDS.items() for word in (check, *fields)}
    assert [word for word in words if f"`{word}`" not in text and f"`{word} =" not in text] == []


def recorded(folder: Path, seed: int, share: float, steps: int = 4) -> Path:
    generator = np.random.default_rng(seed)
    ids = np.zeros((1, 200), np.int64)
    with fd.record(folder / f"{seed}-{share}-{steps}.trace") as recorder:
        for step in range(steps):
            recorder.tap("ids", ids, step=step)
            ids = np.where(generator.random(ids.shape) < share, ids + 1, ids)
    return folder / f"{seed}-{share}-{steps}.trace"


def test_bands_measured_from_references_hold_for_other_runs_like_them(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rules]]\nname = "ids"\ncheck = "changed"\nbands = "bands.toml"\n')
    from firstdiff.checks import load_rule_file

    text = measure_bands([recorded(tmp_path, seed, 0.3) for seed in range(8)], load_rule_file(rules))
    (tmp_path / "bands.toml").write_text(text)
    assert fd.check(recorded(tmp_path, 100, 0.3), rules).passed
    stuck = fd.check(recorded(tmp_path, 100, 0.02), rules)
    assert [failure.key for failure in stuck.failures] == ["ids", "ids#s1", "ids#s2"]
    (failure,) = fd.check(recorded(tmp_path, 100, 0.3, steps=3), rules).failures
    assert failure.text == "changes 2 times, but its band was measured over 3 steps"


def test_one_run_gives_no_band(tmp_path: Path) -> None:
    rules = parse_rule_file('[[rules]]\nname = "ids"\ncheck = "changed"\nbands = "b.toml"')
    with pytest.raises(UsageError, match="one run gives no band; give several"):
        measure_bands([recorded(tmp_path, 0, 0.3)], rules)


@pytest.mark.parametrize("text", ["", "bands = 1", '[[bands]]\nname = "ids"\nlow = [1]\nhigh = [1, 2]', "[["])
def test_a_broken_bands_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "b.toml").write_text(text)
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rules]]\nname = "ids"\ncheck = "changed"\nbands = "b.toml"\n')
    with pytest.raises(SettingsError, match=r"b\.toml: "):
        fd.check(ARRAYS, rules)
