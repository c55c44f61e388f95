"""Table rows: rotary embeddings, the modules that make the tables and the functions that apply them."""

from __future__ import annotations

from collections.abc import Iterator

from firstdiff.ops.plan import Plan
from firstdiff.ops.rotary import apply_rotary, rotary_tables
from firstdiff.ops.table.call import Call
from firstdiff.ops.table.row import Row, named


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
