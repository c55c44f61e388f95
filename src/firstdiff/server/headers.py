"""The response headers of our own; other origins may read each of them."""

from __future__ import annotations

from enum import StrEnum


class ResponseHeader(StrEnum):
    SHAPE = "X-Shape"
    DTYPE = "X-Dtype"
    MIN = "X-Min"
    MAX = "X-Max"
    NONFINITE = "X-Nonfinite"
    STAMP = "X-Stamp"
    SAMPLED = "X-Sampled"
    NOTE = "X-Note"
