"""Statistics of one tensor and metrics of a pair, in one pass, with the same results for any number of threads.
`docs/metrics.md` defines each.
"""

from firstdiff.measure.accumulator import NonFinite
from firstdiff.measure.envelope import Envelope
from firstdiff.measure.library import describe_library
from firstdiff.measure.pair import PairMeasurement, PairScan, measure_pair, scan_pair
from firstdiff.measure.passes import Engine, Progress
from firstdiff.measure.plan import EXACT, Allowed
from firstdiff.measure.statistics import measure_statistics, shown_deviation
from firstdiff.measure.sums import PairSums, Sums, SumTable

__all__ = [
    "EXACT",
    "Allowed",
    "Engine",
    "Envelope",
    "NonFinite",
    "PairMeasurement",
    "PairScan",
    "PairSums",
    "Progress",
    "SumTable",
    "Sums",
    "describe_library",
    "measure_pair",
    "measure_statistics",
    "scan_pair",
    "shown_deviation",
]
