from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.ops import NotReplayable, Replayed, plans, replay, reproduce, residual
from firstdiff.ops.norms import layer_norm, rms_norm
from firstdiff.ops.replaying import TABLE
from tests.ops.oracle import values

F32 = np.dtype(np.float32)
X, WEIGHT, BIAS = values(1, 2, 5, 8, dtype=F32), values(2, 8, dtype=F32), values(3, 8, dtype=F32)
LAYER_NORM = {"normalized_shape": [8], "eps": 1e-5, "elementwise_affine": True, "training": False}


def replayed(found: Replayed | NotReplayable) -> Replayed:
    assert isinstance(found, Replayed), found
    return found


def refused(found: Replayed | NotReplayable) -> NotReplayable:
    assert isinstance(found, NotReplayable)
    return found


def test_a_module_is_computed_again_with_its_settings() -> None:
    again = replayed(replay("LayerNorm", LAYER_NORM, {"0": X}, {"weight": WEIGHT, "bias": BIAS}))
    np.testing.assert_array_equal(again.outputs["0"], layer_norm(X, WEIGHT, BIAS, eps=1e-5))
    assert again.settings["eps"] == 1e-5
    assert again.plan.assumed == ()
    assert again.residual is None


def test_one_thing_changed_is_one_call_away() -> None:
    again = replayed(replay("LayerNorm", LAYER_NORM, {"0": X}, {"weight": WEIGHT, "bias": BIAS}))
    candidate = layer_norm(X, WEIGHT, BIAS, eps=1e-3).astype(F32)
    assert residual(candidate, again.outputs["0"]) > 1000
    assert residual(candidate, again.plan.changed(eps=1e-3).run()["0"]) < 1


@pytest.mark.parametrize("slot", ["0", "input", "hidden_states", "anything"])
def test_a_lone_input_is_the_input_whatever_its_name(slot: str) -> None:
    again = replayed(replay("Tanh", {}, {slot: X}, {}))
    np.testing.assert_array_equal(again.outputs["0"], np.tanh(X.astype(np.float64)))


def test_a_function_whose_first_argument_is_missing_is_not_given_the_second() -> None:
    found = refused(replay("matmul", {"inputs": ["other"]}, {"other": np.eye(2)}, {}, name="attn.matmul"))
    assert found.reason == "the input of attn.matmul was not recorded"


@pytest.mark.parametrize(
    ("op", "attrs", "inputs", "params", "reason", "record_next"),
    [
        ("Linear", {}, {"0": X}, {}, "the weight of layers.3.mlp was not recorded", "params='all'"),
        ("LayerNorm", LAYER_NORM, {"0": X}, {}, "the weight of layers.3.mlp was not recorded", "params='all'"),
        ("LlamaRMSNorm", {}, {"0": X}, {}, "the weight of layers.3.mlp was not recorded", "params='all'"),
        ("Linear", {}, {}, {"weight": WEIGHT[None]}, "the input of layers.3.mlp was not recorded", "inputs"),
        ("GroupNorm", {"affine": False}, {"0": X}, {}, "the num_groups of layers.3.mlp was not recorded", "attrs="),
        ("BatchNorm1d", {}, {"0": X}, {}, "the running_mean of layers.3.mlp was not recorded", "params='all'"),
        ("LlamaMLP", {}, {"0": X}, {}, "the weights of layers.3.mlp were not recorded, or have", "params='all'"),
        (
            "linear",
            {"params": {"weight": "wte.weight"}},
            {"input": X},
            {},
            "wte.weight, the weight of layers.3.mlp, was not recorded",
            "params='all'",
        ),
        (
            "matmul",
            {"params": {"other": "w"}, "views": ["other"]},
            {"input": X},
            {},
            "the other of layers.3.mlp is a view of w, and was not recorded itself",
            "level='op'",
        ),
        ("LlamaAttention", {}, {"0": X}, {}, "no operator is known for LlamaAttention", "level='op'"),
        ("fft_fft", {}, {"input": X}, {}, "no operator is known for fft_fft", "nothing more"),
        ("Dropout", {"p": 0.1, "training": True}, {"0": X}, {}, "layers.3.mlp drops values at random", "eval"),
        (
            "scaled_dot_product_attention",
            {"dropout_p": 0.1},
            {"query": X, "key": X, "value": X},
            {},
            "layers.3.mlp drops values at random",
            "eval",
        ),
        ("cat", {"inputs": ["tensors.1"]}, {"tensors.1": X}, {}, "not all parts of layers.3.mlp were recorded", "max"),
        ("softmax", {}, {"input": X}, {}, "the dim of layers.3.mlp was not recorded", "attrs="),
    ],
)
def test_what_is_missing_is_said_and_how_to_get_it(
    op: str, attrs: dict[str, Any], inputs: Any, params: Any, reason: str, record_next: str
) -> None:
    found = refused(replay(op, attrs, inputs, params, name="layers.3.mlp"))
    assert found.reason.startswith(reason)
    assert record_next in found.record_next
    assert refused(reproduce(op, attrs, inputs, params, {"0": X}, name="layers.3.mlp")) == found


