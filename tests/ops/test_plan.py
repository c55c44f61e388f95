from __future__ import annotations

import numpy as np
import pytest

from firstdiff.errors import UsageError
from firstdiff.ops.norms import group_norm, layer_norm, rms_norm
from firstdiff.ops.plan import Plan
from firstdiff.ops.shaping import cat, chunk
from tests.ops.oracle import values

X, WEIGHT, BIAS = values(1, 2, 6), values(2, 6), values(3, 6)


def plan() -> Plan:
    return Plan.of(layer_norm, {"input": X, "weight": WEIGHT, "bias": BIAS}, eps=1e-6)


def test_every_setting_is_there_also_at_its_default() -> None:
    settings = {"axes": (-1,), "eps": 1e-6, "one_plus": False, "unbiased": False, "eps_outside": False}
    assert plan().settings == settings
    assert plan().operator == "layer_norm"


def test_one_setting_can_be_changed() -> None:
    changed = plan().changed(eps=0.5)
    np.testing.assert_array_equal(changed.run()["0"], layer_norm(X, WEIGHT, BIAS, eps=0.5))
    assert plan().settings["eps"] == 1e-6


def test_arrays_can_be_replaced_or_left_out() -> None:
    other = plan().on(input=X + 1, bias=None)
    np.testing.assert_array_equal(other.run()["0"], layer_norm(X + 1, WEIGHT, eps=1e-6))


def test_another_function_takes_what_both_have() -> None:
    np.testing.assert_array_equal(plan().with_function(rms_norm).run()["0"], rms_norm(X, WEIGHT, BIAS, eps=1e-6))
    grouped = plan().with_function(group_norm, groups=2)
    np.testing.assert_array_equal(grouped.run()["0"], group_norm(X, WEIGHT, BIAS, groups=2, eps=1e-6))
    bare = plan().on(bias=None).with_function(cat)
    assert bare.arrays == {}


def test_several_outputs_have_slots() -> None:
    parts = Plan.of(chunk, {"input": X}, chunks=3, dim=1).run()
    assert list(parts) == ["0", "1", "2"]
    np.testing.assert_array_equal(parts["1"], X[:, 2:4])


def test_rounding_comes_first_and_leaves_whole_numbers_alone() -> None:
    from dataclasses import replace

    from firstdiff.ops.arrays import rounded
    from firstdiff.ops.indexing import embedding

    found = replace(plan(), rounding="bfloat16").run()["0"]
    three = (rounded(item, "bfloat16") for item in (X, WEIGHT, BIAS))
    np.testing.assert_array_equal(found, layer_norm(*three, eps=1e-6))
    rows = Plan(embedding, {"input": np.array([257]), "weight": values(1, 300, 2)}, {}, rounding="bfloat16")
    np.testing.assert_array_equal(rows.run()["0"], rounded(values(1, 300, 2)[[257]], "bfloat16"))
    joined = Plan(cat, {"tensors": (X, X)}, {"dim": 0}, rounding="float16").run()["0"]
    np.testing.assert_array_equal(joined, np.concatenate([rounded(X, "float16")] * 2))


def test_a_setting_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match=r"layer_norm has no setting 'epz' \(did you mean eps\?\)"):
        plan().changed(epz=1.0)
    with pytest.raises(UsageError, match="group_norm needs a value for groups"):
        plan().with_function(group_norm)


@pytest.mark.parametrize("wrong", [{"axes": (5,)}, {"axes": "all"}, {"eps": "small"}])
def test_what_does_not_fit_is_a_value_error(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        plan().changed(**wrong).run()
