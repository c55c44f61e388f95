from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firstdiff as fd
from firstdiff.comparing import Progress, Stage
from firstdiff.errors import SettingsError, UsageError
from firstdiff.json_text import to_json
from firstdiff.trace import ArraySource, Record, Tensor, Trace, TraceWriter
from tests.sample import write_sample

PAIR_FIELDS = """
index key name role step rank op layer stage component status reason reference candidate pairing alignment metrics audio
tolerance required origin recovers_from where diagnosis
"""
METRICS = """
elements mismatched max_abs mean_abs max_rel mean_rel mse rmse rel_l2 cosine one_minus_cosine nmse sqnr_db max_ulp
abs_percentiles argmax reference_at_max candidate_at_max nan_reference nan_candidate inf_reference inf_candidate sampled
"""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_sample(tmp_path_factory.mktemp("sample"))


def test_the_planted_bug_is_named(sample: tuple[Path, Path]) -> None:
    comparison = fd.compare(*sample)
    assert comparison.verdict == "mismatch"
    assert comparison.first_divergence.key == "layers.2.ln_1"
    assert comparison.summary.coverage == 1
    before = comparison.pairs[: comparison.first_divergence.pair]
    assert {pair.status for pair in before} == {"match"}


def test_a_run_matches_itself_and_that_is_said(sample: tuple[Path, Path]) -> None:
    comparison = fd.compare(sample[0], sample[0])
    assert comparison.verdict == "match"
    assert comparison.warnings == ("reference and candidate are the same: they can only match",)


def test_the_json_has_the_fields_of_the_contract(sample: tuple[Path, Path]) -> None:
    found = json.loads(to_json(fd.compare(*sample)), parse_constant=pytest.fail)
    assert list(found) == [
        "schema",
        "version",
        "settings",
        "warnings",
        "reference",
        "candidate",
        "verdict",
        "summary",
        "first_divergence",
        "divergences",
        "pairs",
        "diagnosis",
        "timings",
        "depth",
        "notes",
        "complete",
        "control",
    ]
    assert found["schema"] == "firstdiff/comparison/1"
    pair = found["pairs"][found["first_divergence"]["pair"]]
    assert set(PAIR_FIELDS.split()) <= set(pair)
    assert set(METRICS.split()) <= set(pair["metrics"])
    assert (pair["layer"], pair["stage"], pair["op"]) == (2, "ln_1", "LayerNorm")
    assert pair["pairing"]["method"] == "exact"
    assert set(pair["reference"]["statistics"]) == {"mean", "std", "min", "max", "nan", "inf"}


def test_traces_archives_and_dicts_are_all_the_same(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.array(3)}
    np.savez(tmp_path / "x.npz", **arrays)
    with TraceWriter(tmp_path / "x.trace") as writer:
        for name, array in arrays.items():
            writer.write(Record(name=name), array)
    forms = [arrays, tmp_path / "x.npz", str(tmp_path / "x.trace"), fd.open_trace(tmp_path / "x.npz")]
    for one in forms:
        for other in forms:
            assert fd.compare(one, other).verdict == "match"


