"""One row of the operator table: a predicate on calls, and the plans it reads from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from firstdiff.ops.plan import Plan
from firstdiff.ops.table.call import Call

_WRAPPED = "Parametrized"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A kind of operation.

    supports: whether a call is one
    plans: what it may be, the likeliest first; several where the record leaves a choice
    each_token_alone: a part of the tokens is enough to compute that part of the output
    autocasts: under autocast its arrays are rounded first
    costly: of several plans the first that fits is taken, and not the best
    """

    supports: Callable[[Call], bool]
    plans: Callable[[Call], Iterable[Plan]]
    each_token_alone: bool = True
    autocasts: bool = False
    costly: bool = False


def named(*names: str) -> Callable[[Call], bool]:
    """Calls of exactly these classes or functions; several may stand in one text."""
    known = frozenset(name for text in names for name in text.split())
    return lambda call: call.op.removeprefix(_WRAPPED) in known
