"""Registry of the models under capture: a second set of hooks on a module would record the first one's work."""

from __future__ import annotations

import weakref
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from firstdiff.errors import UsageError

if TYPE_CHECKING:
    import torch

_lock = Lock()
_captured: weakref.WeakKeyDictionary[torch.nn.Module, Path] = weakref.WeakKeyDictionary()


def claim(model: torch.nn.Module, path: Path) -> None:
    """Take a model with all its modules; UsageError if one of them is taken."""
    with _lock:
        modules = list(model.modules())
        for module in modules:
            if module in _captured:
                raise UsageError(
                    f"{type(module).__name__} is being captured already, to {_captured[module]}; "
                    "end that capture before starting another of the same model"
                )
        for module in modules:
            _captured[module] = path


def release(path: Path) -> None:
    """Give back what was claimed for a path."""
    with _lock:
        for module in [module for module, claimed in _captured.items() if claimed is path]:
            del _captured[module]
