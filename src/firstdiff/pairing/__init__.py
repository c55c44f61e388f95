"""Pair the tensors of reference and candidate, with a confidence for each pair, and list the rest."""

from firstdiff.pairing.by_value import doubt
from firstdiff.pairing.map_file import PairMap, load_map, map_text, parse_map, write_map
from firstdiff.pairing.matching import pair_up
from firstdiff.pairing.strategy import (
    ACCEPTED,
    Findings,
    Guess,
    Match,
    PairingOptions,
    PairingResult,
    Proposal,
    Situation,
    Strategy,
    Unpaired,
)

__all__ = [
    "ACCEPTED",
    "Findings",
    "Guess",
    "Match",
    "PairMap",
    "PairingOptions",
    "PairingResult",
    "Proposal",
    "Situation",
    "Strategy",
    "Unpaired",
    "doubt",
    "load_map",
    "map_text",
    "pair_up",
    "parse_map",
    "write_map",
]
