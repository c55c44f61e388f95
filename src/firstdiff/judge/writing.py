"""Tolerances as the text of a file that says the same."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable

from firstdiff.schema import Tolerance

_EVERY = "(?s).*"  # a key may hold any letter
_HEAD = "# What is allowed; pass it with --tolerances.\n"


def tolerances_toml(allowed: Iterable[tuple[str, Tolerance]], *, equal_nan: bool = False) -> str:
    """A file under which every key gets the tolerance stated here; what most of them have comes last, for all others.

    >>> print(tolerances_toml([("x", Tolerance(rule="stated", atol=1e-3, rtol=0.0))]))
    # What is allowed; pass it with --tolerances.
    <BLANKLINE>
    [[tolerances]]
    name = "(?s).*"
    atol = 0.001
    rtol = 0.0
    <BLANKLINE>
    """
    keys: dict[str, list[str]] = defaultdict(list)
    for key, tolerance in allowed:
        keys[_limits(tolerance)].append(key)
    ranked = sorted(keys.items(), key=lambda item: len(item[1]))
    blocks = [_HEAD + ("# NaN may match NaN: pass --equal-nan, too.\n" if equal_nan else "")]
    for place, (limits, names) in enumerate(ranked, 1):
        pattern = _EVERY if place == len(ranked) else "|".join(re.escape(name) for name in names)
        blocks.append(f"[[tolerances]]\nname = {_quoted(pattern)}\n{limits}")
    return "\n".join(blocks)


def _limits(tolerance: Tolerance) -> str:
    if tolerance.rule == "default" and tolerance.k is not None:
        return f"k = {float(tolerance.k)!r}\n"
    return f"atol = {float(tolerance.atol)!r}\nrtol = {float(tolerance.rtol)!r}\n"


def _quoted(text: str) -> str:
    """A TOML string: JSON's escapes are among TOML's, which escapes delete as well."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
