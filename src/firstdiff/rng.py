"""Random numbers with the same bits in Python, Rust, JavaScript and C++: Philox 4x32-10.

docs/rng.md defines every draw down to single float64 operations; numpy and Python round each of them as it says.
"""

from __future__ import annotations

import math
from typing import Any, final, overload

import numpy as np

from firstdiff.errors import UsageError

Shape = int | tuple[int, ...]

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_MASK = 0xFFFFFFFF
_WORDS = 1 << 64  # positions wrap here

# fdlibm's coefficients of log, cos and sin
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_L1, _L2, _L3, _L4, _L5, _L6, _L7 = (
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
    1.818357216161805012e-01,
    1.531383769920937332e-01,
    1.479819860511658591e-01,
)
_C1, _C2, _C3, _C4, _C5, _C6 = (
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
)
_S1, _S2, _S3, _S4, _S5, _S6 = (
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
)
_SQRT_2 = 1.4142135623730951
_TWO_PI = 6.283185307179586
_LARGEST_BELOW_1 = 1 - 2.0**-53


@final
class Rng:
    """A counter-based generator: the same seed, stream and position give the same draw in every language.

    >>> rng = Rng(42)
    >>> rng.integers(0, 10, 5)
    array([6, 4, 0, 3, 9])
    >>> rng.position
    5

    seed, stream: whole numbers from 0 to 2**64 - 1; streams of one seed are independent
    position: how many 32-bit words were taken; set it to go anywhere at once

    Draws without a shape are Python numbers; with one they are arrays, filled in C order with the same numbers.
    """

    def __init__(self, seed: int, stream: int = 0) -> None:
        self.seed = _unsigned("seed", seed)
        self.stream = _unsigned("stream", stream)
        self._position = 0
        self._block_number = -1
        self._block: tuple[int, ...] = ()

    @property
    def position(self) -> int:
        return self._position

    @position.setter
    def position(self, position: int) -> None:
        self._position = _unsigned("position", position)

    def next_u32(self) -> int:
        """Take the next word."""
        number, place = divmod(self._position, 4)
        if number != self._block_number:
            counter = (number & _MASK, number >> 32, self.stream & _MASK, self.stream >> 32)
            self._block = philox4x32(counter, (self.seed & _MASK, self.seed >> 32))
            self._block_number = number
        self._position = (self._position + 1) % _WORDS
        return self._block[place]

    def words(self, count: int) -> np.ndarray:
        """Take the next words, as uint32."""
        first, skipped = divmod(self._position, 4)
        blocks = np.arange(-(-(skipped + count) // 4), dtype=np.uint64) + np.uint64(first)
        blocks &= np.uint64(_WORDS // 4 - 1)
        counter = (
            blocks & np.uint64(_MASK),
            blocks >> np.uint64(32),
            np.uint64(self.stream & _MASK),
            np.uint64(self.stream >> 32),
        )
        words = np.stack(np.broadcast_arrays(*_rounds(counter, (self.seed & _MASK, self.seed >> 32))), axis=1)
        self._position = (self._position + count) % _WORDS
        return words.reshape(-1)[skipped : skipped + count].astype(np.uint32)

    @overload
    def uniform(self, shape: None = None) -> float: ...
    @overload
    def uniform(self, shape: Shape) -> np.ndarray: ...
    def uniform(self, shape: Shape | None = None) -> float | np.ndarray:
        """Draw from [0, 1), with 53 bits, as float64; takes two words each."""
        if shape is None:
            high = self.next_u32() >> 5
            return (high * 67108864.0 + (self.next_u32() >> 6)) / 9007199254740992.0
        words = self.words(2 * _size(shape)).astype(np.uint64).reshape(-1, 2)
        bits = (words[:, 0] >> np.uint64(5)) * np.uint64(67108864) + (words[:, 1] >> np.uint64(6))
        return (bits.astype(np.float64) / 9007199254740992.0).reshape(shape)

    @overload
    def uniform_f32(self, shape: None = None) -> float: ...
    @overload
    def uniform_f32(self, shape: Shape) -> np.ndarray: ...
    def uniform_f32(self, shape: Shape | None = None) -> float | np.ndarray:
        """Draw from [0, 1), with 24 bits, as float32; takes one word each."""
        if shape is None:
            return (self.next_u32() >> 8) / 16777216.0
        words = self.words(_size(shape)) >> np.uint32(8)
        return (words.astype(np.float32) / np.float32(16777216.0)).reshape(shape)

    @overload
    def normal(self, shape: None = None) -> float: ...
    @overload
    def normal(self, shape: Shape) -> np.ndarray: ...
    def normal(self, shape: Shape | None = None) -> float | np.ndarray:
        """Draw from the standard normal distribution, as float64; takes four words each."""
        if shape is None:
            first = 1.0 - self.uniform()
            return math.sqrt(-2.0 * _log(first)) * _cos_turns(self.uniform())
        pairs = self.uniform((_size(shape), 2))
        radius: np.ndarray = np.sqrt(-2.0 * _log_array(1.0 - pairs[:, 0]))
        radius *= _cos_turns_array(pairs[:, 1])
        return radius.reshape(shape)

    @overload
    def gumbel(self, shape: None = None) -> float: ...
    @overload
    def gumbel(self, shape: Shape) -> np.ndarray: ...
    def gumbel(self, shape: Shape | None = None) -> float | np.ndarray:
        """Draw from the standard Gumbel distribution, as float64; takes two words each."""
        if shape is None:
            return -_log(-_log(min(self.uniform() + 2.0**-54, _LARGEST_BELOW_1)))
        inside = np.minimum(self.uniform(_size(shape)) + 2.0**-54, _LARGEST_BELOW_1)
        return (-_log_array(-_log_array(inside))).reshape(shape)

    @overload
    def integers(self, low: int, high: int, shape: None = None) -> int: ...
    @overload
    def integers(self, low: int, high: int, shape: Shape) -> np.ndarray: ...
    def integers(self, low: int, high: int, shape: Shape | None = None) -> int | np.ndarray:
        """Draw whole numbers from low to high - 1, without bias; as int64. Takes a word each, sometimes more."""
        span = high - low
        if not 1 <= span <= 1 << 32:
            raise UsageError(f"integers({low}, {high}) has {span} numbers to choose from; it takes 1 to 2**32")
        if not -(1 << 63) <= low <= high - 1 < 1 << 63:
            raise UsageError(f"integers({low}, {high}) goes beyond 64 bits")
        if shape is None:
            return low + self._below(span)
        size = _size(shape)
        drawn = np.empty(size, np.int64)
        filled = 0
        while filled < size:  # a draw may be rejected; the next word takes its place
            products = self.words(size - filled).astype(np.uint64) * np.uint64(span)
            kept = products[(products & np.uint64(_MASK)) >= np.uint64(((1 << 32) - span) % span)] >> np.uint64(32)
            drawn[filled : filled + kept.size] = kept.astype(np.int64)
            filled += kept.size
        return (drawn + low).reshape(shape)

    def permutation(self, size: int) -> np.ndarray:
        """Draw an order of 0 … size - 1, by Fisher and Yates from the end; as int64."""
        if not 0 <= size <= 1 << 32:
            raise UsageError(f"permutation({size}) is not possible; it takes 0 to 2**32")
        order = list(range(size))
        for last in range(size - 1, 0, -1):
            other = self._below(last + 1)
            order[last], order[other] = order[other], order[last]
        return np.array(order, np.int64)

    def _below(self, span: int) -> int:
        """Lemire's method: the product's upper half is the draw, its lower half says whether it is fair."""
        threshold = ((1 << 32) - span) % span
        while True:
            product = self.next_u32() * span
            if product & _MASK >= threshold:
                return product >> 32


def philox4x32(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, ...]:
    """Return the four words of one block."""
    return tuple(int(word) for word in _rounds(counter, key))


def _rounds(counter: Any, key: tuple[int, int]) -> tuple[Any, Any, Any, Any]:
    """Ten rounds, over Python's integers or uint64 arrays of 32-bit words alike."""
    x0, x1, x2, x3 = counter
    k0, k1 = key
    wrap = (lambda number: number) if isinstance(x0, int) else np.uint64
    low, half = wrap(_MASK), wrap(32)
    first, second = map(wrap, _MULTIPLIERS)
    for _ in range(_ROUNDS):
        product0, product2 = x0 * first, x2 * second
        x0, x1 = (product2 >> half) ^ x1 ^ wrap(k0), product2 & low
        x2, x3 = (product0 >> half) ^ x3 ^ wrap(k1), product0 & low
        k0, k1 = (k0 + _KEY_STEPS[0]) & _MASK, (k1 + _KEY_STEPS[1]) & _MASK
    return x0, x1, x2, x3


def _log(x: float) -> float:
    m, e = math.frexp(x)  # m in [0.5, 1)
    m, e = 2.0 * m, e - 1
    if m > _SQRT_2:
        m, e = 0.5 * m, e + 1
    return float(_log_near_1(m - 1.0, float(e)))


def _log_array(x: np.ndarray) -> np.ndarray:
    m, e = np.frexp(x)
    large = 2.0 * m > _SQRT_2
    logs: np.ndarray = _log_near_1(np.where(large, m, 2.0 * m) - 1.0, np.where(large, e, e - 1).astype(np.float64))
    return logs


def _log_near_1(f: Any, k: Any) -> Any:
    """Return k * ln 2 + log(1 + f), as fdlibm's general case does."""
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    t1 = w * (_L2 + w * (_L4 + w * _L6))
    t2 = z * (_L1 + w * (_L3 + w * (_L5 + w * _L7)))
    half_square = (0.5 * f) * f
    return k * _LN2_HIGH - ((half_square - (s * (half_square + (t2 + t1)) + k * _LN2_LOW)) - f)


def _cos_turns(u: float) -> float:
    """The cosine of u turns, u in [0, 1)."""
    quarter = math.floor(4.0 * u + 0.5)
    x = (u - quarter * 0.25) * _TWO_PI
    value = _sin_small(x) if quarter % 2 else _cos_small(x)
    return float(-value if quarter % 4 in (1, 2) else value)


def _cos_turns_array(u: np.ndarray) -> np.ndarray:
    quarter = np.floor(4.0 * u + 0.5)
    x = (u - quarter * 0.25) * _TWO_PI
    value = np.where(quarter % 2 == 1, _sin_small(x), _cos_small(x))
    cosines: np.ndarray = np.where((quarter == 1) | (quarter == 2), -value, value)
    return cosines


def _cos_small(x: Any) -> Any:
    z = x * x
    return 1.0 - (0.5 * z - z * z * (_C1 + z * (_C2 + z * (_C3 + z * (_C4 + z * (_C5 + z * _C6))))))


def _sin_small(x: Any) -> Any:
    z = x * x
    return x + x * (z * (_S1 + z * (_S2 + z * (_S3 + z * (_S4 + z * (_S5 + z * _S6))))))


def _size(shape: Shape) -> int:
    return shape if isinstance(shape, int) else math.prod(shape)


def _unsigned(what: str, value: int) -> int:
    if not 0 <= value < 1 << 64:
        raise UsageError(f"{what} is {value}; it takes a whole number from 0 to 2**64 - 1")
    return int(value)
