"""The result of a comparison as frozen dataclasses, and its JSON; reports and the page read only these.

`docs/json.md` describes every field for those who script against it.
"""

from __future__ import annotations

from firstdiff.schema.comparison import (
    SCHEMA,
    Comparison,
    Divergence,
    Note,
    NoteCode,
    Origin,
    Pair,
    Side,
    Status,
    Summary,
    Verdict,
)
from firstdiff.schema.findings import (
    ArgmaxChange,
    Controlled,
    Diagnosis,
    Dimension,
    FailedPart,
    IdsAgreement,
    Isolated,
    LogitsAgreement,
    Part,
    Systematic,
    Where,
)
from firstdiff.schema.measurement import (
    Alignment,
    JudgingBasis,
    Metrics,
    Pairing,
    Required,
    Statistics,
    TensorInfo,
    Tolerance,
)

__all__ = [
    "SCHEMA",
    "Alignment",
    "ArgmaxChange",
    "Comparison",
    "Controlled",
    "Diagnosis",
    "Dimension",
    "Divergence",
    "FailedPart",
    "IdsAgreement",
    "Isolated",
    "JudgingBasis",
    "LogitsAgreement",
    "Metrics",
    "Note",
    "NoteCode",
    "Origin",
    "Pair",
    "Pairing",
    "Part",
    "Required",
    "Side",
    "Statistics",
    "Status",
    "Summary",
    "Systematic",
    "TensorInfo",
    "Tolerance",
    "Verdict",
    "Where",
]
