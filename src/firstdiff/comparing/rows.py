"""What a row says besides its figures: which tensors, how they were found, why one has no partner."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from firstdiff.pairing import Match, Unpaired
from firstdiff.schema import Pair, TensorInfo
from firstdiff.trace import Tensor
from firstdiff.trace.order import layer_and_stage

_NESTED = re.compile(r"(?:.*[._/])?(?:layers?|h|blocks?|blk)[._](\d+)(?:[._](.+))?")


def bare_row(match: Match, reference: Tensor, candidate: Tensor) -> Pair:
    return replace(_described(reference), reference=_info(reference), candidate=_info(candidate), pairing=match.pairing)


def lone_row(tensor: Tensor, left: Unpaired, status: Literal["missing", "extra"]) -> Pair:
    guess = f"; the nearest is {left.guess.key} ({left.guess.why})" if left.guess else ""
    side = "reference" if status == "missing" else "candidate"
    pair = replace(_described(tensor), status=status, reason=f"only the {side} has it{guess}")
    return replace(pair, reference=_info(tensor)) if status == "missing" else replace(pair, candidate=_info(tensor))


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


def _info(tensor: Tensor) -> TensorInfo:
    source = tensor.source
    name = str(tensor.key)
    return TensorInfo(name, source.shape, source.dtype.name) if source else TensorInfo(name, None, None)
