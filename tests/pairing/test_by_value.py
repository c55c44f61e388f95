from __future__ import annotations

from typing import final

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.errors import ReadError
from firstdiff.pairing import pair_up
from firstdiff.pairing.by_name import EXACT_STRATEGY
from firstdiff.pairing.by_value import STRATEGY as BY_VALUE
from firstdiff.pairing.fingerprints import RELATED, Fingerprints, fits_of_profiles, misfit
from firstdiff.trace import ArraySource, Record, Source, Tensor, Trace
from tests.pairing.models import array, gpt2, llama, trace_of
from tests.pairing.traces import methods_of, paired, pairs_of, random

NAMES = [f"ours {letter}" for letter in "abcdefgh"]
FOREIGN = {name: f"x{ord(name[-1]) * 7919 % 1000}y" for name in NAMES}
EXPECTED = list(FOREIGN.items())


def foreign(arrays: dict[str, np.ndarray]) -> Trace:
    """The same tensors under names that share nothing, backwards."""
    return Trace.from_arrays({FOREIGN[name]: arrays[name] for name in reversed(NAMES)})


def bf16(values: np.ndarray) -> np.ndarray:
    return values.astype(ml_dtypes.bfloat16)


LAYOUTS = {
    "as they are": lambda x: x,
    "in bf16": bf16,
    "in float64": lambda x: x.astype(np.float64),
    "big-endian": lambda x: x.astype(">f4"),
    "flattened": lambda x: x.reshape(-1),
    "with singletons": lambda x: x[None, :, None],
    "unflattened": lambda x: x.reshape(4, 5, 6, 7, 1),
    "permuted": lambda x: np.ascontiguousarray(x.transpose(2, 0, 1)),
    "permuted, strided": lambda x: x.transpose(1, 2, 0),
    "permuted, in bf16": lambda x: bf16(x.transpose(2, 1, 0)),
    "heads apart": lambda x: np.ascontiguousarray(x.reshape(4, 5, 6, 7).transpose(2, 1, 0, 3)),
    "heads apart, in bf16": lambda x: bf16(x.reshape(4, 5, 6, 7).transpose(2, 1, 0, 3)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_equal_values_are_paired_whatever_their_names_and_layout(layout: str) -> None:
    arrays = random(NAMES, (4, 5, 42))
    result = pair_up(Trace.from_arrays(arrays), foreign({name: LAYOUTS[layout](x) for name, x in arrays.items()}))
    assert pairs_of(result) == EXPECTED
    assert methods_of(result) == {"content"}
    assert min(match.pairing.confidence for match in result.pairs) >= 0.7


@pytest.mark.parametrize("shape", [(700, 90), (1, 3000, 1000)], ids=str)
def test_large_tensors_are_paired_from_a_few_values(shape: tuple[int, ...]) -> None:
    arrays = random(NAMES[:3], shape)
    theirs = {f"z{ord(name[-1])}": bf16(values.swapaxes(-1, -2)) for name, values in arrays.items()}
    assert paired(Trace.from_arrays(arrays), Trace.from_arrays(theirs)) == list(zip(arrays, theirs, strict=True))


def test_only_a_few_values_of_a_large_tensor_are_read() -> None:
    counted = CountedSource(np.random.default_rng(0).standard_normal(1 << 21))
    ours = Trace("ours", (Tensor(Record(name="a"), counted), Tensor(Record(name="b"), ArraySource(np.zeros(3)))))
    theirs = Trace.from_arrays({"c": counted.array, "d": np.zeros(4)})
    assert paired(ours, theirs) == [("a", "c")]
    assert 0 < counted.read_values <= 128


def test_nothing_is_read_when_names_are_enough() -> None:
    counted = CountedSource(np.random.default_rng(0).standard_normal(100))
    ours = Trace("ours", (Tensor(Record(name="a"), counted),))
    assert paired(ours, ours) == [("a", "a")]
    assert counted.read_values == 0


UNTELLING = {
    "zeros": lambda n: np.zeros(400),
    "constant": lambda n: np.full(400, 3.5),
    "nearly constant": lambda n: 1e6 + 1e-9 * np.arange(400),
    "one-hot": lambda n: np.eye(400)[n],
    "identity": lambda n: np.eye(20),
    "mask": lambda n: np.tril(np.ones((20, 20), bool)),
    "few values": lambda n: np.arange(400) % 7,
    "nan": lambda n: np.full(400, np.nan),
    "empty": lambda n: np.empty((0, 4)),
    "0-d": np.float64,
}


@pytest.mark.parametrize("kind", UNTELLING)
def test_values_that_tell_nothing_pair_nothing(kind: str) -> None:
    arrays = {name: UNTELLING[kind](place) for place, name in enumerate(NAMES[:2])}
    theirs = {FOREIGN[name]: values for name, values in arrays.items()}
    assert paired(Trace.from_arrays(arrays), Trace.from_arrays(theirs)) == []


ODD = {
    "nan and inf": lambda x: np.where(x > 1.5, np.nan, np.where(x < -1.5, np.inf, x)),
    "huge": lambda x: x * 1e80,
    "tiny": lambda x: x * 1e-80,
    "complex": lambda x: x + 1j * x[::-1],
    "ints": lambda x: (1000 * x).astype(np.int64),
    "fp8": lambda x: x.astype(ml_dtypes.float8_e4m3fn),
    "far from zero": lambda x: x + 1000,
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_values_are_paired_as_well(kind: str) -> None:
    arrays = {name: ODD[kind](values.astype(np.float64)) for name, values in random(NAMES, (20, 30)).items()}
    assert paired(Trace.from_arrays(arrays), foreign(arrays)) == EXPECTED


@pytest.mark.parametrize("shape", [(6, 10), (20, 20), (300, 400)], ids=str)
def test_unrelated_values_of_equal_shape_are_not_paired(shape: tuple[int, ...]) -> None:
    ours, theirs = random(NAMES, shape, seed=1), random(NAMES, shape, seed=2)
    result = pair_up(Trace.from_arrays(ours), foreign(theirs))
    assert result.pairs == ()
    assert all(one.guess is None or one.guess.confidence < 0.6 for one in (*result.missing, *result.extra))


@given(st.integers(0, 10_000))
@settings(max_examples=200)
def test_unrelated_values_of_one_distribution_are_never_paired(seed: int) -> None:
    generator = np.random.default_rng(seed)
    size = int(generator.integers(100, 3000))
    kinds = (
        generator.standard_normal,
        generator.random,
        generator.standard_cauchy,
        generator.standard_exponential,
        lambda count: generator.integers(0, 50, count),
        lambda count: bf16(generator.standard_normal(count)),
    )
    draw = kinds[seed % len(kinds)]
    assert (
        paired(
            Trace.from_arrays({"a": draw(size), "b": draw(size)}), Trace.from_arrays({"x": draw(size), "y": draw(size)})
        )
        == []
    )


def test_equal_tensors_are_paired_in_order_and_the_others_named() -> None:
    values = random(["x"])["x"]
    ours = Trace.from_arrays({"a": values, "b": values, "other": 2 * values})
    result = pair_up(ours, Trace.from_arrays({"p": values, "q": values}))
    assert pairs_of(result) == [("a", "p"), ("b", "q")]
    assert [match.pairing.alternatives for match in result.pairs] == [("q",), ("p",)]
    assert {match.pairing.confidence for match in result.pairs} == {0.65}


def weights(**arrays: np.ndarray) -> Trace:
    """Weights have no place in the run, so that nothing but values can pair them."""
    tensors = (Tensor(Record(name=name, role="param"), ArraySource(values)) for name, values in arrays.items())
    return Trace("weights", tuple(tensors))


def noisy(values: np.ndarray, share: float, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(values.shape)
    return values + share * values.std() * noise


def test_similar_values_are_only_a_guess() -> None:
    values = random(["x", "y"], (20, 30))
    result = pair_up(weights(a=values["x"], b=values["y"]), weights(p=noisy(values["x"], 0.15, 1), q=np.zeros(3)))
    assert result.pairs == ()
    guess = result.missing[0].guess
    assert guess is not None
    assert (guess.key, guess.why, guess.confidence) == ("p:param", "similar values", 0.5)


def test_a_fit_that_is_not_clearly_the_best_names_the_others() -> None:
    values = random(["x", "y"], (20, 30))
    theirs = weights(p=noisy(values["x"], 0.01, 1), q=noisy(values["x"], 0.02, 2))
    (match,) = pair_up(weights(a=values["x"], b=values["y"]), theirs).pairs
    assert match.candidate == (0,)
    assert (match.pairing.confidence, match.pairing.alternatives) == (0.65, ("q:param",))


def test_a_fit_with_a_rival_that_is_only_similar_is_not_a_pair() -> None:
    values = random(["x", "y"], (20, 30))
    theirs = weights(p=noisy(values["x"], 0.04, 1), q=noisy(values["x"], 0.1, 2))
    result = pair_up(weights(a=values["x"], b=values["y"]), theirs)
    assert result.pairs == ()
    guess = result.missing[0].guess
    assert guess is not None
    assert (guess.key, guess.alternatives) == ("p:param", ("q:param",))


def test_an_output_is_found_where_the_other_side_recorded_it_as_an_input() -> None:
    values = random(["x", "y"])
    ours = Trace("ours", tuple(Tensor(Record(name=f"fc {n}", role="input"), ArraySource(v)) for n, v in values.items()))
    theirs = Trace.from_arrays({f"mixed{n}": v for n, v in values.items()})
    assert paired(ours, theirs) == [("fc x:in.0", "mixedx"), ("fc y:in.0", "mixedy")]


def test_a_weight_is_never_paired_with_an_activation() -> None:
    values = random(["x", "y"])
    ours = Trace("ours", tuple(Tensor(Record(name=f"fc {n}", role="param"), ArraySource(v)) for n, v in values.items()))
    assert paired(ours, Trace.from_arrays({f"mixed{n}": v for n, v in values.items()})) == []


@pytest.mark.parametrize("field", [{"step": 1}, {"rank": 1, "world": 2}], ids=str)
def test_equal_values_of_another_step_or_rank_are_not_paired(field: dict[str, int]) -> None:
    values = random(["x", "y"])
    ours = Trace("ours", tuple(Tensor(Record(name=f"fc {n}", **field), ArraySource(v)) for n, v in values.items()))  # type: ignore[arg-type]
    assert paired(ours, Trace.from_arrays({f"mixed{n}": v for n, v in values.items()})) == []


def test_a_tensor_that_cannot_be_read_has_no_fingerprint() -> None:
    trace = Trace("ours", (Tensor(Record(name="a"), TornSource()), Tensor(Record(name="b"), error="gone")))
    prints = Fingerprints(trace)
    assert prints.points([0, 1], "in_order")[1] == []
    assert prints.profile(0) is None


def test_values_halved_in_a_layout_that_hides_every_place_are_not_the_same() -> None:
    values = np.random.default_rng(1).standard_normal((16, 24)).astype(np.float32)
    moved = values.reshape(4, 4, 2, 12).transpose(3, 1, 2, 0)
    prints, others = (Fingerprints(Trace.from_arrays({"x": found})) for found in (values, moved))
    halved = Fingerprints(Trace.from_arrays({"x": moved / 2}))
    assert fits_of_profiles(prints, [0], others, [0])
    assert not fits_of_profiles(prints, [0], halved, [0])


@pytest.mark.parametrize("run", [llama, gpt2], ids=["llama", "gpt2"])
def test_a_whole_run_is_paired_by_its_values_alone(run: object) -> None:
    reference = run()  # type: ignore[operator]
    keys = [str(tensor.key) for tensor in reference]
    names = {f"t{number * 7919 % 9973}": key for number, key in enumerate(keys)}
    values = {name: array(reference, key)[0].T for name, key in names.items()}
    result = pair_up(reference, trace_of(values, noise=True))
    assert pairs_of(result) == [(key, name) for name, key in names.items()]


def test_an_offset_of_layers_is_proposed_from_values() -> None:
    values = random([f"{layer}" for layer in range(8)])
    ours = Trace.from_arrays({f"layers.{8 + int(layer)}.mix": x for layer, x in values.items()})
    theirs = Trace.from_arrays({f"layers.{layer}.mix": x for layer, x in values.items()})
    result = pair_up(ours, theirs)
    assert result.warnings == (
        "8 tensors have the values of one of the same name 8 layers lower in the candidate; "
        "if its layers are counted so, pass --layer-offset 8",
    )


@final
class CountedSource(Source):
    """Counts the values that are read."""

    def __init__(self, values: np.ndarray) -> None:
        self.array, self.shape, self.dtype = values, values.shape, values.dtype
        self.read_values = 0

    def view(self) -> np.ndarray:
        self.read_values += self.array.size
        return self.array

    def window(self, start: int, stop: int) -> np.ndarray:
        self.read_values += stop - start
        return self.array.reshape(-1)[start:stop]


@final
class TornSource(Source):
    shape, dtype = (100,), np.dtype(np.float32)

    def view(self) -> np.ndarray:
        raise ReadError("is torn")


def test_values_that_are_equal_beat_values_that_bf16_would_not_tell_from_them() -> None:
    made = random(["dense", "sum"])
    small = 0.05 * made["dense"]
    reference = Trace.from_arrays({"dense": small, "activation": np.tanh(small), "sum": made["sum"]})
    candidate = Trace.from_arrays({"x1": np.tanh(small) * np.float32(1 + 1e-6), "x2": made["sum"]})
    assert paired(reference, candidate) == [("activation", "x1"), ("sum", "x2")]


def test_ids_of_a_short_text_are_paired_by_their_values() -> None:
    ids = np.array([[101, 7592, 2088, 102], [101, 7592, 102, 0]])
    reference = Trace.from_arrays({"input_ids": ids, "zeros": np.zeros_like(ids), "types": np.zeros_like(ids)})
    candidate = Trace.from_arrays({"a": np.zeros_like(ids), "src": ids.astype(np.int32), "b": np.zeros_like(ids)})
    assert paired(reference, candidate) == [("input_ids", "src")]


def test_a_mask_hides_no_difference_between_scores() -> None:
    scores, others = np.random.default_rng(5).standard_normal((2, 4, 12, 12))
    hidden = np.triu(np.ones((12, 12), bool), 1)
    traces = [
        Trace.from_arrays({"x": np.where(hidden, filler, values)})
        for filler, values in ((-3e38, scores), (-1e9, others))
    ]
    prints = [Fingerprints(trace) for trace in traces]
    assert misfit(prints[0], 0, prints[1], 0) > RELATED
    same = Fingerprints(Trace.from_arrays({"x": np.where(hidden, -np.inf, scores)}))
    assert misfit(prints[0], 0, same, 0) == 0


def test_a_copy_of_a_pair_is_not_what_was_only_moved() -> None:
    values = np.random.default_rng(6).standard_normal((6, 8, 4)).astype(np.float32)
    moved = values.reshape(3, 2, 8, 4).transpose(0, 2, 1, 3).reshape(3, 8, 8)
    ours = Trace.from_arrays({"layers.0.mlp": values, "layers.0.gathered": moved})
    theirs = Trace.from_arrays({"layers.0.mlp": values, "stage": values})
    assert paired(ours, theirs, strategies=(EXACT_STRATEGY, BY_VALUE)) == [("layers.0.mlp", "layers.0.mlp")]
