from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

import firstdiff as fd
from firstdiff.reports import report_named
from firstdiff.reports.outline import differing_by_layer, introduced_rows, isolated, other_rows
from firstdiff.reports.sentences import diagnose_command
from firstdiff.reports.text import render
from firstdiff.schema import Comparison, Diagnosis, Divergence, Isolated, Note, Pair

STAGES = ("attention.self.query", "intermediate.intermediate_act_fn", "output.dense")


def layered(layers: int, wrong_from: int = 0) -> Comparison:
    """A model of so many layers, of which every row from one layer on differs."""
    reference = {"embeddings": np.ones(4)}
    reference |= {f"encoder.layer.{n}.{stage}": np.full(4, 1.0 + n) for n in range(layers) for stage in STAGES}
    reference |= {"pooler": np.ones(4), "pooler.dense": np.ones(3)}
    wrong = [f"encoder.layer.{n}.{stage}" for n in range(wrong_from, layers) for stage in STAGES]
    candidate = {name: value + 0.5 if name in wrong else value for name, value in reference.items()}
    return inherited(fd.compare(reference, candidate, diagnose=False))


def inherited(comparison: Comparison) -> Comparison:
    """The comparison with the first row that differs to blame for the others."""
    first = next(pair for pair in comparison.pairs if pair.status == "mismatch")

    def origin(pair: Pair) -> Pair:
        if pair.status != "mismatch":
            return pair
        return replace(pair, origin="introduced" if pair is first else "inherited")

    site = Divergence(pair=first.index, key=first.key, name=first.name, origin="introduced")
    pairs = tuple(map(origin, comparison.pairs))
    return replace(comparison, pairs=pairs, first_divergence=site, divergences=(site,))


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        (False, "firstdiff diagnose 'C:\\my runs\\a.trace' 'C:\\b.trace' layers.0"),
        (True, 'firstdiff diagnose "C:\\my runs\\a.trace" C:\\b.trace layers.0'),
    ],
)
def test_a_command_is_quoted_for_the_shell_of_the_system(windows: bool, expected: str) -> None:
    found = layered(1)
    reference, candidate = (
        replace(side, path=path)
        for side, path in ((found.reference, "C:\\my runs\\a.trace"), (found.candidate, "C:\\b.trace"))
    )
    found = replace(found, reference=reference, candidate=candidate)
    assert diagnose_command(found, "layers.0", windows=windows) == expected


def test_rows_that_inherit_an_error_are_one_line_a_layer() -> None:
    comparison = layered(3, wrong_from=1)
    groups = differing_by_layer(comparison, "inherited")
    assert [(group.label, group.rows) for group in groups] == [("layer 1", 2), ("layer 2", 3)]
    assert [pair.key for pair in introduced_rows(comparison)] == ["encoder.layer.1.attention.self.query"]
    assert groups[0].ratio > 1000
    assert not differing_by_layer(comparison, "unknown")


def test_operations_computed_again_are_told_where_one_that_differs_could_be() -> None:
    comparison = layered(3, wrong_from=1)
    first = next(pair for pair in comparison.pairs if pair.status == "mismatch")

    def told(status: Literal["match", "mismatch", "unknown"]) -> str | None:
        pairs = (replace(p, isolated=Isolated(status=status if p is first else "unknown")) for p in comparison.pairs)
        return isolated(replace(comparison, pairs=tuple(pairs)))

    begun = "Computed again from the candidate's own inputs, "
    assert told("mismatch") == (
        f"{begun}1 operation gives something else: {first.key}; {len(comparison.pairs) - 1} of {len(comparison.pairs)} "
        "could not be judged"
    )
    assert str(told("match")).startswith(f"{begun}every operation gives what was recorded; ")
    assert told("unknown") is None


def test_layers_are_named_in_their_order_and_what_surrounds_them() -> None:
    reference = {name: np.ones(4) for name in ("embed", "layers.10.a", "layers.11.a", "norm")}
    comparison = inherited(fd.compare(reference, {name: value + 1 for name, value in reference.items()}))
    labels = [group.label for group in differing_by_layer(comparison, "inherited")]
    assert labels == ["layer 10", "layer 11", "after the layers"]


def test_without_layers_the_first_part_of_the_name_stands_for_one() -> None:
    reference = {name: np.ones(4) for name in ("encoder.a", "encoder.b", "decoder.a", "decoder.b")}
    comparison = inherited(fd.compare(reference, {name: value + 1 for name, value in reference.items()}))
    groups = differing_by_layer(comparison, "inherited")
    assert [(group.label, group.rows) for group in groups] == [("encoder", 1), ("decoder", 2)]


