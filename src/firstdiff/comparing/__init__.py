"""Compare two runs: the only package that knows every stage. `pipeline` is where to begin reading."""

from firstdiff.comparing.options import LayoutMode, LayoutOptions, Options
from firstdiff.comparing.pipeline import Comparable, compare, compare_traces, explain_pair, row_named
from firstdiff.comparing.progress import OnProgress, Progress, Stage

__all__ = [
    "Comparable",
    "LayoutMode",
    "LayoutOptions",
    "OnProgress",
    "Options",
    "Progress",
    "Stage",
    "compare",
    "compare_traces",
    "explain_pair",
    "row_named",
]