def test_without_a_name_the_kind_is_told() -> None:
    assert refused(replay("Linear", {}, {"0": X}, {})).reason == "the weight of this Linear was not recorded"


def test_shapes_that_do_not_fit_are_a_reason_and_no_crash() -> None:
    found = refused(replay("Linear", {}, {"0": X}, {"weight": np.zeros((4, 5))}))
    assert found.reason.startswith("what was recorded of this Linear does not fit together")


@pytest.mark.parametrize("attrs", [{"eps": "small"}, {"eps": [1, 2]}, {"normalized_shape": {"a": 1}}, {"args": 3}])
def test_attributes_can_be_anything(attrs: dict[str, Any]) -> None:
    found = replay("LayerNorm", {**LAYER_NORM, **attrs}, {"0": X}, {"weight": WEIGHT})
    assert isinstance(found, NotReplayable | Replayed)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
WORDS = (
    "eps dim stride padding dilation groups normalized_shape num_groups chunks k n_fft hop_length scale is_causal p "
    "approximate beta keepdim kernel_size output_size repeats shifts dims pad mode equation params views args tokens "
    "autocast dtype_was"
)
KINDS = (
    "Linear Conv1d LayerNorm RMSNorm FooRMSNorm GroupNorm BatchNorm1d GELU softmax mean var chunk split cat pad roll "
    "scaled_dot_product_attention MultiheadAttention Embedding MaxPool1d AdaptiveAvgPool1d einsum topk FooMLP Snake "
    "normalize stft"
)


@settings(max_examples=400)
@given(
    op=st.sampled_from(KINDS.split()),
    attrs=st.dictionaries(st.sampled_from(WORDS.split()), json_like, max_size=4),
    shape=st.lists(st.integers(0, 4), max_size=4),
    held=st.lists(st.integers(0, 4), max_size=4),
)
def test_no_record_makes_it_crash(op: str, attrs: dict[str, Any], shape: list[int], held: list[int]) -> None:
    x, weight = values(1, *shape), np.asarray(values(2, *held))
    inputs = dict.fromkeys(("0", "1", "input", "query", "key", "value", "tensors.0", "operands.0"), np.asarray(x))
    params = dict.fromkeys(
        ("weight", "bias", "running_mean", "running_var", "in_proj_weight", "out_proj.weight"), weight
    )
    for found in (replay(op, attrs, inputs, params), reproduce(op, attrs, inputs, params, {"0": np.asarray(x)})):
        assert isinstance(found, NotReplayable | Replayed)


