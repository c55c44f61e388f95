"""Runs of one model on the same text in other parts: the relation is found in the inputs, used and named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from firstdiff.comparing import compare
from firstdiff.reports.outline import other_rows
from firstdiff.trace import ArraySource, Record, Role, Tensor, Trace

IDS = np.array([[5, 9, 2, 7, 4, 8], [3, 6, 1, 9, 2, 5]])
TABLE = np.random.default_rng(0).standard_normal((12, 4)).astype(np.float32)


def tensor(name: str, array: np.ndarray, role: Role = "output", parent: str | None = "root", step: int = 0) -> Tensor:
    return Tensor(Record(name=name, role=role, parent=parent, step=step), ArraySource(array))


def run(ids: np.ndarray, mask: np.ndarray | None = None, step: int = 0, gain: float = 1.0) -> list[Tensor]:
    """A model of one layer: embed, square; what it gives for padding is anything."""
    embedded = TABLE[ids]
    given = [tensor("root", ids, "input", None, step)]
    if mask is not None:
        given.append(
            Tensor(Record(name="root", role="input", slot="attention_mask", step=step), ArraySource(mask)),
        )
        embedded = np.where(mask[..., None] == 1, embedded, mask.cumsum(1)[..., None].astype(np.float32))
    return [*given, tensor("embed", embedded, step=step), tensor("square", embedded**2 * np.float32(gain), step=step)]


def trace(*parts: list[Tensor]) -> Trace:
    return Trace("run", tuple(one for part in parts for one in part), order="seq")


def in_steps(gain: float = 1.0) -> Trace:
    return trace(run(IDS[:, :4]), run(IDS[:, 4:5], step=1, gain=gain), run(IDS[:, 5:], step=2))


def test_steps_with_a_cache_are_one_forward() -> None:
    comparison = compare(trace(run(IDS)), in_steps())
    assert comparison.verdict == "match"
    assert "the candidate ran in 3 steps what the reference ran in one" in comparison.warnings[0]
    assert compare(in_steps(), trace(run(IDS))).verdict == "match"


def test_ids_may_be_given_by_name_in_one_run_and_by_place_in_the_other() -> None:
    whole = [replace(one, record=replace(one.record, slot="input_ids")) if not at else one for at, one in given(IDS)]
    for sides in ((trace(whole), in_steps()), (in_steps(), trace(whole))):
        comparison = compare(*sides)
        assert comparison.verdict == "match"
        assert (comparison.summary.missing, comparison.summary.extra) == (0, 0)


def flattened(run: Trace) -> Trace:
    """Give what is computed without the axis of the texts, as modules do that take tokens one by one."""
    tensors = (
        replace(one, source=ArraySource(one.values().read().reshape(-1, 4))) if one.key.name == "square" else one
        for one in run
    )
    return Trace("run", tuple(tensors), order="seq")


def test_steps_of_several_texts_on_one_axis_are_joined_text_by_text() -> None:
    whole, steps = flattened(trace(run(IDS))), flattened(in_steps())
    assert compare(whole, steps).verdict == "match"
    assert compare(steps, whole).verdict == "match"
    wrong = compare(whole, flattened(in_steps(gain=1.01)))
    assert wrong.verdict == "mismatch"
    assert wrong.first_divergence is not None
    assert wrong.first_divergence.key == "square"


def given(ids: np.ndarray) -> Iterator[tuple[int, Tensor]]:
    return enumerate(run(ids))


def test_an_error_in_one_step_is_found() -> None:
    comparison = compare(trace(run(IDS)), in_steps(gain=1.5))
    assert comparison.verdict == "mismatch"
    assert comparison.first_divergence is not None
    assert comparison.first_divergence.key == "square"


def test_steps_on_other_tokens_are_not_put_together() -> None:
    other = trace(run(IDS[:, :4]), run(IDS[:, 4:5] + 1, step=1), run(IDS[:, 5:], step=2))
    comparison = compare(trace(run(IDS)), other, allow_missing=True, allow_extra=True)
    assert comparison.verdict == "mismatch"
    assert not any("put together" in warning for warning in comparison.warnings)


def taps(*parts: np.ndarray, first: int = 0, gain: float = 1.0) -> Trace:
    """A port with other names that records no ids, in one step for each of some parts of the text."""
    made = []
    for step, ids in enumerate(parts, first):
        embedded = TABLE[ids]
        made += [tensor("x", embedded, step=step), tensor("y", embedded**2 * np.float32(gain), step=step)]
        gain = 1.0
    return trace(made)


def test_steps_of_a_port_without_ids_are_put_together_by_their_values() -> None:
    for parts in ((IDS[:, :4], IDS[:, 4:5], IDS[:, 5:]), tuple(np.split(IDS, 6, axis=1))):
        for first in (0, 1):
            comparison = compare(trace(run(IDS)), taps(*parts, first=first), allow_missing=True)
            assert comparison.verdict == "match"
            assert f"the candidate ran in {len(parts)} steps" in comparison.warnings[0]
            assert [pair.key for pair in comparison.pairs if pair.candidate] == ["embed", "square"]
            assert compare(taps(*parts), trace(run(IDS)), allow_extra=True).verdict == "match"


def test_an_error_in_a_step_of_a_port_without_ids_is_found() -> None:
    comparison = compare(trace(run(IDS)), taps(IDS[:, :2], IDS[:, 2:], first=1, gain=1.5), allow_missing=True)
    assert comparison.first_divergence is not None
    assert comparison.first_divergence.key == "square"


def test_steps_of_a_port_with_other_values_are_not_put_together() -> None:
    other = taps(IDS[:, :2] + 1, IDS[:, 2:] + 1)
    comparison = compare(trace(run(IDS)), other, allow_missing=True, allow_extra=True)
    assert comparison.verdict != "match"
    assert not any("put together" in warning for warning in comparison.warnings)


def test_a_text_is_compared_with_its_row_of_a_batch() -> None:
    comparison = compare(trace(run(IDS[1:])), trace(run(IDS)), allow_partial=True)
    assert comparison.verdict == "match"
    assert "the reference ran row 1 of the candidate's batch of 2 alone" in comparison.warnings[0]
    assert compare(trace(run(IDS[1:])), trace(run(IDS))).verdict == "mismatch"


def test_padding_may_stand_before_or_behind_the_text() -> None:
    ones = np.ones_like(IDS)
    right = trace(run(np.pad(IDS, ((0, 0), (0, 2))), np.pad(ones, ((0, 0), (0, 2)))))
    left = trace(run(np.pad(IDS, ((0, 0), (2, 0))), np.pad(ones, ((0, 0), (2, 0)))))
    comparison = compare(right, left, allow_partial=True)
    assert comparison.verdict == "match"
    assert "padding behind the text, the candidate before it" in comparison.warnings[0]


def test_an_axis_as_long_as_the_padded_text_need_not_count_tokens() -> None:
    ones = np.ones_like(IDS)

    def padded(before: int, behind: int) -> Trace:
        widths = ((0, 0), (before, behind))
        given = run(np.pad(IDS, widths), np.pad(ones, widths))
        ids = given[0].values().view()
        mask = given[1].values().view()
        heads = np.where(mask[..., None] == 1, np.cos(ids[..., None] + np.arange(ids.shape[1])), 0.5)
        return trace([*given, tensor("heads", heads), tensor("scores", heads @ heads.transpose(0, 2, 1))])

    comparison = compare(padded(0, 2), padded(2, 0), allow_partial=True)
    assert comparison.verdict == "match"
    assert comparison.pairs[-2].alignment.recipe.count(":,") == 2, "the last axis is whole"


def test_a_text_is_compared_with_its_row_of_a_padded_batch() -> None:
    """Padding behind it or before it, in a batch or alone; whatever is computed for padding."""
    mask = np.array([[1] * 6 + [0] * 2, [0] + [1] * 5 + [0] * 2])
    ids = np.where(mask == 1, np.pad(IDS, ((0, 0), (0, 2))), 0)
    batch = trace(run(ids, mask))
    for row, span in ((0, slice(0, 6)), (1, slice(1, 6))):
        text = ids[row : row + 1, span]
        alone = trace(run(text, np.ones_like(text)))
        for sides in ((alone, batch), (batch, alone)):
            comparison = compare(*sides, allow_partial=True)
            assert comparison.verdict == "match"
            assert f"ran row {row} of the" in comparison.warnings[0]
            assert "without its padding" in comparison.warnings[0]
            assert compare(*sides).verdict == "mismatch"
        wrong = compare(trace(run(text, np.ones_like(text), gain=1.5)), batch, allow_partial=True)
        assert wrong.first_divergence is not None
        assert wrong.first_divergence.key == "square"
    padded = trace(run(ids[:1], mask[:1]))
    for without in (run(ids[:1, :6], mask[:1, :6]), run(ids[:1, :6])):  # a text without padding needs no mask
        comparison = compare(trace(without), padded, allow_partial=True, allow_extra=True)
        assert comparison.verdict == "match"
        assert "the reference ran the candidate's text alone, without its padding" in comparison.warnings[0]


def test_another_text_is_no_part_of_a_padded_batch() -> None:
    mask = np.pad(np.ones_like(IDS), ((0, 0), (0, 2)))
    batch = trace(run(np.pad(IDS, ((0, 0), (0, 2))), mask))
    other = IDS[:1] + 1
    comparison = compare(trace(run(other, np.ones_like(other))), batch, allow_partial=True)
    assert comparison.verdict == "mismatch"
    assert not any("padding" in warning for warning in comparison.warnings)


def test_the_report_says_what_lets_parts_pass() -> None:
    comparison = compare(trace(run(IDS[1:])), trace(run(IDS)))
    assert any("--allow-partial lets them pass" in line for line in other_rows(comparison))


def test_ids_that_are_moved_without_a_mask_stay_a_mismatch() -> None:
    moved = trace(run(np.roll(IDS, 1, axis=1)))
    assert compare(trace(run(IDS)), moved, allow_partial=True).verdict == "mismatch"
