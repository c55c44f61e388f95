"""Names of results that are computed side by side from the same tensor, so that none feeds the other."""

from __future__ import annotations

import re

_GROUPS = (
    "q k v query key value q_proj k_proj v_proj wq wk wv to_q to_k to_v attn_q attn_k attn_v qcur kcur vcur".split(),
    "gate up gate_proj up_proj w1 w3 ffn_gate ffn_up fc1 fc3".split(),
)
_BRANCH = {word: group for group, words in enumerate(_GROUPS) for word in words}
_PARTS = re.compile(r"[./\-]|^\d+_|-\d+$")


def in_parallel(one: str, other: str) -> bool:
    """Whether two names are branches of one layer: `0_query` and `0_key`, `layers.3.q_proj` and `layers.3.v_proj`."""
    ours, theirs = _branch(one), _branch(other)
    return one != other and ours is not None and ours == theirs


def _branch(name: str) -> tuple[int, str] | None:
    """The group of the last part that is a branch, and the name without it."""
    parts = [part for part in _PARTS.split(name) if part]
    group = _BRANCH.get(parts[-1].lower()) if parts else None
    return None if group is None else (group, name[: name.rfind(parts[-1])])
