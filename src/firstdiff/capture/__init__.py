"""Record what a model, or any other program, computes. Imports torch only when a torch model is captured."""

from __future__ import annotations

import sys
from types import ModuleType

from firstdiff.capture.limits import CaptureWarning
from firstdiff.capture.recording import Recording, record
from firstdiff.capture.taps import tap
from firstdiff.capture.torch_model import Capture, capture

__all__ = ["Capture", "CaptureWarning", "Recording", "capture", "record", "tap"]


class _Package(ModuleType):
    """`firstdiff.capture` is this package and the function of that name: whoever calls either means the function."""

    __call__ = staticmethod(capture)


sys.modules[__name__].__class__ = _Package
