from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import firstdiff as fd
from firstdiff.comparing import Options, Progress, Stage, compare_traces
from firstdiff.errors import UsageError
from firstdiff.pairing.fingerprints import Fingerprints
from firstdiff.readers import npy
from firstdiff.reports.sentences import answer

RNG = np.random.default_rng(7)


def values(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape or (4, 8)).astype("f4")


class Interrupt:
    """Presses Ctrl-C when so many bytes were compared."""

    def __init__(self, after: int) -> None:
        self.after = after

    def __call__(self, progress: Progress) -> None:
        if progress.stage == Stage.MEASURING and progress.done >= self.after:
            raise KeyboardInterrupt


def chain(count: int = 6, wrong: int | None = None) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    arrays = {f"layers.{number}": rng.standard_normal((4, 8)).astype("f4") for number in range(count)}
    if wrong is not None:
        arrays[f"layers.{wrong}"] = arrays[f"layers.{wrong}"] * 1.5
    return arrays


def test_an_interrupted_comparison_keeps_what_it_found_and_is_no_match() -> None:
    half = 3 * 2 * 4 * 8 * 4
    found = compare_traces(chain(), chain(wrong=1), Options(), Interrupt(half), keep_partial=True)
    assert (found.complete, found.verdict, found.first_divergence.key) == (False, "mismatch", "layers.1")
    assert [pair.status for pair in found.pairs[3:]] == ["failed"] * 3
    assert found.pairs[-1].reason == "not compared: interrupted"
    assert "Cause: unknown: none was looked for before the interruption" in list(answer(found))
    healthy = compare_traces(chain(), chain(), Options(), Interrupt(half), keep_partial=True)
    assert (healthy.complete, healthy.verdict) == (False, "not_compared")


def test_an_interrupt_goes_through_where_nobody_asked_for_a_part() -> None:
    with pytest.raises(KeyboardInterrupt):
        fd.compare(chain(), chain(), on_progress=Interrupt(1))


def test_a_layout_proven_on_one_row_gives_figures_to_rows_that_differ() -> None:
    reference = {f"layers.{number}.q": values(2, 14, 48) for number in range(4)}
    candidate = {name: array.transpose(1, 0, 2).copy() for name, array in reference.items()}
    candidate["layers.3.q"] = candidate["layers.3.q"] + RNG.standard_normal((14, 2, 48)).astype("f4")
    found = fd.compare(reference, candidate)
    assert [pair.status for pair in found.pairs] == ["match", "match", "match", "mismatch"]
    last = found.pairs[3]
    assert last.metrics is not None
    assert last.alignment.recipe == found.pairs[0].alignment.recipe
    assert 0.5 < last.metrics.rel_l2 < 2


def test_without_effort_the_first_site_is_still_diagnosed() -> None:
    reference = {"x": values(), "y": values()}
    found = fd.compare(reference, {"x": reference["x"] * 2, "y": reference["y"] * 3}, effort=0)
    assert found.pairs[0].diagnosis[0].cause == "scale.constant"


def test_values_without_operations_prove_nothing_about_rounding() -> None:
    constants = {"1_scaling": np.ones((), "f4"), "1_sliding": np.zeros((), "f4")}
    reference = {"1_post_attn": values(200, 30), **constants, "1_post_mlp": values(200, 30)}
    candidate = {name: array * np.float32(1 + 1e-7) for name, array in reference.items()} | constants
    found = fd.compare(reference, candidate)
    assert found.verdict == "match"
    assert not [note.text for note in found.notes if "propagated" in note.text]


def test_values_without_operations_are_not_left_out_for_want_of_time() -> None:
    """What was never recorded would not be computed again with more time either."""
    reference = {f"{n}_x": values(200, 300) for n in range(4)}
    candidate = {name: array if name == "0_x" else array + values(200, 300) for name, array in reference.items()}
    found = fd.compare(reference, candidate, effort=0)
    assert not [note.text for note in found.notes if "computed again, for want of time" in note.text]
    assert {pair.isolated.reason for pair in found.pairs[1:] if pair.isolated} == {"its operation was not recorded"}


@pytest.mark.parametrize("effort", [-1, "much", float("nan")])
def test_an_effort_that_makes_no_sense_is_refused(effort: object) -> None:
    with pytest.raises(UsageError, match="effort"):
        fd.compare(chain(), chain(), effort=effort)  # type: ignore[arg-type]


def test_every_header_and_fingerprint_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for side, scale in (("r", 1.0), ("c", 1.5)):
        with fd.record(tmp_path / side) as recorder:
            for name, array in chain().items():
                recorder.tap(name, array * np.float32(scale))
    headers: Counter[str] = Counter()
    prints: list[object] = []
    read, made = npy.read_header, Fingerprints.__init__

    def counted(blob: npy.Blob) -> npy.NpyHeader:
        headers[blob.label] += 1
        return read(blob)

    def counted_prints(self: Fingerprints, trace: object) -> None:
        prints.append(trace)
        made(self, trace)  # type: ignore[arg-type]

    monkeypatch.setattr("firstdiff.readers.recorded.read_header", counted)
    monkeypatch.setattr(Fingerprints, "__init__", counted_prints)
    assert fd.compare(tmp_path / "r", tmp_path / "c").verdict == "mismatch"
    assert len(headers) == 12
    assert set(headers.values()) == {1}
    assert len(prints) == 2


def test_a_part_proven_on_one_row_is_used_on_rows_of_other_widths() -> None:
    generator = np.random.default_rng(3)
    batch = {name: generator.standard_normal((4, 6, width)).astype(np.float32) for name, width in (("a", 16), ("b", 9))}
    alone = {"a": batch["a"][2:3], "b": 1.2 * batch["b"][2:3]}
    found = fd.compare(batch, alone, allow_partial=True)
    rows = {pair.key: pair for pair in found.pairs}
    assert (rows["a"].status, rows["b"].status) == ("match", "mismatch")
    assert rows["b"].alignment is not None
    assert rows["b"].alignment.recipe == rows["a"].alignment.recipe == "reference: [2:3]"  # type: ignore[union-attr]
    assert found.diagnosis[0].cause == "scale.constant"
