"""Hypotheses: values of an earlier tensor of the candidate, or of an input of the operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.earlier import Before, before, places
from firstdiff.diagnose.values.sides import Sides

_LEAST = 4
_SURE = 0.05
_GUESSED = 0.3  # where nothing is recorded about it, what came before is taken for the input


def repeated(case: Case) -> Iterator[Before]:
    """Earlier tensors of the candidate that the case's are the same as, in the sample looked at."""
    sides = Sides.of(case)
    if sides.reference.size < _LEAST:
        return
    flat = places(sides.reference.size)
    candidate, allowed = sides.candidate.reshape(-1)[flat], sides.allowed.reshape(-1)[flat]
    reference = sides.reference.reshape(-1)[flat]
    for one in before(case):
        with np.errstate(invalid="ignore"):
            same = np.abs(candidate - one.candidate.reshape(-1)[flat]) <= allowed
            rightly = np.abs(reference - one.reference.reshape(-1)[flat]) <= allowed
        if same.all() and not rightly.all() and np.ptp(candidate.real) > 0:
            yield one


class ValuesStale(Hypothesis):
    """The candidate has the values of an earlier tensor.

    A buffer is used again before it is read, a cache is not updated, a loop keeps the state of the step before, a
    branch returns what another made.

    Tested against every earlier tensor of the same shape. Copy before the buffer is used again, or update the cache.
    """

    code = "values.stale"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        for one in repeated(case):
            if one.is_input and not one.guessed:
                continue
            yield from sides.told(
                self.code,
                one.candidate,
                f"the candidate has the values of {one.key}",
                f"see why {case.key} still holds {one.key}: a buffer used again, a cache not updated",
                specific=Specific.FORM,
            )
            return


class OpSkipped(Hypothesis):
    """The operation is not done: what comes out is what went in.

    A layer is left out, a condition is false, a function returns its argument.

    Tested against the candidate's own inputs. Do the operation.
    """

    code = "op.skipped"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        for one in repeated(case):
            if one.is_input:
                yield from sides.told(
                    self.code,
                    one.candidate,
                    f"what comes out is what went in ({one.key})",
                    f"do what {case.key} does{f' ({case.op})' if case.op else ''}",
                    implies=() if one.guessed else ("values.stale",),
                    doubt=_GUESSED if one.guessed else _SURE,
                )
                return


STALE: Final = ValuesStale()
SKIPPED: Final = OpSkipped()
