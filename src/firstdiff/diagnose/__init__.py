"""Find causes: test every hypothesis on the values of the rows where an error was introduced."""

from firstdiff.diagnose.case import Both, Case
from firstdiff.diagnose.diagnosis import Diagnosed, diagnose, sites_of
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis, Specific
from firstdiff.diagnose.rows import EarlierTensor, Nearby
from firstdiff.diagnose.segment import Operation

__all__ = [
    "Both",
    "Case",
    "Diagnosed",
    "EarlierTensor",
    "Explanation",
    "Fit",
    "Hypothesis",
    "Nearby",
    "Operation",
    "Specific",
    "diagnose",
    "sites_of",
]
