"""Doubts about the pairing of rows that differ: their values fit another tensor far better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firstdiff.comparing.rows import MatchedPair
from firstdiff.locate import Located, LocatedPair, RowGraph
from firstdiff.pairing import Match, PairingResult, doubt
from firstdiff.schema import Diagnosis


def pairing_doubts(
    paired: PairingResult,
    matched: Sequence[MatchedPair],
    located: Located,
    graph: RowGraph,
    known: Mapping[int, Diagnosis],
) -> tuple[dict[int, Match], tuple[str, ...]]:
    """Say which rows that differ have values that fit another tensor far better; the pairs stay as they are.

    Rows that certainly inherit their error have no doubts of their own, and a row that is like what it was computed
    from is no other tensor.
    """
    places = {id(match): place for place, match in enumerate(paired.pairs)}
    suspects = {
        places[id(row.match)]: row.index
        for row in matched
        if row.match is not None and is_uncertain(located.pairs[row.index]) and row.index not in known
    }
    if not suspects:
        return {}, ()
    doubted = doubt(paired, suspects)
    found = {
        index: doubted.pairs[place]
        for place, index in suspects.items()
        if doubted.pairs[place].doubt and not _is_own_input(graph, index, doubted.pairs[place])
    }
    return found, doubted.warnings[len(paired.warnings) :]


def _is_own_input(graph: RowGraph, index: int, doubted: Match) -> bool:
    """Return whether what fits better is what the row was computed from, as its records tell."""
    feeding = graph.compared[index]
    names = {info.name for at in feeding.rows if (info := graph.rows[at].candidate_info)}
    return not feeding.guessed and not names.isdisjoint(doubted.pairing.alternatives[:1])


def is_uncertain(pair: LocatedPair) -> bool:
    """Return whether a row differs and may be wrong on its own account."""
    return pair.measured.differs and (pair.origin != "inherited" or pair.estimated)
