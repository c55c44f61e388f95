from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from math import inf
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from firstdiff.errors import UsageError
from firstdiff.testing.zoo.case import Case
from firstdiff.testing.zoo.healthy import HealthyOutcome, HealthyPair
from firstdiff.testing.zoo.planting import excess
from firstdiff.testing.zoo.runner import Run, selected
from firstdiff.testing.zoo.scoring import Outcome, Score, targets
from firstdiff.testing.zoo.tables import save, show

_RIGHT = Outcome(
    case=Case("norm eps", "gpt2"),
    variant="full",
    site="ln",
    truth="ln",
    expected=("norm.eps",),
    first="ln",
    exact=True,
    rank=1,
    stated=(("norm.eps", 0.95),),
    confident=1,
    confidently_right=1,
)
_WRONG = replace(_RIGHT, first="mlp", exact=False, rank=None, stated=(("norm.kind", 0.95),), confidently_right=0)
_LOUD = HealthyOutcome(HealthyPair("other kernel order", "gpt2"), False, "ln diverges", 0.1)


def test_outcomes_add_up() -> None:
    total = Score.of([_RIGHT, _WRONG, replace(_RIGHT, rank=3)])
    assert (total.cases, total.exact, total.first, total.third) == (3, 2, 1, 2)
    assert total.honesty == pytest.approx(2 / 3)


def test_a_target_is_met_or_missed() -> None:
    assert all(target.met for target in targets([_RIGHT], ["full"], [True]))
    missed = [target.what for target in targets([_RIGHT, _WRONG], ["full"], [True, False]) if not target.met]
    assert len(missed) == 5


def test_nothing_run_is_no_target_met() -> None:
    assert targets([], ["full", "stripped"]) == []
    silent = replace(_RIGHT, stated=(), rank=None, confident=0, confidently_right=0)
    honest = next(target for target in targets([silent], ["full"]) if "0.9" in target.what)
    assert not honest.met


def test_tables_name_what_went_wrong() -> None:
    console = Console(width=120, record=True, file=StringIO())
    reached = targets([_RIGHT, _WRONG], ["full"], [False])
    show(console, [_RIGHT, _WRONG], [_LOUD], ["full"], reached)
    text = console.export_text()
    assert "misplaced: norm eps / gpt2 / 0 (full): it is in ln and shows first at ln; mlp was named" in text
    assert "alarm: other kernel order / gpt2 / 0: ln diverges" in text
    assert "norm.kind x1" in text
    assert "MISSED" in text


def test_everything_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "new" / "zoo.json"
    save(path, [Run(_WRONG, 0.5)], [_LOUD], targets([_WRONG], ["full"], [False]))
    saved = json.loads(path.read_text(encoding="utf-8"))
    assert saved["cases"][0]["kind"] == "norm eps"
    assert saved["cases"][0]["stated"] == [["norm.kind", 0.95]]
    assert saved["healthy"][0]["alarm"] == "ln diverges"
    assert not any(target["met"] for target in saved["targets"])


def test_words_select() -> None:
    everything = selected()
    of_one_kind, no_pairs = selected(["norm eps", "gpt2"])
    no_cases, of_one_way = selected(["padding cropped"])
    of_one_architecture, its_pairs = selected(["vit"], seed=5)
    assert len(everything[0]) > 300
    assert (of_one_kind, no_pairs) == ([Case("norm eps", "gpt2")], [])
    assert not no_cases
    assert {pair.way for pair in of_one_way} == {"padding cropped"}
    assert {(case.architecture, case.seed) for case in of_one_architecture} == {("vit", 5)}
    assert {pair.architecture for pair in its_pairs} == {"vit"}
    with pytest.raises(UsageError, match=r"no 'norm epps' \(did you mean norm eps"):
        selected(["norm epps"])


def test_the_size_of_a_difference() -> None:
    values = np.linspace(-1, 1, 64, dtype=np.float32)
    allowed = 256 * np.finfo(np.float32).eps * (values.std() + np.abs(values[3]))
    moved = values.copy()
    moved[3] += 8 * allowed
    assert excess(values, values.copy()) == 0
    assert excess(values, moved) == pytest.approx(8, rel=1e-2)
    masked, masked_too = (np.append(side, np.finfo(np.float32).min) for side in (values, moved))
    assert excess(masked, masked_too) == pytest.approx(8, rel=1e-2)
    assert excess(values, values[None, :-1]) == 0
    assert excess(values, moved[:-1]) > 4
    assert excess(values, values.reshape(8, 8)) == inf
    assert excess(values, values[:0]) == inf
    assert excess(values, np.where(values > 0.9, np.nan, values).astype(np.float32)) == inf
    assert excess(np.arange(4), np.arange(4)[::-1]) == inf
