"""The zoo: faults planted for real in tiny models, to measure how well a comparison finds and names them.

>>> from firstdiff.testing.zoo import Answer, cases, plant, score        # doctest: +SKIP
>>> planted = plant(cases(["norm eps"])[0])                              # doctest: +SKIP
>>> reference, candidate = planted.write(folder, "stripped")             # doctest: +SKIP
>>> answer = Answer(first="transformer.h.0.ln_1", causes=(("norm.eps", 0.95),))  # doctest: +SKIP
>>> score(planted, "stripped", answer).exact                             # doctest: +SKIP
True

`python -m firstdiff.testing.zoo` measures firstdiff itself. Needs torch and transformers. `docs/zoo.md` tells more.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from firstdiff.errors import UsageError

if TYPE_CHECKING:
    from firstdiff.testing.zoo.architectures import ARCHITECTURES
    from firstdiff.testing.zoo.case import Case, cases
    from firstdiff.testing.zoo.faults import FAULTS
    from firstdiff.testing.zoo.planting import Planted, plant
    from firstdiff.testing.zoo.runner import run
    from firstdiff.testing.zoo.scoring import Answer, Outcome, answer_of, score, targets

__all__ = [
    "ARCHITECTURES",
    "FAULTS",
    "Answer",
    "Case",
    "Outcome",
    "Planted",
    "answer_of",
    "cases",
    "plant",
    "run",
    "score",
    "targets",
]
_HOMES = {
    **dict.fromkeys(("Answer", "Outcome", "answer_of", "score", "targets"), "scoring"),
    **dict.fromkeys(("Planted", "plant"), "planting"),
    **dict.fromkeys(("Case", "cases"), "case"),
    **{"ARCHITECTURES": "architectures", "FAULTS": "faults", "run": "runner"},
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    need_torch_and_transformers()
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def need_torch_and_transformers() -> None:
    """Check that the packages the zoo needs are installed; UsageError with what to install if not."""
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if missing:
        raise UsageError(f"the zoo runs real models and needs {' and '.join(missing)}: pip install torch transformers")
