"""Which tensor of the reference is which of the candidate, how sure that is, and what is left over."""

from firstdiff.pairing.doubt import doubt
from firstdiff.pairing.mapfile import PairMap, load_map, parse_map
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
    "pair_up",
    "parse_map",
    "write_map",
]
