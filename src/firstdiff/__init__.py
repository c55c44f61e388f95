"""firstdiff: find where two runs of the same model diverge, and why.

import firstdiff as fd
fd.compare("reference.trace", "candidate.trace").first_divergence
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from firstdiff.capturing import capture as capture
    from firstdiff.capturing import capture_onnx as capture_onnx
    from firstdiff.capturing import record as record
    from firstdiff.capturing import tap as tap
    from firstdiff.checks import check as check
    from firstdiff.comparing import compare as compare
    from firstdiff.comparing import compare_distributions as compare_distributions
    from firstdiff.readers import open_trace as open_trace
    from firstdiff.reports.assertion import assert_match as assert_match
    from firstdiff.trace import Trace as Trace
    from firstdiff.workflows.golden import load_golden as load_golden
    from firstdiff.workflows.onnx_compare import compare_onnx as compare_onnx

# everything public, and where it comes from: imported when first asked for, since most are not needed at once
_PUBLIC = {
    "Trace": "firstdiff.trace",
    "assert_match": "firstdiff.reports.assertion",
    "capture": "firstdiff.capturing",
    "capture_onnx": "firstdiff.capturing",
    "check": "firstdiff.checks",
    "compare": "firstdiff.comparing",
    "compare_distributions": "firstdiff.comparing",
    "compare_onnx": "firstdiff.workflows.onnx_compare",
    "load_golden": "firstdiff.workflows.golden",
    "open_trace": "firstdiff.readers",
    "record": "firstdiff.capturing",
    "tap": "firstdiff.capturing",
}
__all__ = [
    "Trace",
    "__version__",
    "assert_match",
    "capture",
    "capture_onnx",
    "check",
    "compare",
    "compare_distributions",
    "compare_onnx",
    "load_golden",
    "open_trace",
    "record",
    "tap",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _PUBLIC:
        raise AttributeError(f"module 'firstdiff' has no attribute {name!r}")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
