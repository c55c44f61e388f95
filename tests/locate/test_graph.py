from __future__ import annotations

import numpy as np
import pytest

from firstdiff.locate import locate
from firstdiff.locate.graph import in_parallel
from firstdiff.trace import ArraySource, Record, Tensor, Trace
from tests.locate.compared import graph_of


def trace(*records: Record, wrong: tuple[str, ...] = ()) -> Trace:
    """Values of 1, or of 2 for the keys that are wrong."""
    return Trace(
        "t",
        tuple(Tensor(record, ArraySource(np.full(3, 2.0 if str(record.key) in wrong else 1.0))) for record in records),
    )


def test_records_that_name_each_other_in_a_circle_end() -> None:
    records = (
        Record(name="a", seq=0, parent="b", role="input", sources=(3,)),
        Record(name="b", seq=1, parent="a", role="input", sources=(0,)),
        Record(name="a", seq=2, parent="a", role="output", op="A"),
        Record(name="b", seq=3, parent="b", role="output", sources=(3, 99), op="b"),
    )
    found = locate(graph_of(trace(*records), trace(*records, wrong=("a", "b"))), order="seq")
    assert found.first_divergence is not None
    assert found.first_divergence.key == "a"


def test_a_tensor_that_passes_through_a_caller_comes_from_the_callers_input() -> None:
    records = (
        Record(name="x", seq=0, role="output", op="X"),
        Record(name="block", seq=1, role="input", sources=(0,), parent="root"),
        Record(name="block.norm", seq=2, role="input", sources=(0,), parent="block"),
        Record(name="block.norm", seq=3, role="output", parent="block", op="Norm"),
        Record(name="block.add", seq=4, role="output", sources=(0, 3), parent="block", op="add"),
        Record(name="block", seq=5, role="output", parent="root", op="Block"),
    )
    graph = graph_of(trace(*records), trace(*records))
    assert [fed.rows for fed in graph.direct] == [(), (0,), (1,), (2,), (1, 3), (1, 4)]


def test_rows_that_only_the_reference_has_are_looked_through() -> None:
    names = "abcd"
    records = [Record(name=name, seq=at, sources=(at - 1,) if at else (), op="f") for at, name in enumerate(names)]
    few = [record for record in records if record.name in "ad"]
    graph = graph_of(trace(*records), trace(*few))
    assert graph.compared[3].rows == (0,)
    found = locate(graph_of(trace(*records), trace(*few, wrong=("d",))), order="seq")
    assert found.first_divergence is not None
    assert found.first_divergence.between == ("a", "d")


def test_ranks_do_not_feed_each_other() -> None:
    records = [
        Record(name=name, seq=at, rank=rank, sources=(at - 1,) if at else (), op="f")
        for rank in (0, 1)
        for at, name in enumerate("ab")
    ]
    graph = graph_of(trace(*records), trace(*records))
    assert [fed.rows for fed in graph.direct] == [(), (0,), (), (2,)]


@pytest.mark.parametrize(
    ("one", "other", "parallel"),
    [
        ("0_query", "0_key", True),
        ("0_query", "1_key", False),
        ("layers.3.q_proj", "layers.3.v_proj", True),
        ("layers.3.q_proj", "layers.3.o_proj", False),
        ("mlp.gate_proj", "mlp.up_proj", True),
        ("mlp.gate_proj", "mlp.q_proj", False),
        ("q", "q", False),
        ("", "", False),
    ],
)
def test_branches(one: str, other: str, parallel: bool) -> None:
    assert in_parallel(one, other) is parallel
