"""Layers run the same code: what is a pair in one layer is a pair in the others, and what has no partner has none."""

from __future__ import annotations

import numpy as np
import pytest

from firstdiff.pairing import pair_up
from firstdiff.pairing.repeated import layers_of
from firstdiff.trace import ArraySource, Record, Tensor, Trace

WRONG = 100  # seeds from here on are values that only the candidate has


def values(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((6, 8)).astype(np.float32)


class Run:
    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self._calls: dict[str, int] = {}

    def add(
        self, name: str, seed: int, op: str | None = None, parent: str | None = None, sources: tuple[int, ...] = ()
    ) -> None:
        call = self._calls.get(name, 0)
        self._calls[name] = call + 1
        record = Record(name=name, op=op, parent=parent, call=call, seq=len(self.tensors), sources=sources)
        self.tensors.append(Tensor(record, ArraySource(values(seed))))


def reference() -> Run:
    """Three layers, each a norm of two functions, a rotation that only this side writes out, and a sum."""
    run = Run()
    for layer in range(3):
        front, seed = f"model.layers.{layer}", 10 * layer
        run.add(f"{front}.norm", seed, "RMSNorm", front)
        run.add(f"{front}.neg", seed + 1, "neg", front)
        run.add(f"{front}.mul", seed + 2, "mul", front)
        run.add(f"{front}.add", seed + 3, "add", front)
        run.add(front, seed + 4, "Layer", "model")
    return run


def port(wrong_from: int, skip_in: int | None = None) -> Run:
    """The same under other names; from a layer on its values are wrong, and one layer may leave a function out."""
    run = Run()
    for layer in range(3):
        front = f"trunk.{layer}.0"
        seed = 10 * layer + (WRONG if layer >= wrong_from else 0)
        run.add(f"{front}.scaling", seed - seed // WRONG * WRONG, "Scaling", front)
        if layer != skip_in:
            run.add(f"{front}.cat", 50 + layer, "cat", front)
        run.add(f"{front}.cat", seed + 2, "cat", front)
        run.add(f"{front}.matmul", seed + 3, "matmul", front)
        run.add(front, seed + 4, "Block", "trunk")
    return run


def pairs(ours: Run, theirs: Run) -> dict[str, str]:
    result = pair_up(Trace("ours", tuple(ours.tensors)), Trace("theirs", tuple(theirs.tensors)))
    return {
        str(ours.tensors[match.reference[0]].key): str(theirs.tensors[match.candidate[0]].key) for match in result.pairs
    }


@pytest.mark.parametrize("wrong_from", [1, 2])
def test_a_layer_that_differs_is_paired_as_one_that_agrees(wrong_from: int) -> None:
    found = pairs(reference(), port(wrong_from))
    for layer in range(3):
        assert found[f"model.layers.{layer}.mul"] == f"trunk.{layer}.0.cat@1"
        assert found[f"model.layers.{layer}.add"] == f"trunk.{layer}.0.matmul"
        assert found[f"model.layers.{layer}"] == f"trunk.{layer}.0"


def test_one_layer_that_agrees_is_enough_where_both_stacks_are_numbered_alike() -> None:
    found = pairs(reference(), port(wrong_from=1))
    assert found["model.layers.2.mul"] == "trunk.2.0.cat@1"


def test_what_has_no_partner_in_a_layer_that_agrees_has_none_anywhere() -> None:
    found = pairs(reference(), port(wrong_from=1))
    assert not any(key.endswith(".neg") for key in found)


def decoder(stack: str, norm: str, wrong: int = 0) -> Run:
    """Two layers whose keys come from outside, so that they agree whatever happens to the stream."""
    run = Run()
    run.add("memory", 1, "Encoder")
    for layer in range(2):
        front, start = f"{stack}.{layer}", 3 * layer
        run.add(f"{front}.{norm}", 10 * layer + 2 + wrong, norm, front, (start,) if layer else ())
        run.add(f"{front}.k", 10 * layer + 3, "Linear", front, (0,))
        run.add(front, 10 * layer + 4 + wrong, "Layer", stack, (start + 1, start + 2))
    return run


def test_a_layer_is_healthy_by_its_last_value_not_by_the_last_that_was_paired() -> None:
    found = pairs(decoder("model.layers", "RMSNorm"), decoder("dec", "Scaling", wrong=WRONG))
    assert found["model.layers.0"] == "dec.0"


def test_functions_are_counted_as_the_code_of_the_layer_calls_them() -> None:
    found = pairs(reference(), port(wrong_from=1, skip_in=1))
    assert found["model.layers.1.add"] == "trunk.1.0.matmul"
    assert found["model.layers.2.mul"] == "trunk.2.0.cat@1"


def test_arguments_of_functions_that_are_a_pair_are_a_pair() -> None:
    def side(front: str, wrong: bool) -> list[Tensor]:
        query = Record(name=f"{front}.{'cat' if wrong else 'add'}", op="cat" if wrong else "add", parent=front, seq=1)
        attend = Record(
            name=f"{front}.softmax", op="softmax", parent=front, seq=2, sources=(1,), attrs={"inputs": ["input"]}
        )
        seeds = (WRONG, WRONG + 1, WRONG + 2) if wrong else (1, 2, 3)
        records = (query, attend, Record(name=front, op="Attention", seq=3))
        return [Tensor(record, ArraySource(values(seed))) for record, seed in zip(records, seeds, strict=True)]

    ours, theirs = side("layers.0.attn", wrong=False), side("layers.0.attn", wrong=True)
    result = pair_up(Trace("ours", tuple(ours)), Trace("theirs", tuple(theirs)))
    found = {(ours[one.reference[0]].name, theirs[one.candidate[0]].name) for one in result.pairs}
    assert ("layers.0.attn.add", "layers.0.attn.cat") in found


def stepped(record_of: list[tuple[str, int, int]]) -> Trace:
    """Tensors by name, step and seed, in the order of the run."""
    return Trace(
        "steps",
        tuple(
            Tensor(Record(name=name, op=None, step=step, seq=at), ArraySource(values(seed)))
            for at, (name, step, seed) in enumerate(record_of)
        ),
    )


def step_pairs(ours: Trace, theirs: Trace) -> dict[str, str]:
    result = pair_up(ours, theirs)
    sides = ours.tensors, theirs.tensors
    return {
        str(sides[0][match.reference[0]].key): str(sides[1][match.candidate[0]].key)
        for match in result.pairs
        if sides[0][match.reference[0]].key.step == 1
    }


def test_a_step_that_differs_is_paired_as_one_that_agrees() -> None:
    names = ("turned", "scores", "mixed")
    ours = [(name, step, 10 * step + at) for step in range(2) for at, name in enumerate(names)]
    # the port makes a table of the same size first in every step, and its second step is wrong
    theirs = [
        (name, step, 200 + at if step else (WRONG if at == 0 else at - 1))
        for step in range(2)
        for at, name in enumerate(("table", "xq", "s", "o"))
    ]
    assert step_pairs(stepped(ours), stepped(theirs)) == {"turned#s1": "xq#s1", "scores#s1": "s#s1", "mixed#s1": "o#s1"}


def branches(swapped_in: int | None, after: int = 0) -> Run:
    """Two tensors of every layer, what becomes of them, and the names of a port with leading zeros."""
    run = Run()
    for layer in range(3):
        one, two = 10 * layer, 10 * layer + 1
        if layer == swapped_in:
            one, two = two, one
        wrong = after if swapped_in is not None and layer >= swapped_in else 0
        run.add(f"b{layer:02d}_first", one)
        run.add(f"b{layer:02d}_second", two)
        run.add(f"b{layer:02d}_out", 10 * layer + 2 + wrong)
    return run


def named_branches() -> Run:
    run = Run()
    for layer in range(3):
        for at, name in enumerate(("key", "val", "mix")):
            run.add(f"stack.{layer}.{name}", 10 * layer + at)
    return run


@pytest.mark.parametrize("layer", [1, 2])
def test_tensors_that_hold_each_others_values_in_one_layer_keep_their_places(layer: int) -> None:
    found = pairs(named_branches(), branches(layer, WRONG))
    assert found[f"stack.{layer}.key"] == f"b0{layer}_first"
    assert found[f"stack.{layer}.val"] == f"b0{layer}_second"


def test_a_layer_is_counted_with_leading_zeros() -> None:
    ours, theirs = Run(), Run()
    for layer in range(12):
        ours.add(f"stack.{layer}.a", 10 * layer)
        theirs.add(f"x{layer:02d}a", 10 * layer if layer < 10 else 10 * WRONG + layer)
        ours.add(f"stack.{layer}.b", 10 * layer + 1)
        theirs.add(f"x{layer:02d}b", 10 * layer + 1 if layer < 10 else 20 * WRONG + layer)
    assert pairs(ours, theirs)["stack.11.a"] == "x11a"


@pytest.mark.parametrize("wrong_from", [1, 2, 3])
def test_a_similar_name_is_what_it_is_in_layers_that_agree(wrong_from: int) -> None:
    ours, theirs = Run(), Run()
    for layer in range(3):
        seed, wrong = 10 * layer, WRONG if layer >= wrong_from else 0
        ours.add(f"encoder.layer.{layer}.attention.output.dense", seed, "Linear")
        ours.add(f"encoder.layer.{layer}.attention.output.LayerNorm", seed + 1, "LayerNorm")
        theirs.add(f"block{layer}/attn_out", seed + 1 + wrong)
    expected = {f"encoder.layer.{n}.attention.output.LayerNorm": f"block{n}/attn_out" for n in range(3)}
    assert pairs(ours, theirs) == expected


def test_parts_of_a_layer_that_are_counted_are_no_layers() -> None:
    assert [layer.number for layer in layers_of("blocks.3.mlp.fc1")] == [3]
    assert [layer.number for layer in layers_of("down.1.blocks.0.norm2")] == [1, 0]
    assert [layer.number for layer in layers_of("b03_out")] == [3]
