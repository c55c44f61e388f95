"""The trace: the recorded tensors of a run. `docs/trace-format.md` is its specification."""

from firstdiff.trace.record import ROLES, Key, Record, Role
from firstdiff.trace.source import ArraySource, Box, Boxes, Index, Source
from firstdiff.trace.tensor import Tensor, Trace
from firstdiff.trace.writer import FORMAT, HEADER, LINES, VERSION, TraceWriter

__all__ = [
    "FORMAT",
    "HEADER",
    "LINES",
    "ROLES",
    "VERSION",
    "ArraySource",
    "Box",
    "Boxes",
    "Index",
    "Key",
    "Record",
    "Role",
    "Source",
    "Tensor",
    "Trace",
    "TraceWriter",
]
