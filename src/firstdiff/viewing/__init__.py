"""Views of tensors for the page: slices, overviews, largest differences, profiles, manual mappings."""

from firstdiff.viewing.common import TriedMapping, common_mappings
from firstdiff.viewing.cut import Cut
from firstdiff.viewing.extremes import Element, Sought, largest, search
from firstdiff.viewing.mapped import MappedView, mapped_view
from firstdiff.viewing.overview import overview
from firstdiff.viewing.profile import Profile, profile
from firstdiff.viewing.spread import Histogram, histograms, scatter

__all__ = [
    "Cut",
    "Element",
    "Histogram",
    "MappedView",
    "Profile",
    "Sought",
    "TriedMapping",
    "common_mappings",
    "histograms",
    "largest",
    "mapped_view",
    "overview",
    "profile",
    "scatter",
    "search",
]
