"""Pair the tensors of reference and candidate, with a confidence for each pair, and list the rest."""

from firstdiff.pairing.doubt import doubt
from firstdiff.pairing.mapfile import PairMap, load_map, map_text, parse_map
from firstdiff.pairing.result import Guess, Match, PairingResult, Unpaired
from firstdiff.pairing.rounds import pair_up
from firstdiff.pairing.strategy import ACCEPTED, Findings, PairingOptions, Proposal, Situation, Strategy
from firstdiff.pairing.writemap import write_map

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
