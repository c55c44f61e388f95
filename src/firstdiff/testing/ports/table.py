"""Every port and every variation by name, and the cases that are run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Literal

from firstdiff.errors import UsageError, did_you_mean
from firstdiff.testing.ports.port import Fault, Half, Port
from firstdiff.testing.ports.variations import WAYS

Kind = Literal["port", "fault", "variation"]
_MODELS = (
    *("llama", "gpt2", "bert", "vit", "gemma", "tagger", "spectral"),
    *("distilbert", "bloom", "convnext", "phi", "translator", "clip"),
    *("qwen2", "neox", "t5", "whisper", "mamba", "mixtral", "dit"),
    *("opt", "falcon", "bart", "deberta", "wav2vec2", "swin", "rwkv", "unet"),
    *("albert", "gptj", "segformer", "encodec", "recurrentgemma"),
    *("dinov2", "m2m100", "regnet", "olmo2", "conformer"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison: a healthy port, a port with a fault, or a healthy variation.

    name: of the fault or the variation; empty for a healthy port
    """

    family: str
    half: Half
    kind: Kind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.family}: {self.name or 'healthy'}"


@lru_cache
def ports() -> dict[str, Port]:
    """Every port by the name of its family."""
    found = (import_module(f"firstdiff.testing.ports.models.{name}").PORT for name in _MODELS)
    return {port.name: port for port in found}


def fault_of(case: Case) -> Fault | None:
    """The fault of a case; None if it is healthy."""
    return next((fault for fault in ports()[case.family].faults if fault.name == case.name), None)


def cases(halves: Collection[Half], only: Sequence[str] = ()) -> list[Case]:
    """Every case of some halves, in a fixed order.

    only: families, names of faults or of variations; everything if left out
    """
    every = []
    for port in ports().values():
        every.append(Case(port.name, port.half, "port"))
        every += [Case(port.name, port.half, "fault", fault.name) for fault in port.faults]
        every += [
            Case(port.name, port.half, "variation", name) for name, way in WAYS.items() if port.name in way.families
        ]
    known = {word for case in every for word in (case.family, case.name) if word}
    for word in only:
        if word not in known:
            raise UsageError(f"there is no port, fault or variation {word!r}{did_you_mean(word, sorted(known))}")
    return [
        case
        for case in every
        if case.half in halves
        if not only or case.family in only or (case.name and case.name in only)
    ]
