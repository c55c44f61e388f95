"""Code paths of large pairs only: the sample, sums in float32 by the kernel, several threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff.dtypes import from_name
from firstdiff.measure import EXACT, Allowed, measure_pair, measure_statistics, pair, plan
from firstdiff.measure.passes import Engine, Passes, engine_for
from firstdiff.trace import ArraySource, Source
from tests.measure.agreement import assert_agrees
from tests.measure.arrays import Recipe, arrays, recipes
from tests.measure.variants import VARIANTS, using

ENGINES: list[Engine] = ["numpy", "auto"]
ANYTHING = Allowed(1e30, 1.0)
# one pair for every way through the compiled code: float32 as it is, both conversions, and float64
COMPILED = st.sampled_from([("float32", "float32"), ("bfloat16", "float16"), ("float64", "float32")])


@pytest.fixture
def no_small_tensors() -> Iterator[None]:
    """Every tensor counts as large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair, "SMALL", 0)
        yield


@pytest.mark.usefixtures("no_small_tensors")
class TestEveryTensorAsALargeOne:
    @settings(max_examples=100)
    @given(
        recipes(max_size=5000),
        COMPILED,
        st.sampled_from([EXACT, Allowed(1e-3, 1e-3), ANYTHING]),
        st.booleans(),
        st.sampled_from(VARIANTS),
    )
    def test_the_compiled_engine_agrees_with_the_definitions(
        self, recipe: Recipe, types: tuple[str, str], allowed: Allowed, equal_nan: bool, variant: str
    ) -> None:
        with using(variant):
            assert_agrees(*arrays(recipe, *types), allowed, equal_nan=equal_nan, engine="auto")

    @settings(max_examples=100)
    @given(
        recipes(max_size=2000, scales=(-30, 30)),
        st.sampled_from(["float32", "float16", "bfloat16", "float8_e4m3fn"]),
        st.sampled_from(["float32", "bfloat16"]),
    )
    def test_numpy_agrees_with_the_definitions(self, recipe: Recipe, reference: str, candidate: str) -> None:
        assert_agrees(*arrays(recipe, reference, candidate), ANYTHING, engine="numpy")

    @settings(max_examples=40)
    @given(recipes(max_size=5000, scales=(-40, 38)), st.sampled_from(VARIANTS))
    def test_extreme_float32_falls_back_to_float64(self, recipe: Recipe, variant: str) -> None:
        with using(variant):
            assert_agrees(*arrays(recipe, "float32", "float32"), ANYTHING, engine="auto")

    @pytest.mark.parametrize("types", [("int8", "int8"), ("complex64", "complex64"), ("float8_e5m2", "float32")])
    def test_other_types_go_through_numpy(self, types: tuple[str, str]) -> None:
        recipe = Recipe(seed=1, size=3000, scale=0, offset=None, noise=1.0, special=0.1)
        assert_agrees(*arrays(recipe, *types), EXACT, engine="auto")


