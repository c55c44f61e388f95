"""Write the rows of a comparison as a map file, to be edited and passed back."""

from __future__ import annotations

from collections.abc import Iterator

from firstdiff.pairing.writemap import comment, quoted
from firstdiff.schema import Comparison, Pair, TensorInfo

_HEAD = (
    "# Which tensor of {reference} is which of {candidate}.\n"
    "# Edit it and pass it with --map; an entry with one side only says that the tensor has no partner.\n"
)


def map_of_rows(comparison: Comparison) -> str:
    """The pairs as a map file, how each was found beside it; what is unpaired follows as comments.

    A recipe is written where the pair was found to match in another layout.
    """
    head = _HEAD.format(reference=comment(comparison.reference.path), candidate=comment(comparison.candidate.path))
    return "\n".join([head, *(_block(pair) for pair in comparison.pairs)])


def _block(pair: Pair) -> str:
    lines = list(_lines(pair))
    if pair.reference is None or pair.candidate is None:
        lines = [f"# {line}" for line in lines]
    return "\n".join(lines) + "\n"


def _lines(pair: Pair) -> Iterator[str]:
    found = pair.pairing
    yield f"[[pair]]  # {comment(f'{found.method}, {found.confidence:.2f}')}" if found else "[[pair]]"
    for name, side in (("reference", pair.reference), ("candidate", pair.candidate)):
        if side is not None:
            yield f"{name} = {_value(_keys(side))}"
    if pair.alignment and not pair.alignment.is_identity and pair.status == "match":
        yield f"recipe = {quoted(pair.alignment.recipe)}"


def _keys(side: TensorInfo) -> list[str]:
    return list(side.keys or (side.name,))


def _value(names: list[str]) -> str:
    texts = [quoted(name) for name in names]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
