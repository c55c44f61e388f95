"""Locate the divergence of two runs: the first row that differs, the origin of its error, the elements affected."""

from firstdiff.locate.graph import Call, Calls, RowGraph
from firstdiff.locate.locating import first_divergence, locate
from firstdiff.locate.replay import Replays, isolate
from firstdiff.locate.row import DepthPoint, Located, LocatedPair, MeasuredPair

__all__ = [
    "Call",
    "Calls",
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
