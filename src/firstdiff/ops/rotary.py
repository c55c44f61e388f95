"""Rotary position embeddings, and the calls recorded of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from firstdiff.dtypes import doubles
from firstdiff.ops.arrays import operator
from firstdiff.ops.plan import Plan
from firstdiff.ops.recorded_call import Call, Row, named


@operator
def frequencies(size: int, *, base: float = 10000.0) -> Any:
    """Return radians per position for each pair: `base ** (-2 i / size)`."""
    return base ** (-np.arange(0, size, 2) / size)


def rotary_tables(
    positions: np.ndarray,
    inv_freq: np.ndarray,
    *,
    offset: float = 0.0,
    factor: float = 1.0,
    scaling: float = 1.0,
    layout: str = "half",
) -> tuple[np.ndarray, np.ndarray]:
    """Return cosine and sine, `[..., positions, size]`, each angle twice as `apply_rotary` takes them.

    offset: added to the positions
    factor: the positions are divided by it (linear interpolation)
    scaling: multiplies both tables (YaRN's attention factor)
    layout: "half" repeats the angles as a whole, "interleaved" each on its own
    """
    angles = ((doubles(positions) + offset) / factor)[..., None] * doubles(inv_freq)
    twice = np.concatenate([angles, angles], axis=-1) if _is_half(layout) else np.repeat(angles, 2, axis=-1)
    return np.cos(twice) * scaling, np.sin(twice) * scaling


@operator
def apply_rotary(
    input: np.ndarray,
    cos: np.ndarray,
    sin: np.ndarray,
    *,
    layout: str = "half",
    inverse: bool = False,
    heads_axis: int | None = None,
) -> Any:
    """Rotate the pairs of the last axis; elements beyond the tables stay as they are.

    cos, sin: one number for each element, or for each pair, broadcast against the axes before
    layout: a pair is an element of each half ("half", as in Llama), or two neighbours ("interleaved", as in GPT-J)
    inverse: turn back
    heads_axis: where the tables lack the axis of the heads
    """
    x = doubles(input)
    cosine, sine = (_broadcast(doubles(table), heads_axis) for table in (cos, sin))
    turned = _turned_size(cosine.shape[-1], x.shape[-1])
    if turned > cosine.shape[-1]:
        cosine, sine = (_each_twice(table, layout) for table in (cosine, sine))
    part, rest = x[..., :turned], x[..., turned:]
    partner = _partners(part, layout)
    out = part * cosine + partner * (-sine if inverse else sine)
    return np.concatenate([out, np.broadcast_to(rest, (*out.shape[:-1], rest.shape[-1]))], axis=-1)


@operator
def rotary(
    input: np.ndarray,
    positions: np.ndarray | None = None,
    *,
    base: float = 10000.0,
    offset: float = 0.0,
    factor: float = 1.0,
    layout: str = "half",
    size: int | None = None,
    axis: int = -2,
    inverse: bool = False,
) -> Any:
    """Apply rotary embedding with all settings in one place.

    positions: of the tokens; 0, 1, 2, … if left out
    base: of the frequencies
    offset, factor: a position p counts as `(p + offset) / factor`
    layout: "half" or "interleaved", see `apply_rotary`
    size: how many numbers of a head are turned, all if left out
    axis: the axis of the tokens
    inverse: turn back
    """
    x = np.moveaxis(doubles(input), axis, -2)
    turned = x.shape[-1] if size is None else size
    places = np.arange(x.shape[-2]) if positions is None else positions
    tables = rotary_tables(places, frequencies(turned, base=base), offset=offset, factor=factor, layout=layout)
    return np.moveaxis(apply_rotary(x, *tables, layout=layout, inverse=inverse), -2, axis)


def _is_half(layout: str) -> bool:
    if layout not in ("half", "interleaved"):
        raise ValueError(f"layout is {layout!r}; it takes 'half' or 'interleaved'")
    return layout == "half"


def _broadcast(table: np.ndarray, heads_axis: int | None) -> np.ndarray:
    return table if heads_axis is None else np.expand_dims(table, heads_axis)


def _turned_size(table: int, size: int) -> int:
    """Return the number of rotated elements; tables of half the head size have one number for each pair."""
    return size if 2 * table == size else min(table, size)


def _each_twice(table: np.ndarray, layout: str) -> Any:
    return np.concatenate([table, table], axis=-1) if _is_half(layout) else np.repeat(table, 2, axis=-1)


def _partners(x: np.ndarray, layout: str) -> np.ndarray:
    """Return the partner of each element of a pair, negated for the first ones."""
    out = np.empty_like(x)
    if _is_half(layout):
        half = x.shape[-1] // 2
        out[..., :half], out[..., half:] = -x[..., half:], x[..., :half]
    else:
        out[..., 0::2], out[..., 1::2] = -x[..., 1::2], x[..., 0::2]
    return out


def _tables(call: Call) -> Iterator[Plan]:
    arrays = {"positions": call.array("position_ids", "positions", "1"), "inv_freq": call.array("inv_freq")}
    scaling = call.told("attention_scaling", default=1.0)
    for layout in ("half", "interleaved"):
        yield Plan.of(rotary_tables, arrays, scaling=float(scaling), layout=layout, assumed=("layout",))


def _apply(call: Call) -> Iterator[Plan]:
    x = call.array("x", "input", "q", "0")
    cos, sin = call.array("cos", "cos_cached", "1"), call.array("sin", "sin_cached", "2")
    told = call.told("layout") or {True: "interleaved", False: "half", None: None}[call.told("interleaved")]
    places: tuple[int | None, ...] = (None,) if cos.ndim in (2, x.ndim) else (1, 2)
    for layout in ("half", "interleaved") if told is None else (str(told),):
        for heads_axis in places:
            open_settings = (("layout", told is None), ("heads_axis", len(places) > 1))
            assumed = tuple(name for name, is_open in open_settings if is_open)
            arrays = {"input": x, "cos": cos, "sin": sin}
            yield Plan.of(apply_rotary, arrays, layout=layout, heads_axis=heads_axis, assumed=assumed)


ROWS = (
    Row(supports=lambda call: call.op.endswith("RotaryEmbedding"), plans=_tables),
    Row(supports=named("apply_rotary apply_rotary_emb apply_rotary_pos_emb rotary_embedding"), plans=_apply),
)
