"""Find causes: test every hypothesis on the values of the rows where an error was introduced."""

from firstdiff.diagnose.case import Both, Case
from firstdiff.diagnose.diagnosing import Diagnosed, diagnose, sites_of
from firstdiff.diagnose.fit import Fit
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.nearby import Earlier, Nearby
from firstdiff.diagnose.operation import Operation

__all__ = [
    "Both",
    "Case",
    "Diagnosed",
    "Earlier",
    "Explanation",
    "Fit",
    "Hypothesis",
    "Nearby",
    "Operation",
    "Specific",
    "diagnose",
    "sites_of",
]
