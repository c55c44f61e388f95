"""Hypotheses on layout: one for each kind of layout, sharing one search."""

from __future__ import annotations

from typing import Final

from firstdiff.diagnose.values.rearranged import Rearranged


class LayoutTranspose(Rearranged):
    """Axes are in another order.

    `[batch, token, channel]` on one side is `[batch, channel, token]` on the other, or a square matrix is transposed.

    Tested by every order of the axes. Permute the candidate's axes, or say `--accept-layout transpose`.
    """

    code = "layout.transpose"


class LayoutReshape(Rearranged):
    """The shape was changed where axes should have been exchanged, or the other way round.

    `view` reads numbers in the order they lie in memory: heads that were put in front of the tokens must be put back
    before they are merged, or everything lands in the wrong place while the shape is right.

    Tested by cutting each axis in two and trying every order of the parts. Permute before the shape is changed.
    """

    code = "layout.reshape"


class LayoutChunkSwap(Rearranged):
    """The halves of an axis are swapped.

    Gate and up, scale and shift, the real and the imaginary half, sine and cosine: two halves of one projection,
    taken in the other order.

    Tested along every axis. Exchange the two chunks.
    """

    code = "layout.chunk_swap"


class LayoutQkvOrder(Rearranged):
    """Query, key and value lie in another order in a fused projection.

    All q, all k, all v on one side; q, k and v of each head, or another order of the three, on the other.

    Tested by thirds in every order, and by a 3 exchanged with what it is cut by. Cut the projection as the reference
    does.
    """

    code = "layout.qkv_order"


class LayoutHeadOrder(Rearranged):
    """Heads, or other chunks of an axis, are in another order.

    Heads are permuted, merged across instead of along, or kv heads are tiled (`0 1 0 1`) where they should be repeated
    (`0 0 1 1`).

    Tested by looking for every chunk of the reference in the candidate, and by exchanging two factors of every axis.
    """

    code = "layout.head_order"


class LayoutRopeInterleave(Rearranged):
    """Rotary pairs are interleaved on one side and in halves on the other.

    A rotation takes the numbers of a head in pairs: neighbours (`0 1, 2 3, …`) or one of each half (`0 32, 1 33, …`).
    Weights for one give nonsense with the other, and every shape is right.

    Tested by a 2 exchanged with what it is cut by. Permute the q and k weights, or rotate as the reference does.
    """

    code = "layout.rope_interleave"


class LayoutInterleave(Rearranged):
    """Two halves of a long axis are interleaved on one side.

    Gate and up lie side by side on one side and alternate on the other.

    Tested by a 2 exchanged with what it is cut by.
    """

    code = "layout.interleave"


class LayoutReversed(Rearranged):
    """An axis runs backwards.

    Images upside down, channels as BGR, a sequence read from its end.

    Tested along every axis. Flip it.
    """

    code = "layout.reversed"


class LayoutPermuted(Rearranged):
    """The indices of an axis are in another order, and no rule is seen in it.

    Rows of a batch sorted, channels shuffled, a vocabulary in another order.

    Tested by looking for every index of the reference in the candidate. Bring them into the reference's order.
    """

    code = "layout.permuted"


TRANSPOSE: Final = LayoutTranspose()
RESHAPE: Final = LayoutReshape()
CHUNK_SWAP: Final = LayoutChunkSwap()
QKV_ORDER: Final = LayoutQkvOrder()
HEAD_ORDER: Final = LayoutHeadOrder()
ROPE_INTERLEAVE: Final = LayoutRopeInterleave()
INTERLEAVE: Final = LayoutInterleave()
REVERSED: Final = LayoutReversed()
PERMUTED: Final = LayoutPermuted()
