from __future__ import annotations

import pytest

from firstdiff.pairing.names import LayerNumbers, layer_index


@pytest.mark.parametrize(
    ("name", "layer", "moved"),
    [
        ("transformer.h.3.ln_1", 3, "transformer.h.5.ln_1"),
        ("model.layers.3.mlp", 3, "model.layers.5.mlp"),
        ("blk.3.attn_q.weight", 3, "blk.5.attn_q.weight"),
        ("encoder.layer.3.output", 3, "encoder.layer.5.output"),
        ("layer_3", 3, "layer_5"),
        ("layers[3].mlp", 3, "layers[5].mlp"),
        ("blocks.9.norm1", 9, "blocks.11.norm1"),
        ("3_query", 3, "5_query"),
        ("Qcur-3", 3, "Qcur-5"),
        ("Qcur-3 (reshaped)", 3, "Qcur-5 (reshaped)"),
    ],
)
def test_the_layer_is_found_in_every_style(name: str, layer: int, moved: str) -> None:
    index = layer_index(name)
    assert index is not None
    assert index.layer == layer
    assert LayerNumbers(2).renamed(name) == moved


@pytest.mark.parametrize("name", ["ln_1", "fc1", "tensor_h0", "dense_h_to_4h", "layer_norm1", "mel", "w12", "3"])
def test_other_numbers_are_no_layers(name: str) -> None:
    assert layer_index(name) is None
    assert LayerNumbers(2).renamed(name) == name


def test_a_number_that_counts_tensors_is_no_layer() -> None:
    assert layer_index("03_mel", numbered=True) is None


def test_no_layer_is_below_zero() -> None:
    assert LayerNumbers(-2).renamed("layers.1.a") is None


def test_a_layer_is_counted_by_the_stack_it_is_in() -> None:
    layers = LayerNumbers(moved={("encoder",): {1: 2}})
    assert layers.renamed("my_model.encoder.layers.1.a") == "my_model.encoder.layers.2.a"
    assert layers.renamed("my_model.decoder.layers.1.a") == "my_model.decoder.layers.1.a"
    assert layers.renamed("encoder.layers.0.a") == "encoder.layers.0.a"
