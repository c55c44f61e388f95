"""Where two runs part: the first row that differs, who made the error, and where in the tensor it sits."""

from firstdiff.locate.isolate import isolate
from firstdiff.locate.locating import first_divergence, locate
from firstdiff.locate.recovered import mark_recovered
from firstdiff.locate.replay_row import replay_row
from firstdiff.locate.row import DepthPoint, Located, Row

__all__ = ["DepthPoint", "Located", "Row", "first_divergence", "isolate", "locate", "mark_recovered", "replay_row"]
