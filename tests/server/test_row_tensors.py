from __future__ import annotations

import numpy as np
import pytest

from firstdiff.comparing import compare
from firstdiff.errors import ReadError, UsageError
from firstdiff.server.row_tensors import aligned, tensors_named
from firstdiff.trace import ArraySource, Record, Tensor, Trace

VALUES = np.random.default_rng(0).standard_normal((6, 6)).astype("f4")


def both(reference: dict, candidate: dict, **options: object) -> tuple[np.ndarray, np.ndarray]:
    pair = compare(reference, candidate, **options).pairs[0]
    ours = tensors_named(Trace.from_arrays(reference), pair.reference.keys)
    theirs = tensors_named(Trace.from_arrays(candidate), pair.candidate.keys)
    sources = aligned(pair, ours, theirs)
    assert tuple(pair.metrics.argmax or ()) == tuple(_argmax(*(source.view() for source in sources)) or ())
    return sources[0].view(), sources[1].view()


def _argmax(one: np.ndarray, other: np.ndarray) -> tuple[int, ...] | None:
    apart = np.abs(one - other)
    return tuple(int(i) for i in np.unravel_index(apart.argmax(), apart.shape)) if apart.any() else None


@pytest.mark.parametrize(
    ("candidate", "options", "expected"),
    [
        (VALUES.T, {}, VALUES.T),
        (VALUES.T, {"accept_layout": ["transpose"]}, VALUES),
        (VALUES.T, {"align": ["x=a b -> b a"]}, VALUES),
        (VALUES.T + 1, {"align": ["x=a b -> b a"]}, VALUES + 1),
        (VALUES, {"align": ["x=a b -> b a"]}, VALUES.T),
        (VALUES.reshape(36), {}, VALUES),
    ],
    ids=["told but not used", "accepted", "stated", "stated, not equal", "stated, wrong", "called for"],
)
def test_values_come_in_the_layout_the_figures_are_of(candidate, options, expected) -> None:
    one, other = both({"x": VALUES}, {"x": candidate}, **options)
    np.testing.assert_array_equal(one, VALUES)
    np.testing.assert_array_equal(other, expected)


def test_what_nothing_relates_has_no_common_layout() -> None:
    pair = compare({"x": VALUES}, {"x": np.arange(7.0)}).pairs[0]
    ours, theirs = Trace.from_arrays({"x": VALUES}), Trace.from_arrays({"x": np.arange(7.0)})
    with pytest.raises(UsageError, match="map them by hand"):
        aligned(pair, tensors_named(ours, ["x"]), tensors_named(theirs, ["x"]))


def test_a_name_that_means_two_tensors_shows_neither() -> None:
    twins = tuple(Tensor(Record(name="x"), ArraySource(np.full(3, value))) for value in (1.0, 2.0))
    trace = Trace("run", (*twins, Tensor(Record(name="y"), ArraySource(np.zeros(3)))))
    assert trace.repeated == {"x"}
    with pytest.raises(ReadError, match="run: has more than one tensor 'x'"):
        tensors_named(trace, ["x"])
    assert tensors_named(trace, ["y"])[0].name == "y"


def test_joined_tensors_are_found_by_their_keys() -> None:
    trace = Trace.from_arrays({"a": [1.0], "b": [2.0], "c + d": [3.0]})
    assert [tensor.name for tensor in tensors_named(trace, ["a", "b"])] == ["a", "b"]
    assert [tensor.name for tensor in tensors_named(trace, ["c + d"])] == ["c + d"]
    with pytest.raises(UsageError, match="has no tensor"):
        tensors_named(trace, ["a", "e"])
