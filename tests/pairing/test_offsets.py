from __future__ import annotations

import numpy as np

import firstdiff as fd
from firstdiff.pairing import PairingOptions, pair_up
from firstdiff.trace import Trace

RNG = np.random.default_rng(5)


def values() -> np.ndarray:
    return RNG.standard_normal((4, 8)).astype("f4")


def layer(number: int, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"layers.{number}.{stage}": array for stage, array in arrays.items()}


def test_one_layer_of_each_side_pairs_by_stage_whatever_its_number() -> None:
    arrays = {"attn.q": values(), "attn.scaling": np.float32(0.25), "mlp": values(), "sliding": np.bool_(True)}
    found = fd.compare(layer(3, arrays), layer(0, arrays))
    assert (found.verdict, found.summary.missing, found.summary.extra) == ("match", 0, 0)
    assert found.warnings == ("candidate layer 0 compared with reference layer 3; --layer-offset 0 to undo",)


def test_a_stated_offset_is_not_second_guessed() -> None:
    arrays = {"attn.q": values(), "mlp": values()}
    found = fd.compare(layer(3, arrays), layer(0, arrays), layer_offset=0)
    assert found.warnings == ()
    assert [pair.pairing.method for pair in found.pairs if pair.pairing] == ["content", "content"]


def test_one_offset_that_explains_all_equal_values_is_applied() -> None:
    layers = [{"q": values(), "k": values(), "mlp": values()} for _ in range(6)]
    reference = {name: array for number in range(6) for name, array in layer(number, layers[number]).items()}
    candidate = {name: array for number in range(4) for name, array in layer(number, layers[number + 2]).items()}
    result = pair_up(Trace.from_arrays(reference), Trace.from_arrays(candidate))
    pairs = {
        (result.reference.tensors[match.reference[0]].name, result.candidate.tensors[match.candidate[0]].name)
        for match in result.pairs
    }
    assert ("layers.2.q", "layers.0.q") in pairs
    assert len(pairs) == 12
    assert "candidate layer 0 compared with reference layer 2" in result.warnings[0]


def test_a_run_that_lacks_a_layer_is_compared_by_number() -> None:
    layers = [{"q": values(), "k": values(), "mlp": values()} for _ in range(5)]
    reference = {name: array for number in range(5) for name, array in layer(number, layers[number]).items()}
    kept = [layers[0], layers[1], layers[3], layers[4]]
    candidate = {name: array for number, arrays in enumerate(kept) for name, array in layer(number, arrays).items()}
    result = pair_up(Trace.from_arrays(reference), Trace.from_arrays(candidate))
    first = result.pairs[0]
    assert (result.reference.tensors[first.reference[0]].name, result.candidate.tensors[first.candidate[0]].name) == (
        "layers.0.q",
        "layers.0.q",
    )
    assert not any("compared with reference layer" in text for text in result.warnings)


def test_tables_that_every_layer_shares_tell_no_offset() -> None:
    rotary = values()
    reference = {f"layers.{number}.{stage}": rotary for number in range(6) for stage in ("cos", "sin", "mask")}
    reference |= {f"layers.{number}.q": values() for number in range(6)}
    candidate = {f"layers.{number}.{stage}": rotary for number in range(3) for stage in ("cos", "sin", "mask")}
    candidate |= {f"layers.{number}.q": values() for number in range(3)}
    result = pair_up(Trace.from_arrays(reference), Trace.from_arrays(candidate), PairingOptions())
    assert not any("compared with reference layer" in text for text in result.warnings)
