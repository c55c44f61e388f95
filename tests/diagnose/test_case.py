from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from firstdiff.diagnose import Case, diagnose, sites_of
from firstdiff.diagnose.case import MOST_ELEMENTS, part_in_words, part_to_look_at
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.locate import RowGraph, locate
from firstdiff.trace import Trace
from tests.diagnose.pairs import randn, traced
from tests.locate.compared import rows_of


class Looks(Hypothesis):
    """Keeps the cases it is shown."""

    code = "test.looks"

    def __init__(self) -> None:
        self.seen: list[Case] = []

    def applies(self, case: Case) -> bool:
        return True

    def test(self, case: Case) -> Iterator[Explanation]:
        self.seen.append(case)
        return iter(())


def case_of(reference: Trace | dict[str, Any], candidate: Trace | dict[str, Any], key: str | None = None) -> Case:
    rows = rows_of(reference, candidate)
    looks = Looks()
    graph = RowGraph(rows)
    sites = sites_of(locate(graph, order="recorded")) if key is None else [row.index for row in rows if row.key == key]
    diagnose(graph, sites, hypotheses=[looks])
    return looks.seen[0]


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Trace, Trace]:
    """The second layer has other weights, and gets other inputs, since the first has as well."""
    reference, candidate = TwoLayers(), TwoLayers()
    with torch.no_grad():
        candidate.first.bias.add_(1.0)
        candidate.second.weight.mul_(1.1)
    x = randn(2, 5, 16)
    return traced(reference, [x], tmp_path / "reference"), traced(candidate, [x], tmp_path / "candidate")


def test_expected_is_the_references_operation_on_the_candidates_own_inputs(sides: tuple[Trace, Trace]) -> None:
    case = case_of(*sides, key="second")
    assert case.own_inputs
    given = sides[1]["root.relu"].values().view()
    weight, bias = (sides[0][f"second.{name}:param"].values().view() for name in ("weight", "bias"))
    np.testing.assert_allclose(case.expected, given @ weight.T.astype(float) + bias, rtol=1e-6, atol=1e-6)
    assert not np.allclose(case.expected, case.reference)


def test_a_case_knows_inputs_weights_and_attributes(sides: tuple[Trace, Trace]) -> None:
    case = case_of(*sides, key="second")
    assert (case.key, case.name, case.role, case.op) == ("second", "second", "output", "Linear")
    assert {name: both.differs for name, both in case.params.items()} == {"weight": True, "bias": False}
    assert [both.differs for both in case.inputs.values()] == [True]
    assert case.attrs["in_features"] == case.candidate_attrs["in_features"] == 16
    assert next(operation.op for operation in case.operations) in ("Linear", "linear")


def test_values_alone_are_a_case_without_operations() -> None:
    case = case_of({"x": np.arange(6.0)}, {"x": np.arange(6.0) + 1})
    assert case.operations == ()
    assert not case.own_inputs
    np.testing.assert_array_equal(case.expected, case.reference)
    assert case.unexplained.max_abs == 1.0


def test_earlier_rows_of_the_same_shape_come_last_first() -> None:
    reference = {"a": np.zeros(3), "b": np.ones(3), "c": np.ones(4), "d": np.full(3, 2.0)}
    case = case_of(reference, reference | {"d": np.full(3, 7.0)})
    assert [row.key for row in case.nearby.earlier()] == ["b", "a"]


def test_another_shape_is_a_case_that_cannot_be_compared() -> None:
    case = case_of({"x": np.zeros(3)}, {"x": np.zeros(5)})
    assert not case.comparable
    assert case.candidate_as_recorded is not None
    assert case.candidate_as_recorded.shape == (5,)


@pytest.mark.parametrize("shape", [(), (0,), (7,), (4, 4096, 4096), (1 << 20,), (100_000, 3), (2, 3, 1 << 19)])
def test_of_large_tensors_a_part_is_looked_at(shape: tuple[int, ...]) -> None:
    part = part_to_look_at(shape)
    kept = tuple(taken.stop - taken.start for taken in part)
    assert np.prod(kept) <= MOST_ELEMENTS
    assert (part_in_words(shape, part) is None) == (kept == shape) == (np.prod(shape) <= MOST_ELEMENTS)


@given(st.lists(st.tuples(st.integers(1, 300), st.floats(0, 0.999)), min_size=1, max_size=4))
def test_the_part_has_the_worst_element_in_it(axes: list[tuple[int, float]]) -> None:
    shape, worst = tuple(size for size, _ in axes), [int(size * share) for size, share in axes]
    part = part_to_look_at(shape, worst, most=500)
    assert all(taken.start <= index < taken.stop <= size for taken, index, size in zip(part, worst, shape, strict=True))


def test_an_error_far_down_a_large_tensor_is_still_explained() -> None:
    values = np.random.default_rng(0).standard_normal((4096, 64)).astype("f4")
    wrong = values.copy()
    wrong[3000:] *= -1
    case = case_of({"x": values}, {"x": wrong})
    assert not case.unexplained.reaches_floor
    assert case.part_text is not None
