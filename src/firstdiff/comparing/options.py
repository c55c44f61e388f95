"""How to compare."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from firstdiff.comparing.layout_options import LayoutOptions
from firstdiff.judge import Rules
from firstdiff.pairing import PairingOptions
from firstdiff.trace.order import OrderRule

EngineChoice = Literal["auto", "numpy", "numba"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to compare; `fd.compare` and the command line name each of these."""

    rules: Rules = field(default_factory=Rules)
    pairing: PairingOptions = field(default_factory=PairingOptions)
    layout: LayoutOptions = field(default_factory=LayoutOptions)
    allow_missing: bool = False
    allow_extra: bool = False
    isolate: bool = False
    diagnose: bool = True
    order: OrderRule | None = None
    engine: EngineChoice = "auto"
    threads: int | None = None

    def settings(self) -> dict[str, Any]:
        """What the JSON says about how it was made."""
        return {
            "atol": self.rules.atol,
            "rtol": self.rules.rtol,
            "tolerances": self.rules.table,
            "named_tolerances": [
                {"name": rule.pattern.pattern, "atol": rule.atol, "rtol": rule.rtol, "k": rule.k}
                for rule in self.rules.named
            ],
            "equal_nan": self.rules.equal_nan,
            "allow_missing": self.allow_missing,
            "allow_extra": self.allow_extra,
            "layout": self.layout.mode,
            "accept_layout": sorted(self.layout.accepted),
            "align": {name: str(recipe) for name, recipe in self.layout.stated.items()},
            "layer_offset": self.pairing.layer_offset,
            "isolate": self.isolate,
            "diagnose": self.diagnose,
            "order": self.order,
            "engine": self.engine,
        }
