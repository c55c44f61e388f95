"""Write a pairing as a map file, to be edited and passed back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from firstdiff.pairing.result import Match, PairingResult, Unpaired
from firstdiff.trace import Trace

_HEAD = (
    "# Which tensor of {reference} is which of {candidate}.\n"
    "# Edit it and pass it with --map; an entry with one side only says that the tensor has no partner.\n"
)


def write_map(result: PairingResult) -> str:
    """The pairs as a map file, how each was found beside it; what is unpaired follows as comments, with its guess.

    >>> import numpy as np
    >>> from firstdiff.pairing import pair_up
    >>> ours, theirs = Trace.from_arrays({"a": np.ones(3)}), Trace.from_arrays({"b": np.ones(3)})
    >>> print(write_map(pair_up(ours, theirs)).split("[[pair]]")[1])
      # order, 0.90
    reference = "a"
    candidate = "b"
    <BLANKLINE>
    """
    head = _HEAD.format(reference=comment(result.reference.path), candidate=comment(result.candidate.path))
    ours, theirs = _names(result.reference), _names(result.candidate)
    blocks = [head, *(_pair(match, ours, theirs) for match in result.pairs)]
    blocks += _unpaired(result.missing, ours, "reference", "candidate")
    blocks += _unpaired(result.extra, theirs, "candidate", "reference")
    return "\n".join(blocks)


def _pair(match: Match, ours: list[str | None], theirs: list[str | None]) -> str:
    pairing = match.pairing
    said = f"{pairing.method}, {pairing.confidence:.2f}"
    if pairing.alternatives:
        said += f", or {', '.join(pairing.alternatives)}"
    reference, candidate = [ours[place] for place in match.reference], [theirs[place] for place in match.candidate]
    lines = [
        f"[[pair]]  # {comment(said)}",
        f"reference = {_value(reference)}",
        f"candidate = {_value(candidate)}",
    ]
    if match.recipe is not None:
        lines.append(f"recipe = {quoted(match.recipe)}")
    if None in (*reference, *candidate):  # a key that occurs twice cannot be named
        lines = [f"# {line}" for line in lines]
    return "\n".join(lines) + "\n"


def _unpaired(tensors: tuple[Unpaired, ...], names: list[str | None], side: str, other: str) -> Iterator[str]:
    for tensor in tensors:
        name = names[tensor.index]
        guess = tensor.guess
        line = f"# [[pair]]\n# {side} = {_value([name])}\n"
        if guess is not None:
            line += f"# {other} = {quoted(guess.key)}  # {comment(guess.why)}, {guess.confidence:.2f}\n"
        yield line


def _names(trace: Trace) -> list[str | None]:
    """The key of each tensor, None where the key means another one as well."""
    keys = [str(tensor.key) for tensor in trace]
    count = Counter(keys)
    return [key if count[key] == 1 else None for key in keys]


def _value(names: list[str | None]) -> str:
    texts = ['"(a key that occurs twice)"' if name is None else quoted(name) for name in names]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def quoted(text: str) -> str:
    """A TOML string: JSON's escapes are among TOML's, which escapes delete as well."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def comment(text: str) -> str:
    """Text that stays on its line."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