def _ways_to_differ() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Pairs whose differences lie along the lines that tell which elements to look at closely, or at their limits."""
    rng = np.random.default_rng(7)
    x, noise = rng.standard_normal((2, 70_000), dtype=np.float32)
    quantum = np.float32(2.0**-149)
    tiny = rng.integers(1, 500, x.size).astype(np.float32) * quantum
    zeros = np.maximum(x, 0)
    return {
        "one ratio": (x, x * 2),
        "nearly one ratio": (x, x * np.float32(1.03)),
        "one distance": (x, x + np.float32(1e-4)),
        "one step": (x, np.nextafter(x, np.float32(np.inf))),
        "numbers too small to be rounded well": (
            np.sort(tiny)[::-1] + 99 * quantum,
            np.sort(tiny)[::-1] + 100 * quantum,
        ),
        "such numbers beside large ones": (np.append(tiny, x), np.append(tiny + quantum, x + noise)),
        "large and small numbers": (x * np.exp(9 * noise), x * np.exp(9 * noise) * (1 + noise * np.float32(1e-6))),
        "zeros that stay": (zeros, zeros + np.where(zeros > 0, noise, 0)),
        "zeros that do not": (zeros, zeros + noise * np.float32(1e-6)),
        "zeros alone": (np.zeros_like(x), noise),
        "differences beyond every line": (x, x + noise * np.float32(1e30)),
        "differences near the end of float32": (np.where(x > 2, np.float32(-3e38), x), x),
    }


WAYS_TO_DIFFER = _ways_to_differ()


@pytest.mark.usefixtures("no_small_tensors")
@pytest.mark.parametrize("way", WAYS_TO_DIFFER)
@pytest.mark.parametrize("types", [("float32", "float32"), ("float64", "float32"), ("bfloat16", "float16")], ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_extremes_are_found_however_the_sides_differ(way: str, types: tuple[str, str], variant: str) -> None:
    with np.errstate(over="ignore"):
        sides = [side.astype(from_name(name)) for side, name in zip(WAYS_TO_DIFFER[way], types, strict=True)]
    with using(variant):
        assert_agrees(sides[0], sides[1], ANYTHING, engine="auto")


@pytest.mark.parametrize("special", [0.0, 1e-5])
def test_any_number_of_threads_gives_the_same_bits(special: float) -> None:
    recipe = Recipe(seed=3, size=4_000_000, scale=0, offset=None, noise=1e-7, special=special)
    sides = [ArraySource(side) for side in arrays(recipe, "float32", "float32")]
    for full in (False, True):
        runs = [measure_pair(*sides, ANYTHING, threads=threads, full=full, equal_nan=True) for threads in (1, 2, 3)]
        assert runs[0] == runs[1] == runs[2]
    assert len({repr(measure_statistics(sides[0], threads=threads)) for threads in (1, 2, 3)}) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_name_what_they_sampled_and_sample_the_same_elements(engine: Engine) -> None:
    recipe = Recipe(seed=5, size=600_000, scale=0, offset=None, noise=1e-7, special=0.0)
    sides = [ArraySource(side) for side in arrays(recipe, "float32", "float32")]
    sampled = measure_pair(*sides, ANYTHING, engine=engine)
    full = measure_pair(*sides, ANYTHING, engine=engine, full=True)
    assert sampled.metrics.sampled == ("abs_percentiles", "max_ulp", "mean_rel")
    assert full.metrics.sampled == ()
    assert sampled.envelope.sampled == 9 * 128
    for p in ("50", "95", "99"):
        assert sampled.metrics.abs_percentiles[p] == pytest.approx(full.metrics.abs_percentiles[p], rel=0.1)
    assert sampled.metrics.max_ulp <= full.metrics.max_ulp
    other = measure_pair(*sides, ANYTHING, engine="numpy")
    assert sampled.metrics.abs_percentiles == other.metrics.abs_percentiles
    assert sampled.metrics.max_ulp == other.metrics.max_ulp
    assert sampled.envelope.cells == other.envelope.cells


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("place", [0, 123_456, 199_999])
@pytest.mark.parametrize("noise", [0.0, 1e-8])
def test_one_wrong_element_is_found_wherever_it_is(engine: Engine, place: int, noise: float) -> None:
    rng = np.random.default_rng(0)
    reference = rng.standard_normal(200_000).astype(np.float32)
    candidate = reference * (1 + noise * rng.standard_normal(200_000)).astype(np.float32)
    candidate[place] += 1.0
    metrics = assert_agrees(reference, candidate, Allowed(1e-6, 0.0), engine=engine).metrics
    assert (metrics.sampled, metrics.mismatched, metrics.argmax) == ((), 1, (place,))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_a_rescaled_large_tensor_keeps_the_digits_of_its_cosine(engine: Engine, shift: float) -> None:
    rng = np.random.default_rng(0)
    reference = (rng.standard_normal(100_000) + shift).astype(np.float32)
    candidate = (reference * (1 + 1e-3 + 1e-6 * rng.standard_normal(100_000))).astype(np.float32)
    assert_agrees(reference, candidate, ANYTHING, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("longer", [1e-3, 0.3])
@pytest.mark.parametrize("spread", [1e-4, 1.0])
def test_a_turn_of_1e_12_is_seen_behind_a_change_of_length(engine: Engine, longer: float, spread: float) -> None:
    rng = np.random.default_rng(0)
    reference = (rng.choice([-1.0, 1.0], 100_000) + spread * rng.standard_normal(100_000)).astype(np.float32)
    candidate = (reference * (1 + longer) + 2e-6 * rng.standard_normal(100_000)).astype(np.float32)
    metrics = assert_agrees(reference, candidate, ANYTHING, engine=engine).metrics
    assert metrics.one_minus_cosine is not None
    assert 1e-13 < metrics.one_minus_cosine < 1e-11


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_of_equal_maxima_is_named_across_windows(engine: Engine) -> None:
    reference = np.zeros(6_400_000, np.float32)
    candidate = reference.copy()
    candidate[[3_200_000, 3_200_001, 6_399_999]] = 3.0
    metrics = measure_pair(ArraySource(reference), ArraySource(candidate), engine=engine).metrics
    assert (metrics.argmax, metrics.mismatched) == ((3_200_000,), 3)


@pytest.mark.parametrize("threads", [1, 3])
def test_progress_is_told_stretch_by_stretch(threads: int) -> None:
    source = ArraySource(np.zeros(5_000_000, np.float32))
    heard: list[int] = []
    measure_pair(source, source, engine="auto", threads=threads, progress=heard.append)
    assert heard == sorted(heard)
    assert heard[-1] == 5_000_000
    assert len(heard) > 1 or threads > 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("types", [("float32", "float32"), ("bfloat16", "float32"), ("float64", "float64")])
def test_sums_of_one_number_again_and_again_keep_six_digits(engine: Engine, types: tuple[str, str]) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        value, difference = rng.uniform(0.5, 1.0), rng.uniform(0.0005, 0.001)
        values = zip((value, value + difference), types, strict=True)
        reference, candidate = (np.full(70_000, side).astype(from_name(name)) for side, name in values)
        found = measure_pair(ArraySource(reference), ArraySource(candidate), ANYTHING, engine=engine)
        x, d = float(reference[0]), abs(float(candidate[0]) - float(reference[0]))
        figures = found.metrics.mean_abs, found.metrics.mse, found.metrics.rel_l2, found.reference.mean
        assert figures == pytest.approx((d, d * d, d / x, x), rel=1e-6)
        assert found.reference.std == found.candidate.std == 0.0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("threads", [1, 2])
def test_every_element_is_counted_once_where_a_stretch_has_several_windows(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, threads: int
) -> None:
    monkeypatch.setattr(plan, "WINDOW_BYTES", 1 << 18)
    rng = np.random.default_rng(0)
    reference, noise = rng.standard_normal((2, 2_000_000), np.float32)
    sides = InWindows(reference), InWindows(reference + noise)
    whole = plan.plan_of(reference.shape, reference.dtype, reference.dtype, sampled=True, full=True)
    gathered = Passes(*sides, engine_for(engine, whole), threads).measure(whole)
    assert gathered.sketch.count == gathered.finite == reference.size
    assert gathered.sketch.histogram.zeros + gathered.sketch.histogram.counts.sum() == reference.size


class InWindows(Source):
    """An array that is there window by window alone, as one in a file is."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.shape, self.dtype = array.shape, array.dtype

    def view(self) -> np.ndarray:
        return self._array


