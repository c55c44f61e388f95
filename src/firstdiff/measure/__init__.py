"""Statistics of one tensor, and every figure of the difference of two: in one pass, mergeable, the same for any number
of threads. `docs/metrics.md` defines each.
"""

from firstdiff.measure.accumulator import NonFinite
from firstdiff.measure.allowed import EXACT, Allowed
from firstdiff.measure.envelope import Envelope
from firstdiff.measure.filled import shown_deviation
from firstdiff.measure.pair import PairMeasurement, PairScan, measure_pair, scan_pair
from firstdiff.measure.passes import Engine, compiled_ready
from firstdiff.measure.statistics import measure_statistics
from firstdiff.measure.threads import Progress

__all__ = [
    "EXACT",
    "Allowed",
    "Engine",
    "Envelope",
    "NonFinite",
    "PairMeasurement",
    "PairScan",
    "Progress",
    "compiled_ready",
    "measure_pair",
    "measure_statistics",
    "scan_pair",
    "shown_deviation",
]
