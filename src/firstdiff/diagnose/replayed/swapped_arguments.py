"""Hypothesis: query, key and value, or other inputs of one call, are swapped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.dtypes import doubles

_ATTENTION = ("query", "key", "value")


class SwappedArguments(Hypothesis):
    """Query, key and value took each other's place.

    A fused projection gives query, key and value in one tensor; checkpoints put them in different orders, all of one
    after the other or head by head. Taken apart in the wrong order, each is in the place of another.

    Tested by comparing what the candidate has for one of them with what the reference has for the others, and with the
    other parts of the tensor that it was taken out of. Take the fused tensor apart in the reference's order.
    """

    code = "layout.qkv_order"
    also = ("layout.chunk_swap",)

    def test(self, case: Case) -> Iterator[Explanation]:
        for other in (*case.nearby.beside(), *case.nearby.parts()):
            if other.reference.shape != case.candidate.shape:
                continue
            fit = case.fit(other.reference)
            of_attention = case.slot in _ATTENTION or other.slot in _ATTENTION
            causes = (self.code, "layout.chunk_swap") if of_attention else ("layout.chunk_swap", self.code)
            yield Explanation(
                cause=causes[0],
                fit=fit,
                evidence=f"as if it were {other.key} {case.falls_to(fit)}",
                fix=f"give {case.key} what the reference gives it: the parts are in another order",
                implies=(causes[1], "values.stale", "op.skipped"),
                predicted=doubles(other.reference),
            )


HYPOTHESIS: Final = SwappedArguments()
