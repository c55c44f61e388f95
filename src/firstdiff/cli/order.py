"""The option `--order`, as several commands take it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstdiff.trace.order import OrderRule


def stated_order(text: str | None) -> OrderRule | None:
    """The rule a user named; UsageError lists those there are."""
    from firstdiff.errors import UsageError
    from firstdiff.trace.order import ORDER_RULES

    if text is None:
        return None
    for rule in ORDER_RULES:
        if rule == text:
            return rule
    raise UsageError(f"--order is {text!r}; it takes one of {', '.join(ORDER_RULES)}")
