"""What a row says besides its figures: which tensors, how they were found, why one has no partner."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from firstdiff.pairing import Match, Unpaired
from firstdiff.schema import Pair, TensorInfo
from firstdiff.trace import Tensor
from firstdiff.trace.order import layer_and_stage

_NESTED = re.compile(r"(?:.*[._/])?(?:layers?|h|blocks?|blk)[._](\d+)(?:[._](.+))?")


def bare_row(match: Match, references: Sequence[Tensor], candidates: Sequence[Tensor]) -> Pair:
    """A row before anything is measured; of several tensors the first stands for all."""
    row = replace(
        _described(references[0]), reference=_info(references), candidate=_info(candidates), pairing=match.pairing
    )
    return replace(row, reason=match.doubt) if match.doubt else row


def lone_row(tensor: Tensor, left: Unpaired, status: Literal["missing", "extra"]) -> Pair:
    guess = f"; the nearest is {left.guess.key} ({left.guess.why})" if left.guess else ""
    side = "reference" if status == "missing" else "candidate"
    unreadable = f", and it cannot be read: it {tensor.error}" if tensor.error else ""
    pair = replace(_described(tensor), status=status, reason=f"only the {side} has it{unreadable}{guess}")
    return replace(pair, reference=_info([tensor])) if status == "missing" else replace(pair, candidate=_info([tensor]))


def alone_row(tensor: Tensor) -> Pair:
    """A tensor that is looked at without a partner."""
    return replace(_described(tensor), status="alone", reference=_info([tensor]))


def _described(tensor: Tensor) -> Pair:
    record = tensor.record
    layer, stage = _layer_and_stage(record.name)
    return Pair(
        index=0,
        key=str(tensor.key),
        name=record.name,
        role=tensor.key.role,
        step=record.step,
        rank=record.rank,
        op=record.op,
        layer=layer,
        stage=stage,
        status="failed",
    )


def _layer_and_stage(name: str) -> tuple[int | None, str | None]:
    if found := layer_and_stage(name):
        return found
    nested = _NESTED.fullmatch(name)
    return (int(nested[1]), nested[2]) if nested else (None, None)


def _info(tensors: Sequence[Tensor]) -> TensorInfo:
    name = " + ".join(str(tensor.key) for tensor in tensors)
    source = tensors[0].source
    return TensorInfo(name, source.shape, source.dtype.name) if source else TensorInfo(name, None, None)
