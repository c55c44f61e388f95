from __future__ import annotations

import numpy as np
import pytest

from firstdiff.pairing import Match, PairingOptions, PairingResult, doubt, pair_up, parse_map
from firstdiff.trace import Trace
from tests.pairing.models import array, llama, trace_of
from tests.pairing.traces import pairs_of, random

NAMES = [f"layers.{layer}.{part}" for layer in range(4) for part in ("q", "k", "mix")]


def test_two_swapped_tensors_stay_paired_by_name_and_the_swap_is_proposed() -> None:
    values = random(NAMES)
    swapped = values | {NAMES[0]: values[NAMES[4]], NAMES[4]: values[NAMES[0]]}
    result = doubt(pair_up(Trace.from_arrays(values), Trace.from_arrays(swapped)))
    assert pairs_of(result) == [(name, name) for name in NAMES]
    doubted = {match.reference[0]: match.pairing.alternatives for match in result.pairs if match.doubt}
    assert doubted == {0: (NAMES[4],), 4: (NAMES[0],)}
    assert result.pairs[0].doubt == "the values of layers.1.k fit far better"
    assert result.warnings == (
        "layers.0.q and layers.1.k seem to be swapped in the candidate; they were compared by name",
    )


def test_healthy_pairs_are_not_doubted() -> None:
    candidate = trace_of({str(tensor.key): array(llama(), str(tensor.key)) for tensor in llama()}, noise=True)
    outputs = Trace("outputs", tuple(tensor for tensor in llama() if tensor.record.role == "output"))
    result = pair_up(outputs, candidate)
    assert doubt(result) == result


def test_a_pair_that_simply_diverged_is_not_doubted() -> None:
    values = random(NAMES)
    wrong = values | {NAMES[0]: random(["x"], seed=9)["x"]}
    result = pair_up(Trace.from_arrays(values), Trace.from_arrays(wrong))
    assert doubt(result) == result


def test_values_in_another_place_are_named_even_if_nothing_is_swapped() -> None:
    values = random(NAMES)
    stale = values | {NAMES[4]: values[NAMES[0]]}
    result = doubt(pair_up(Trace.from_arrays(values), Trace.from_arrays(stale)))
    assert [match.doubt for match in result.pairs if match.doubt] == []
    dropped = {
        name: values[NAMES[0]] if name == "extra" else random(["x"], seed=5)["x"] for name in (NAMES[0], "extra")
    }
    result = doubt(pair_up(Trace.from_arrays({NAMES[0]: values[NAMES[0]]}), Trace.from_arrays(dropped)))
    assert [match.pairing.alternatives for match in result.pairs] == [("extra",)]
    assert result.warnings == ()


def test_only_suspects_are_looked_at() -> None:
    values = random(NAMES)
    swapped = values | {NAMES[0]: values[NAMES[4]], NAMES[4]: values[NAMES[0]]}
    result = pair_up(Trace.from_arrays(values), Trace.from_arrays(swapped))
    assert doubt(result, suspects=[1, 2]) == result
    assert [bool(match.doubt) for match in doubt(result, suspects=[0]).pairs[:2]] == [True, False]


def test_what_the_user_stated_is_not_doubted() -> None:
    values = random(["a", "b"])
    stated = parse_map('[[pair]]\nreference = "a"\ncandidate = "b"\n[[pair]]\nreference = "b"\ncandidate = "a"')
    both = Trace.from_arrays(values)
    result = pair_up(both, both, PairingOptions(map=stated))
    assert doubt(result) == result


def test_shifted_layers_are_proposed_as_an_offset() -> None:
    values = random([f"{layer}_{part}" for layer in range(6) for part in ("query", "key")])
    later = {name: x for name, x in values.items() if int(name[0]) >= 2}
    renumbered = {f"{int(name[0]) - 2}_{name[2:]}": x for name, x in later.items()}
    result = pair_up(Trace.from_arrays(values), Trace.from_arrays(renumbered))
    assert pairs_of(result) == [(name, name) for name in renumbered]
    assert doubt(result).warnings[-1] == (
        "4 tensors fit one of the same name 2 layers lower in the candidate; "
        "if its layers are counted so, pass --layer-offset 2"
    )
    right = doubt(pair_up(Trace.from_arrays(values), Trace.from_arrays(renumbered), PairingOptions(layer_offset=2)))
    assert [match.doubt for match in right.pairs] == [None] * 8
    assert pairs_of(right) == [(f"{int(name[0]) + 2}_{name[2:]}", name) for name in renumbered]


@pytest.mark.parametrize("skipped_in", ["candidate", "reference"])
def test_a_skipped_layer_is_named_rather_than_an_offset(skipped_in: str) -> None:
    values = random([f"{layer}_{part}" for layer in range(6) for part in ("query", "key", "value")])
    left = {name: x for name, x in values.items() if int(name[0]) != 2}
    renumbered = {f"{int(name[0]) - (int(name[0]) > 2)}_{name[2:]}": x for name, x in left.items()}
    sides = (values, renumbered) if skipped_in == "candidate" else (renumbered, values)
    result = pair_up(*map(Trace.from_arrays, sides))
    wrong = [place for place, match in enumerate(result.pairs) if not _is_equal(result, match)]
    (warning,) = doubt(result, suspects=wrong).warnings
    other = "reference" if skipped_in == "candidate" else "candidate"
    assert warning.startswith(f"the {skipped_in} seems to lack layer 2 of the {other}: from layer ")
    assert "--layer-offset" not in warning


def _is_equal(result: PairingResult, match: Match) -> bool:
    sides = (result.reference.tensors[match.reference[0]], result.candidate.tensors[match.candidate[0]])
    return np.array_equal(*(tensor.values().view() for tensor in sides))


def test_a_transposed_partner_is_no_reason_to_doubt() -> None:
    values = random(NAMES, (8, 12))
    theirs = {name: np.ascontiguousarray(x.T) for name, x in values.items()}
    result = pair_up(Trace.from_arrays(values), Trace.from_arrays(theirs))
    assert doubt(result) == result
