"""Ports are what they are declared to be, and answers to them are scored as they should be."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import firstdiff as fd
from firstdiff.diagnose.causes import pages
from firstdiff.errors import UsageError
from firstdiff.testing.ports.places import Places
from firstdiff.testing.ports.port import Wrong, fault
from firstdiff.testing.ports.running import run
from firstdiff.testing.ports.scoring import Outcome, gates, score_fault, score_healthy
from firstdiff.testing.ports.table import Case, cases, ports
from firstdiff.testing.ports.tables import save, show
from firstdiff.testing.ports.variations import WAYS
from firstdiff.testing.ports.visible import ROUNDING, Checked, difference, problems
from firstdiff.trace import Trace

_FAULT = Case("llama", "open", "fault", "norm eps")


@pytest.fixture
def chain() -> Trace:
    """Twenty places in a row; `b` and `b.copy` hold the same values."""
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {name: rng.standard_normal((3, 4)) for name in "abcdefghijklmnopqrst"}
    arrays["b.copy"] = arrays["b"].T
    return Trace.from_arrays(arrays, "reference")


@pytest.mark.parametrize("family", list(ports()))
def test_what_is_declared_about_a_port_is_so(family: str, tmp_path: Path) -> None:
    """The healthy port computes what the reference does, and every fault shows first where it is declared to."""
    checked = Checked(ports()[family], tmp_path)
    assert difference(checked.expected, checked.final) < ROUNDING
    assert checked.healthy_wrong.asked == {planted.name for planted in checked.port.faults}
    wrong = {planted.name: found for planted in checked.port.faults if (found := problems(checked, planted))}
    assert not wrong


def test_a_wrong_declaration_is_noticed(tmp_path: Path) -> None:
    checked = Checked(ports()["gpt2"], tmp_path)
    (found,) = problems(checked, fault("norm eps", "transformer.h.2.ln_1", layer=1))
    assert "it shows first at transformer.h.1.ln_1" in found
    assert problems(checked, fault("norm eps", "transformer.h.0.ln_1 transformer.h.1.ln_1", layer=1))
    assert "the reference has no transformer.ln" in problems(checked, fault("norm eps", "transformer.ln", layer=1))
    assert "the final values stay the same" in problems(checked, fault("no such fault", "lm_head"))


def test_it_is_as_large_as_promised() -> None:
    every = cases(["open", "locked"])
    assert len([case for case in every if case.kind == "fault"]) >= 480
    assert len([case for case in every if case.kind == "variation"]) >= 64
    for half, least in {"open": 33, "locked": 5}.items():
        assert len([port for port in ports().values() if port.half == half]) >= least
    for port in ports().values():
        if port.half == "locked":
            assert len(port.faults) >= 15, port.name
            assert len([way for way in WAYS.values() if port.name in way.families]) >= 2, port.name
        assert len({planted.name for planted in port.faults}) == len(port.faults), port.name
        assert all(planted.places for planted in port.faults), port.name
        assert {code for planted in port.faults for code in planted.causes} <= {page.code for page in pages()}, (
            port.name
        )


@pytest.mark.parametrize("name", list(WAYS))
def test_both_sides_of_a_variation_come_to_the_same(name: str, tmp_path: Path) -> None:
    """The reference's final values are among the candidate's; where padding moves, those of real tokens are."""
    sides = WAYS[name].sides(ports()[WAYS[name].families[0]], tmp_path)
    reference, candidate = (final_values(side) for side in sides)
    places = np.searchsorted(candidate, reference).clip(1, candidate.size - 1)
    nearest = np.minimum(abs(candidate[places] - reference), abs(candidate[places - 1] - reference))
    tolerance = 1e-2 if name == "stored as float16" else 1e-4
    share = np.mean(nearest <= tolerance * (0.1 + abs(reference)))
    assert share == 1 or (name == "padding right, left" and share > 0.75)


def final_values(side: Trace | Path) -> Any:
    trace = side if isinstance(side, Trace) else fd.open_trace(side)
    outputs = [tensor for tensor in trace if tensor.record.role not in ("input", "param")]
    last = [tensor for tensor in outputs if (tensor.name, tensor.key.slot) == (outputs[-1].name, outputs[-1].key.slot)]
    return np.sort(np.concatenate([tensor.values().read().ravel() for tensor in last]).astype(np.float64))


def test_halves_are_whole_families() -> None:
    opened, locked = cases(["open"]), cases(["locked"])
    assert not {case.family for case in opened} & {case.family for case in locked}
    assert len(set(opened) | set(locked)) == len(opened) + len(locked) == len(cases(["open", "locked"]))


def test_words_select_cases() -> None:
    assert cases(["open"], ["norm eps"]) == [case for case in cases(["open"]) if case.name == "norm eps"]
    assert {case.family for case in cases(["open"], ["gpt2"])} == {"gpt2"}
    with pytest.raises(UsageError, match=r"no port, fault or variation 'norm epps' \(did you mean norm eps"):
        cases(["open"], ["norm epps"])


def test_a_fault_is_in_its_layer_only() -> None:
    wrong = Wrong(fault("norm eps", "layers.{n}.norm", layer=1))
    assert [wrong("norm eps", layer) for layer in range(3)] == [False, True, False]
    assert not wrong("mask missing", 1)
    assert wrong.asked == {"norm eps", "mask missing"}
    assert fault("norm eps", "layers.{n}.norm", layer=1).places == ("layers.1.norm",)


def test_keys_of_the_same_values_are_one_place(chain: Trace) -> None:
    places = Places.of(chain)
    assert places.count == 20
    assert places.is_exact("b.copy", ["b"])
    assert not places.is_exact("c", ["b"])
    assert not places.is_exact("of the candidate", ["b"])
    assert places.is_exact("b", ["b*"])


def test_of_an_input_only_later_keys_are_the_same_place(tmp_path: Path) -> None:
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    with torch.no_grad(), fd.capture(model, tmp_path / "trace"):
        model(torch.randn(2, 4))
    places = Places.of(fd.open_trace(tmp_path / "trace"))
    assert places.is_exact("1:in.0", ["1:in.0"])
    assert not places.is_exact("0", ["1:in.0"])
    assert places.is_exact("1:in.0", ["0"])
    assert places.matching(["1*"]) == {"1"}


def test_a_bracket_counts_if_it_is_narrow_and_holds_the_place(chain: Trace) -> None:
    places = Places.of(chain)
    assert places.is_bracketed(("e", "g"), ["f"])
    assert places.is_bracketed(("e", "f"), ["f"])
    assert not places.is_bracketed(("f", "g"), ["f"])
    assert not places.is_bracketed(("d", "g"), ["f"])
    assert not places.is_bracketed(("g", "e"), ["f"])
    assert not places.is_bracketed(("e",), ["f"])
    assert not places.is_bracketed(("e", "of the candidate"), ["f"])


def test_a_comparison_of_a_fault_is_scored(chain: Trace) -> None:
    reference = {str(tensor.key): tensor.values().read() for tensor in chain}
    candidate = reference | {name: reference[name] * -1 for name in "fgh"}
    comparison = fd.compare(reference, candidate)
    right = score_fault(_FAULT, fault("x", "f", "sign.flip"), Places.of(chain), comparison, 0.1)
    assert (right.place, right.cause_right, right.wrong_cause) == ("exact", True, False)
    wrong = score_fault(_FAULT, fault("x", "q", "norm.eps"), Places.of(chain), comparison, 9.0)
    assert (wrong.place, wrong.cause_right, wrong.wrong_cause) == ("wrong", False, True)
    missed = score_fault(_FAULT, fault("x", "f"), Places.of(chain), fd.compare(reference, reference), 0.1)
    assert (missed.place, missed.verdict) == ("wrong", "match")
    reached = {gate.what: gate for gate in gates([right, wrong, missed])}
    assert reached["faults that end in a match"].met is False
    assert reached["place right"].reached == 1
    assert reached["wrong first cause, confidence >= 0.5"].reached == 1
    assert reached["comparisons over 5 s of CPU"].reached == 1
    assert reached["healthy ports quiet"].met is None


def test_only_a_silent_match_is_quiet(chain: Trace, tmp_path: Path) -> None:
    healthy = Case("llama", "open", "port")
    reference = {str(tensor.key): tensor.values().read() for tensor in chain}
    quiet = score_healthy(healthy, fd.compare(reference, reference), 0.1)
    loud = score_healthy(healthy, fd.compare(reference, reference | {"f": reference["f"] + 1}), 0.1)
    unpaired = score_healthy(healthy, fd.compare(reference, {"f": reference["f"]}), 0.1)
    assert (quiet.quiet, loud.quiet, unpaired.quiet) == (True, False, False)
    assert loud.said == "f diverges"
    save(tmp_path / "new" / "ports.json", {"open": [quiet, loud]})
    saved = json.loads((tmp_path / "new" / "ports.json").read_text(encoding="utf-8"))
    assert [case["quiet"] for case in saved["open"]["cases"]] == [True, False]


def test_single_cases_of_the_locked_half_are_not_shown_unasked() -> None:
    outcome = Outcome(
        case=Case("olmo2", "locked", "fault", "scores scaled"), verdict="match", seconds=0.1, place="wrong"
    )
    sums, everything = (Console(record=True, width=180, file=StringIO()) for _ in range(2))
    show(sums, [outcome], "locked", single_cases=False)
    show(everything, [outcome], "locked")
    assert "scores scaled" in everything.export_text()
    text = sums.export_text()
    assert "scores scaled" not in text
    assert "1 of 1" in text


def test_cases_are_run_for_real() -> None:
    assert run(Case("gpt2", "open", "port")).quiet
    outcome = run(Case("gpt2", "open", "fault", "relu for gelu"))
    assert (outcome.verdict, outcome.place, outcome.cause) == ("mismatch", "exact", "activation.kind")
    assert outcome.seconds > 0
