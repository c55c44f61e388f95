"""Compare two runs: the only package that knows every stage. `pipeline` is where to begin reading."""

from firstdiff.comparing.distributions import DistributionComparison, DistributionRow, compare_distributions
from firstdiff.comparing.options import LayoutMode, LayoutOptions, Options
from firstdiff.comparing.pipeline import Comparable, compare, compare_traces, explain_pair
from firstdiff.comparing.progress import OnProgress, Progress, Stage
from firstdiff.comparing.rows import row_named

__all__ = [
    "Comparable",
    "DistributionComparison",
    "DistributionRow",
    "LayoutMode",
    "LayoutOptions",
    "OnProgress",
    "Options",
    "Progress",
    "Stage",
    "compare",
    "compare_distributions",
    "compare_traces",
    "explain_pair",
    "row_named",
]
