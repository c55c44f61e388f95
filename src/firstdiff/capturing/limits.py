"""Warnings about modules that a capture cannot record, or whose code path its hooks change."""

from __future__ import annotations

from collections.abc import Sequence

from firstdiff.capturing.module_tree import Node


class CaptureWarning(UserWarning):
    """A capture records less than one would think, or not quite what an unwatched run computes."""


def limits_of(nodes: Sequence[Node]) -> list[str]:
    """Return one warning for each kind of limit found."""
    compiled = [node.name for node in nodes if node.kind == "compiled"]
    scripted = [node.name for node in nodes if node.kind == "scripted"]
    fused = _fused(nodes)
    found = []
    if compiled:
        found.append(
            f"{_listed(compiled)} is compiled, so only what goes in and what comes out is recorded; "
            "capture the model without torch.compile to see inside"
        )
    if scripted:
        found.append(f"{_listed(scripted)} is TorchScript, which takes no hooks, and is not recorded")
    if fused:
        found.append(
            f"{_listed(fused)} may take torch's fused path when nobody watches; "
            "while captured it takes the plain one, whose last bits can differ"
        )
    return found


def _fused(nodes: Sequence[Node]) -> list[str]:
    """Return the names of torch.nn transformer layers in eval mode: hooks make them leave their fused path."""
    import torch

    if not torch.backends.mha.get_fastpath_enabled():
        return []
    kinds = (torch.nn.MultiheadAttention, torch.nn.TransformerEncoderLayer, torch.nn.TransformerEncoder)
    return [
        node.name
        for node in nodes
        if node.kind == "watched" and isinstance(node.module, kinds) and not node.module.training
    ]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} (and {len(names) - 1} more)"
