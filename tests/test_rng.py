from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstdiff.errors import UsageError
from firstdiff.rng import Rng, _cos_turns, _log, philox4x32
from tests.conformance import draws

ONES = 0xFFFFFFFF
SEEDS = st.integers(0, (1 << 64) - 1)


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_blocks_are_the_known_answers_of_random123(
    counter: tuple[int, int, int, int], key: tuple[int, int], words: tuple[int, ...]
) -> None:
    assert philox4x32(counter, key) == words


def test_draws_are_those_every_client_prints() -> None:
    assert draws.GOLDEN.read_text(encoding="ascii") == draws.drawn()


@given(seed=SEEDS, stream=SEEDS, start=SEEDS, count=st.integers(0, 23))
def test_many_words_are_one_after_the_other(seed: int, stream: int, start: int, count: int) -> None:
    one, many = Rng(seed, stream), Rng(seed, stream)
    one.position = many.position = start
    assert [one.next_u32() for _ in range(count)] == many.words(count).tolist()
    assert one.position == many.position == (start + count) % (1 << 64)


@pytest.mark.parametrize("kind", ["uniform", "uniform_f32", "normal", "gumbel"])
@given(seed=SEEDS, skipped=st.integers(0, 5))
def test_an_array_holds_the_bits_of_single_draws(kind: str, seed: int, skipped: int) -> None:
    one, many = Rng(seed), Rng(seed)
    one.position = many.position = skipped
    array = getattr(many, kind)((3, 5))
    assert array.shape == (3, 5)
    singles = np.array([getattr(one, kind)() for _ in range(15)]).astype(array.dtype)
    assert array.tobytes() == singles.tobytes()
    assert one.position == many.position


@given(seed=SEEDS, low=st.integers(-(1 << 40), 1 << 40), span=st.integers(1, 1 << 32))
def test_an_array_of_integers_holds_single_draws(seed: int, low: int, span: int) -> None:
    one, many = Rng(seed), Rng(seed)
    array = many.integers(low, low + span, 40)
    assert array.tolist() == [one.integers(low, low + span) for _ in range(40)]
    assert one.position == many.position
    assert low <= array.min() <= array.max() < low + span


@given(seed=SEEDS, size=st.integers(0, 50))
def test_a_permutation_holds_every_number_once(seed: int, size: int) -> None:
    assert sorted(Rng(seed).permutation(size)) == list(range(size))


def test_streams_of_one_seed_differ() -> None:
    assert Rng(1, 0).words(4).tolist() != Rng(1, 1).words(4).tolist() != Rng(2, 1).words(4).tolist()


@given(st.floats(min_value=5e-324, max_value=1.7e308))
def test_log_is_within_two_units_of_the_last_place(x: float) -> None:
    exact = math.log(x)
    assert abs(_log(x) - exact) <= 2 * math.ulp(exact) + (0 if exact else 1e-300)


@given(st.integers(0, (1 << 53) - 1))
def test_cos_of_turns_is_accurate(k: int) -> None:
    u = k / (1 << 53)
    assert _cos_turns(u) == pytest.approx(math.cos(2 * math.pi * u), abs=1e-15)


def test_distributions_have_their_moments() -> None:
    count = 200_000
    normal, gumbel, uniform = Rng(3).normal(count), Rng(4).gumbel(count), Rng(5).uniform(count)
    assert abs(normal.mean()) < 0.01
    assert abs(normal.std() - 1) < 0.01
    assert abs(gumbel.mean() - 0.5772) < 0.01
    assert abs(gumbel.std() - math.pi / math.sqrt(6)) < 0.02
    assert abs(uniform.mean() - 0.5) < 0.005
    counts = np.bincount(Rng(6).integers(0, 10, count), minlength=10)
    assert np.abs(counts - count / 10).max() < 600
    assert uniform.min() >= 0
    assert uniform.max() < 1


def test_gumbel_is_finite_at_both_ends_of_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    words = iter([0, 0, ONES, ONES])
    monkeypatch.setattr(Rng, "next_u32", lambda self: next(words))
    rng = Rng(0)
    low, high = rng.gumbel(), rng.gumbel()
    assert low == pytest.approx(-math.log(54 * math.log(2)))
    assert high == pytest.approx(53 * math.log(2))


@pytest.mark.parametrize("value", [-1, 1 << 64])
def test_seeds_streams_and_positions_have_64_bits(value: int) -> None:
    for wrong in (lambda: Rng(value), lambda: Rng(0, value), lambda: setattr(Rng(0), "position", value)):
        with pytest.raises(UsageError, match=f"is {value}; it takes a whole number from 0"):
            wrong()


@pytest.mark.parametrize(("low", "high"), [(3, 3), (3, 2), (0, (1 << 32) + 1), ((1 << 63) - 1, (1 << 63) + 1)])
def test_ranges_that_cannot_be_drawn_from_take_no_word(low: int, high: int) -> None:
    rng = Rng(0)
    with pytest.raises(UsageError, match="integers"):
        rng.integers(low, high)
    with pytest.raises(UsageError, match=r"permutation\(-1\)"):
        rng.permutation(-1)
    assert rng.position == 0
