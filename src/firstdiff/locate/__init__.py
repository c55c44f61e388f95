"""Where two runs part: the first row that differs, who made the error, and where in the tensor it sits."""

from firstdiff.locate.graph import RowGraph
from firstdiff.locate.locating import first_divergence, locate
from firstdiff.locate.replay import Replays, isolate
from firstdiff.locate.row import DepthPoint, Located, LocatedPair, MeasuredPair

__all__ = [
    "DepthPoint",
    "Located",
    "LocatedPair",
    "MeasuredPair",
    "Replays",
    "RowGraph",
    "first_divergence",
    "isolate",
    "locate",
]
