"""Table rows: convolutions."""

from __future__ import annotations

from collections.abc import Iterator

from firstdiff.ops.conv import conv, conv_transpose
from firstdiff.ops.plan import Plan
from firstdiff.ops.table.call import Call
from firstdiff.ops.table.row import Row, named


def _arrays(call: Call) -> dict[str, object]:
    return {"input": call.main(), "weight": call.weight(), "bias": call.optional("bias")}


def _conv(call: Call) -> Iterator[Plan]:
    read = call.read("stride", "padding", "dilation", "groups", "padding_mode")
    yield Plan.of(conv, _arrays(call), assumed=read.assumed, **read.settings)


def _conv_transpose(call: Call) -> Iterator[Plan]:
    read = call.read("stride", "padding", "output_padding", "groups", "dilation")
    yield Plan.of(conv_transpose, _arrays(call), assumed=read.assumed, **read.settings)


ROWS = (
    Row(
        supports=named("Conv1d Conv2d Conv3d conv1d conv2d conv3d"), plans=_conv, each_token_alone=False, autocasts=True
    ),
    Row(
        supports=named(*(f"ConvTranspose{n}d conv_transpose{n}d" for n in (1, 2, 3))),
        plans=_conv_transpose,
        each_token_alone=False,
        autocasts=True,
    ),
)