def test_twenty_four_layers_fit_on_one_screen() -> None:
    lines = "".join(render(layered(24))).splitlines()
    assert len(lines) <= 40
    assert lines[0].startswith("MISMATCH: 72 mismatch, 3 match")
    assert sum(line.startswith("  layer ") for line in lines[1:]) == 13
    assert any(line.startswith("  layer 22 to layer 23 ") for line in lines)
    assert next(n for n, line in enumerate(lines) if line.startswith("First divergence: ")) < 6


def test_twelve_layers_have_a_line_each() -> None:
    lines = "".join(render(layered(12))).splitlines()
    assert sum(line.startswith("  layer ") for line in lines) == 13
    assert len(lines) <= 40


def test_more_layers_share_lines() -> None:
    groups = differing_by_layer(layered(60), "inherited")
    assert len(groups) <= 26
    assert groups[0].label == "layer 0 to layer 2"
    assert sum(group.rows for group in groups) == 60 * len(STAGES) - 1


def test_every_place_where_an_error_was_introduced_is_listed_with_its_cause() -> None:
    comparison = layered(3)
    causes = {
        0: ("norm.eps", "set eps of the first"),
        4: ("activation.kind", "use gelu"),
        7: ("activation.kind", "again"),
    }
    pairs = list(comparison.pairs)
    for at, (cause, fix) in causes.items():
        diagnosis = (Diagnosis(cause, 0.9, "it fits", fix),)
        pairs[at + 1] = replace(pairs[at + 1], diagnosis=diagnosis, origin="introduced")
    sites = tuple(Divergence(pair=n + 1, key=pairs[n + 1].key, name="", origin="introduced") for n in causes)
    comparison = replace(comparison, pairs=tuple(pairs), divergences=sites, first_divergence=sites[0])
    comparison = replace(comparison, pairs=(*comparison.pairs, *(replace(pairs[0], key=f"more.{n}") for n in range(8))))
    text = "".join(render(comparison))
    assert "Introduced: 3 rows\n" in text
    assert "encoder.layer.1.intermediate.intermediate_act_fn" in text
    assert text.count("    fix: use gelu\n") == 1
    assert "fix: again" not in text
    table = [line for line in "".join(report_named("md").render(comparison)).splitlines() if "activation.kind" in line]
    assert ["use gelu" in line for line in table] == [True, False]


def test_tensors_of_one_side_are_counted_by_role() -> None:
    reference = {"x": np.ones(3), "a": np.ones(4), "b": np.arange(2.0)}
    comparison = fd.compare(reference, {"x": np.ones(3)})
    assert list(other_rows(comparison)) == ["Only in the reference: 2 outputs (a, b)"]
    weights = tuple(replace(pair, role="param") if pair.key != "x" else pair for pair in comparison.pairs)
    lines = list(other_rows(replace(comparison, pairs=weights, settings={"allow_missing": True})))
    assert lines == ["Only in the reference: 2 params (a, b), which --allow-missing lets pass"]


def test_rows_that_failed_alike_are_one_line() -> None:
    comparison = fd.compare({"a": ["x"], "b": ["y"], "c": [1.0]}, {"a": ["x"], "b": ["y"], "c": [1.0]})
    (line,) = other_rows(comparison)
    assert line.startswith("Failed: 2 rows (a, b): ")


def test_what_there_was_no_time_for_is_named_with_the_command_that_does_it() -> None:
    comparison = layered(2)
    first, second = comparison.pairs[1].key, comparison.pairs[2].key
    notes = (Note("not_searched", first, ""), Note("not_searched", second, ""))
    sides = {"reference": replace(comparison.reference, path="my runs/a"), "settings": {}}
    text = "".join(render(replace(comparison, notes=notes, **sides)))
    assert (
        f"Cause: unknown: there was no time to look for it; firstdiff diagnose 'my runs/a' candidate {first} does"
        in text
    )
    assert f"No time was left to look for the cause of {second}; firstdiff diagnose" in text
    assert "--effort full for all of them" in text


def test_an_interrupted_comparison_says_so_first() -> None:
    found = layered(2)
    left = replace(found.summary, failed=3)
    text = "".join(render(replace(found, summary=left, complete=False)))
    assert text.startswith("INCOMPLETE (interrupted), MISMATCH so far: 6 mismatch")
    assert ", 3 not reached or failed; " in text.partition("\n")[0]


def test_coverage_never_reads_as_all_when_it_is_not() -> None:
    whole = fd.compare({"a": np.ones(4)}, {"a": np.ones(4)})
    assert "".join(render(whole)).startswith("MATCH: 1 match; 4 elements compared, all of the reference\n")
    part = replace(whole, summary=replace(whole.summary, coverage=0.99999))
    assert "".join(render(part)).startswith("MATCH: 1 match; 4 elements compared, 99.9 % of the reference\n")
