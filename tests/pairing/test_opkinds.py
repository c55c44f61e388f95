from __future__ import annotations

import pytest

from firstdiff.pairing.names import op_kind


@pytest.mark.parametrize(
    ("ops", "kind"),
    [
        (("LayerNorm", "LlamaRMSNorm", "layer_norm", "SimplifiedLayerNormalization"), "norm"),
        (("Linear", "MatMul", "Gemm", "aten.addmm", "Conv1D", "mul_mat"), "linear"),
        (("Embedding", "Gather"), "embedding"),
        (("Softmax", "softmax"), "softmax"),
        (("LlamaDecoderLayer", "", None), None),
    ],
)
def test_operators_are_one_kind_under_all_their_names(ops: tuple[str | None, ...], kind: str | None) -> None:
    assert {op_kind(op) for op in ops} == {kind}
