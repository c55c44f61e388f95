"""Views of tensors for the page: slices, overviews, largest differences, profiles, manual mappings."""

from firstdiff.viewing.distribution import BinnedValues, Profile, histograms, profile, scatter
from firstdiff.viewing.elements import Element, ElementQuery, largest, search
from firstdiff.viewing.mapping import MappedView, TriedMapping, common_mappings, mapped_view
from firstdiff.viewing.overview import overview
from firstdiff.viewing.slice import Cut

__all__ = [
    "BinnedValues",
    "Cut",
    "Element",
    "ElementQuery",
    "MappedView",
    "Profile",
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