def test_two_single_files_are_a_pair_whatever_they_are_called(tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", np.ones(3))
    np.save(tmp_path / "theirs.npy", np.ones(3))
    comparison = fd.compare(tmp_path / "mine.npy", tmp_path / "theirs.npy")
    assert (comparison.verdict, comparison.pairs[0].pairing.method) == ("match", "order")


def test_layer_and_stage_names_pair_across_spellings() -> None:
    comparison = fd.compare({"0_query": [1.0], "1_key": [2.0]}, {"00_query": [1.0], "01_key": [2.0]})
    assert comparison.verdict == "match"
    assert {pair.pairing.method for pair in comparison.pairs} == {"layer_stage"}


def test_weights_are_evidence_and_never_the_first_divergence() -> None:
    def side(shift: float) -> Trace:
        weight, output = np.arange(4.0), np.arange(4.0) + 10
        tensors = (
            Tensor(Record(name="w", role="param", seq=0), ArraySource(weight + shift)),
            Tensor(Record(name="y", role="output", seq=1), ArraySource(output + shift)),
        )
        return Trace("side", tensors)

    assert fd.compare(side(0), side(1)).first_divergence.key == "y"
    weights = [Trace("side", side(shift).tensors[:1]) for shift in (0, 1)]
    assert fd.compare(*weights).first_divergence.key == "w:param"


def test_what_is_recorded_on_other_inputs_is_warned_of(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with TraceWriter(tmp_path / name, header={"inputs": name}) as writer:
            writer.write(Record(name="x"), np.zeros(2))
    assert "the two runs were recorded on different inputs" in fd.compare(tmp_path / "one", tmp_path / "two").warnings


def test_one_side_empty(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "empty"):
        pass
    comparison = fd.compare({"x": [1.0]}, tmp_path / "empty")
    assert (comparison.verdict, comparison.summary.missing) == ("not_compared", 1)


def test_one_unreadable_tensor_is_one_failed_row(tmp_path: Path) -> None:
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        for name in ("x", "y"):
            np.save(tmp_path / side / f"{name}.npy", np.ones(3))
    (tmp_path / "b" / "y.npy").write_bytes(b"")
    comparison = fd.compare(tmp_path / "a", tmp_path / "b")
    assert [pair.status for pair in comparison.pairs] == ["match", "failed"]
    assert comparison.verdict == "mismatch"


def test_a_side_that_cannot_be_read_at_all_is_said_with_the_reason(tmp_path: Path) -> None:
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
    for name in ("x", "y"):
        np.save(tmp_path / "a" / f"{name}.npy", np.ones(3))
    (tmp_path / "b" / "z.npy").write_bytes(b"rubbish")
    comparison = fd.compare(tmp_path / "a", tmp_path / "b")
    assert [pair.status for pair in comparison.pairs] == ["missing", "missing", "extra"]
    assert comparison.pairs[2].reason.startswith("only the candidate has it, and it cannot be read: it ")
    assert comparison.warnings[0].startswith("candidate: not one of its tensors can be read; z")
    assert comparison.verdict == "not_compared"


def test_shapes_that_nothing_relates_are_a_mismatch() -> None:
    comparison = fd.compare({"x": np.zeros((2, 3))}, {"x": np.ones((5, 7))})
    assert (comparison.verdict, comparison.pairs[0].status) == ("mismatch", "mismatch")
    assert comparison.pairs[0].reason.startswith("shape: [2, 3] against [5, 7]")


@pytest.mark.parametrize("change", ["rewritten", "cut off"])
def test_a_file_that_changes_while_being_read_is_a_failed_row(tmp_path: Path, change: str) -> None:
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "x.npy", np.zeros(20_000_000, np.float32))
    target = tmp_path / "b" / "x.npy"
    changed = threading.Event()

    def meddle(progress: Progress) -> None:
        if progress.total and not changed.is_set():
            changed.set()
            if change == "rewritten":
                with target.open("r+b") as file:
                    file.seek(1000)
                    file.write(b"xxxx")
            else:
                with target.open("r+b") as file:
                    file.truncate(1_000_000)

    comparison = fd.compare(tmp_path / "a", tmp_path / "b", on_progress=meddle, threads=1)
    assert comparison.pairs[0].status == "failed"
    assert comparison.verdict == "not_compared"


def test_progress_reaches_its_end(sample: tuple[Path, Path]) -> None:
    told: list[Progress] = []
    found = fd.compare(*sample, on_progress=told.append)
    assert list(dict.fromkeys(progress.stage for progress in told)) == list(Stage)
    measuring = [progress for progress in told if progress.stage == Stage.MEASURING]
    assert [progress.done for progress in measuring] == sorted(progress.done for progress in measuring)
    assert measuring[-1].done == measuring[-1].total > 0
    assert measuring[0].first is None
    assert measuring[-1].first == found.first_divergence.key


@pytest.mark.parametrize("engine", ["numpy", "auto"])
def test_threads_and_engines_agree(sample: tuple[Path, Path], engine: str) -> None:
    def rows(threads: int) -> list[Any]:
        return [(pair.status, pair.metrics) for pair in fd.compare(*sample, engine=engine, threads=threads).pairs]

    assert rows(1) == rows(2)
    assert [row[0] for row in rows(1)] == [pair.status for pair in fd.compare(*sample).pairs]


def test_named_tolerances_that_match_nothing_are_said(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text("[[tolerances]]\nname = 'nothing'\natol = 1\n")
    comparison = fd.compare({"x": [1.0]}, {"x": [1.0]}, tolerances=tmp_path / "t.toml")
    assert comparison.warnings == (f"{tmp_path / 't.toml'}, line 1: the tolerance for 'nothing' matches no tensor",)


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, "mismatch"),
        ({"atol": 0.2}, "match"),
        ({"rtol": 0.06}, "match"),
        ({"rtol": 0.04}, "mismatch"),
        ({"tolerances": "torch"}, "mismatch"),
    ],
)
def test_tolerances_decide(options: dict[str, Any], verdict: str) -> None:
    assert fd.compare({"x": [1.0, 2.0]}, {"x": [1.0, 2.1]}, **options).verdict == verdict