class TestReproduce:
    def test_the_recorded_output_is_the_judge(self) -> None:
        output = layer_norm(X, WEIGHT, BIAS, eps=1e-5).astype(F32)
        params = {"weight": WEIGHT, "bias": BIAS}
        again = replayed(reproduce("LayerNorm", LAYER_NORM, {"0": X}, params, {"0": output}))
        assert again.residual is not None
        assert 0 < again.residual <= 0.5
        found = refused(reproduce("LayerNorm", LAYER_NORM, {"0": X}, params, {"0": output * np.float32(1.01)}))
        assert "this LayerNorm as layer_norm does not give its recorded output again" in found.reason

    def test_no_recorded_output_is_no_proof(self) -> None:
        found = refused(reproduce("Tanh", {}, {"0": X}, {}, {}))
        assert found.reason == "no output of this Tanh was recorded to check a replay by"
        assert isinstance(reproduce("Tanh", {}, {"0": X}, {}, {"1": X}), NotReplayable)

    @pytest.mark.parametrize("one_plus", [False, True])
    @pytest.mark.parametrize("eps", [1e-5, 1e-6, 1e-12])
    @pytest.mark.parametrize("kind", [layer_norm, rms_norm])
    def test_what_the_record_leaves_open_is_settled_by_the_numbers(self, kind: Any, eps: float, one_plus: bool) -> None:
        x = X * np.float32(1e-2)
        output = kind(x, WEIGHT, eps=eps, one_plus=one_plus).astype(F32)
        again = replayed(reproduce("MyNorm", {}, {"x": x}, {"weight": WEIGHT}, {"0": output}))
        assert again.plan.function is kind
        assert (again.settings["eps"], again.settings["one_plus"]) == (eps, one_plus)
        assert set(again.plan.assumed) == {"eps", "one_plus", "function"}

    def test_the_best_is_taken_and_not_the_first_that_is_good_enough(self) -> None:
        x = X * np.float32(2.0)
        output = rms_norm(x, WEIGHT, eps=1e-6).astype(F32)
        again = replayed(reproduce("MyRMSNorm", {}, {"x": x}, {"weight": WEIGHT}, {"0": output}))
        assert residual(output, rms_norm(x, WEIGHT, eps=1e-5)) < 128
        assert again.settings["eps"] == 1e-6

    def test_half_precision_is_judged_by_its_own_steps(self) -> None:
        x = X.astype(ml_dtypes.bfloat16)
        output = np.tanh(x.astype(np.float64)).astype(ml_dtypes.bfloat16)
        again = replayed(reproduce("Tanh", {}, {"0": x}, {}, {"0": output}))
        assert again.residual is not None
        assert again.residual <= 0.5

    def test_values_stored_finer_than_they_were(self) -> None:
        stored = np.tanh(X.astype(np.float64)).astype(ml_dtypes.bfloat16).astype(F32)
        assert isinstance(reproduce("Tanh", {}, {"0": X}, {}, {"0": stored}), NotReplayable)
        replayed(reproduce("Tanh", {"dtype_was": "bfloat16"}, {"0": X}, {}, {"0": stored}))

    def test_nan_in_the_recorded_output_must_be_nan_again(self) -> None:
        x = np.array([[-np.inf, -np.inf], [0.0, 1.0]], dtype=F32)
        output = torch.softmax(torch.from_numpy(x), -1).numpy()
        replayed(reproduce("softmax", {"dim": -1}, {"input": x}, {}, {"0": output}))
        assert isinstance(
            reproduce("softmax", {"dim": -1}, {"input": x}, {}, {"0": np.nan_to_num(output)}), NotReplayable
        )


class TestAutocast:
    def test_products_round_what_goes_in(self) -> None:
        linear = torch.nn.Linear(8, 8)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            output = linear(torch.from_numpy(X)).float().numpy().astype(ml_dtypes.bfloat16)
        params = {name: item.detach().numpy() for name, item in linear.named_parameters()}
        again = replayed(reproduce("Linear", {"autocast": "bfloat16"}, {"0": X}, params, {"0": output}))
        assert again.plan.rounding == "bfloat16"
        assert again.residual is not None
        assert again.residual <= 0.5

    def test_norms_do_not(self) -> None:
        again = replayed(replay("LayerNorm", {**LAYER_NORM, "autocast": "bfloat16"}, {"0": X}, {"weight": WEIGHT}))
        assert again.plan.rounding is None


class TestPartOfTheTokens:
    PART: dict[str, Any] = {"tokens": "0:2", "tokens_axis": 1, "tokens_of": 5}  # noqa: RUF012

    def test_operations_on_each_token_do_not_mind(self) -> None:
        replayed(replay("LayerNorm", {**LAYER_NORM, **self.PART}, {"0": X[:, :2]}, {"weight": WEIGHT}))

    def test_those_that_mix_tokens_say_so(self) -> None:
        part = {"query": X[:, :2], "key": X[:, :2], "value": X[:, :2]}
        found = refused(replay("scaled_dot_product_attention", self.PART, part, {}, name="attn"))
        assert found == NotReplayable("of attn only the tokens 0:2 were recorded", "capture without tokens")


def test_another_record_is_read_as_the_first_was() -> None:
    output = rms_norm(X, WEIGHT, eps=1e-6, one_plus=True).astype(F32)
    again = replayed(reproduce("MyNorm", {"eps": 1e-6}, {"x": X}, {"weight": WEIGHT}, {"0": output}))
    other = replayed(replay("MyNorm", {}, {"x": X + 1}, {"weight": WEIGHT}, settled=again.plan))
    np.testing.assert_array_equal(other.outputs["0"], rms_norm(X + 1, WEIGHT, eps=1e-6, one_plus=True))
    found = refused(replay("Tanh", {}, {"x": X}, {}, settled=again.plan))
    assert "cannot be read as rms_norm" in found.reason


def test_the_first_row_that_supports_a_call_reads_it() -> None:
    found = plans("GELU", {}, {"0": X}, {})
    assert isinstance(found, tuple)
    assert [plan.settings["approximate"] for plan in found] == ["none", "tanh"]
    assert isinstance(plans("GELU", {}, {"0": X}, {}, table=()), NotReplayable)


def test_every_row_has_a_page() -> None:
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "replay.md").read_text(encoding="utf-8")
    functions = {row.plans.__module__.rpartition(".")[2] for row in TABLE}
    assert [family for family in functions if f"`{family}`" not in page] == []