def test_cells_that_are_far_apart_are_the_same_for_both_engines() -> None:
    rng = np.random.default_rng(0)
    reference = 10.0 ** rng.uniform(-300, 300, 200_000)
    candidate = reference * (1 + 10.0 ** rng.uniform(-12, 0, reference.size))
    sides = ArraySource(reference), ArraySource(candidate)
    cells = [measure_pair(*sides, ANYTHING, engine=engine).envelope.cells for engine in ENGINES]
    assert cells[0] == cells[1]
    assert len(cells[0]) > 200


@pytest.mark.parametrize("variant", VARIANTS)
def test_cells_of_subnormal_float32_are_the_same_for_both_engines(variant: str) -> None:
    rng = np.random.default_rng(0)
    reference = (rng.integers(-500, 500, 5000) * 2.0**-149).astype(np.float32)
    candidate = (reference + rng.integers(0, 9, 5000) * 2.0**-149).astype(np.float32)
    sides = ArraySource(reference), ArraySource(candidate)
    with using(variant):
        cells = [measure_pair(*sides, ANYTHING, engine=engine).envelope.cells for engine in ENGINES]
    assert cells[0] == cells[1]
    assert {difference for _, difference, _ in cells[0]} == {-149, -148, -147, -146}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("types", [("float32", "float32"), ("bfloat16", "bfloat16"), ("float64", "float64")])
@pytest.mark.parametrize("change", ["nothing", "only zeros", "all but zeros", "steep"])
def test_zeros_of_the_reference_are_counted_whatever_differs(
    engine: Engine, types: tuple[str, str], change: str
) -> None:
    rng = np.random.default_rng(0)
    reference = np.maximum(rng.standard_normal(70_000), 0.0)
    candidate = reference.copy()
    if change == "only zeros":
        candidate[reference == 0.0] = 1e-3 * rng.random(np.count_nonzero(reference == 0.0))
    elif change == "all but zeros":
        candidate *= 1 + 1e-2 * rng.standard_normal(reference.size)
    elif change == "steep":  # |c - r| / |r| beyond float32
        reference[5_000], candidate[5_000] = 1e-38, 1e6
    sides = [side.astype(from_name(name)) for side, name in zip((reference, candidate), types, strict=True)]
    metrics = assert_agrees(sides[0], sides[1], ANYTHING, engine=engine).metrics
    assert metrics.zero_reference == np.count_nonzero(sides[0] == 0) > 10_000