def test_what_would_have_passed_does(sample: tuple[Path, Path]) -> None:
    for pair in fd.compare(*sample).pairs:
        if pair.status == "mismatch":
            arrays = [{"x": fd.open_trace(path)[pair.key].values().read()} for path in sample]
            assert fd.compare(*arrays, atol=pair.required.atol).verdict == "match"
            assert fd.compare(*arrays, atol=pair.required.atol * 0.999).verdict == "mismatch"
            if pair.required.rtol is not None:
                assert fd.compare(*arrays, rtol=pair.required.rtol * 1.000001).verdict == "match"
                assert fd.compare(*arrays, rtol=pair.required.rtol * 0.999).verdict == "mismatch"


def test_other_tolerances_are_judged_without_the_data(sample: tuple[Path, Path]) -> None:
    from firstdiff.measure import Envelope

    comparison = json.loads(to_json(fd.compare(*sample)))
    strict = fd.compare(*sample, atol=1e-6, rtol=1e-6)
    for stored, judged in zip(comparison["pairs"], strict.pairs, strict=True):
        assert Envelope.from_plain(stored["envelope"]).admits(1e-6, 1e-6) == (judged.status == "match")


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: fd.compare({"x": [1]}, 3), UsageError, "the candidate is a int; give a path"),
        (lambda: fd.compare({"x": [1]}, {"x": [1]}, atol=-1), SettingsError, "atol is -1"),
    ],
)
def test_mistakes_are_sentences(call: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call()


class TestAssertMatch:
    def test_a_match_says_nothing(self) -> None:
        fd.assert_match({"x": [1.0]}, {"x": [1.0]})

    def test_the_message_tells_every_failure(self) -> None:
        reference = {"a": np.zeros(10), "b": np.ones((2, 3)), "c": np.array([1.0, np.nan]), "d": [1]}
        candidate = {"a": np.zeros(10), "b": np.ones((2, 3)), "c": np.array([np.inf, np.nan])}
        candidate["b"][1, 2] = 1.5
        with pytest.raises(AssertionError) as raised:
            fd.assert_match(reference, candidate)
        text = str(raised.value)
        for part in (
            "MISMATCH: 2 mismatch, 1 match, 1 missing; ",
            "First divergence: b, [2, 3] float64",
            "Mismatched elements: 1 / 6 (16.7 %)",
            "Greatest absolute difference: 0.5 at index [1, 2] (reference 1.0, candidate 1.5)",
            "Greatest relative difference: 0.5",
            "Would match with atol 0.5 or rtol 0.5",
            "Not finite: 1 NaN and 0 Inf in the reference, 1 NaN and 1 Inf in the candidate",
            "No tolerance would make it match",
            "d: missing, [1] int64",
        ):
            assert part in text

    def test_only_the_same_layout_matches_unless_told_otherwise(self) -> None:
        values = np.arange(24.0).reshape(2, 3, 4)
        with pytest.raises(AssertionError, match="only identity may match here"):
            fd.assert_match({"x": values}, {"x": values.transpose(1, 0, 2)})
        fd.assert_match({"x": values}, {"x": values.transpose(1, 0, 2)}, layout="auto")

    def test_nothing_compared_is_a_failure(self) -> None:
        with pytest.raises(AssertionError, match="NOTHING COMPARED"):
            fd.assert_match({}, {})


def test_the_error_over_depth_is_a_series(sample: tuple[Path, Path]) -> None:
    comparison = fd.compare(*sample)
    first = comparison.first_divergence.pair
    series = {index: (relative, allowed) for index, relative, allowed in comparison.depth}
    assert series[first][0] > 100 * max(relative for index, (relative, _) in series.items() if index < first)


def test_who_made_the_error_is_told(sample: tuple[Path, Path]) -> None:
    comparison = fd.compare(*sample)
    assert (comparison.first_divergence.key, comparison.first_divergence.origin) == ("layers.2.ln_1", "introduced")
    assert comparison.pairs[comparison.first_divergence.pair].where is not None


def test_alone_on_its_own_inputs_one_broken_layer_is_one_row(sample: tuple[Path, Path]) -> None:
    comparison = fd.compare(*sample, isolate=True)
    broken = [pair.key for pair in comparison.pairs if pair.isolated and pair.isolated.status == "mismatch"]
    assert broken == ["layers.2.ln_1"]
