"""Write a stride search's result as a recipe, and classify the layout change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise, permutations
from math import prod

from firstdiff.align.notation import Axis, Group, Pattern, Shape
from firstdiff.align.steps import Rearrange
from firstdiff.align.stride_search import Digit, Walk, merged

_LONGEST_HEAD = 512
_MOST_AXES = 6


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Steps that bring a tensor into another's shape and order.

    cause: what to call it where it should not be there; None where nothing moves
    natural: whether it moves nothing but whole axes of one of the two shapes
    cost: how far it is from doing nothing; of two that fit, the lower one is the plainer
    """

    steps: tuple[Rearrange, ...]
    cause: str | None
    natural: bool
    cost: int


def arrangement_of(walk: Walk, target: Shape, source: Shape) -> Arrangement:
    """The steps that make a tensor of shape `target` of one of shape `source`, whose elements it walks through."""
    atoms = _atoms(walk, target, source)
    if atoms is None:
        steps = _in_three_steps(walk, target, source)
        return Arrangement(steps, "layout.reshape", natural=False, cost=12 + len(walk))
    moved = len(merged(tuple(atoms))) > 1 or any(digit.stride == 0 for digit in atoms)
    hidden = _hidden(atoms, target, source)
    steps = _in_one_step(atoms, target, source) if moved or target != source else ()
    if not moved:
        bare = [tuple(n for n in shape if n != 1) for shape in (target, source)]
        cause = None if bare[0] == bare[1] else "layout.reshape"
        return Arrangement(
            steps, cause, natural=not hidden, cost=(4 if hidden else 0) + (cause is not None) + bool(steps)
        )
    cause = _cause(atoms, hidden, target, source)
    return Arrangement(steps, cause, natural=not hidden, cost=1 + len(merged(tuple(atoms))) + (6 if hidden else 0))


def is_forced(arranged: Arrangement, target: Shape, source: Shape) -> bool:
    """True if the shapes call for it; shapes that agree but for 1s call for nothing but the 1s."""
    bare = [tuple(n for n in shape if n != 1) for shape in (target, source)]
    return arranged.cause is None if bare[0] == bare[1] else arranged.natural


def natural_walks(target: Shape, source: Shape) -> Iterator[Walk]:
    """Every order of the whole axes of one shape that the other can be cut from, the plain one first."""
    seen: set[Walk] = set()
    for walk in chain(permutations(_axes(source)), _orders(_axes(target))):
        plain = merged(walk)
        if plain not in seen and _atoms(walk, target, source) is not None:
            yield plain
        seen.add(plain)


def repeating_walks(target: Shape, source: Shape) -> Iterator[Walk]:
    """Every order of the whole axes of a smaller shape with one more axis along which its values repeat."""
    if not prod(source) or prod(target) % prod(source):
        return
    repeat = Digit(prod(target) // prod(source), 0)
    seen: set[Walk] = set()
    for order in permutations(_axes(source)):
        for at in range(len(order) + 1):
            walk = merged((*order[:at], repeat, *order[at:]))
            if walk not in seen and _atoms(walk, target, source) is not None:
                yield walk
            seen.add(walk)


def _orders(axes: Walk) -> Iterator[Walk]:
    """Yield the walk of these axes through a tensor that has them in another order, for every order."""
    for order in permutations(range(len(axes))):
        strides = {axis: prod(axes[later].size for later in order[at + 1 :]) for at, axis in enumerate(order)}
        yield tuple(Digit(digit.size, strides[axis]) for axis, digit in enumerate(axes))


def _axes(shape: Shape) -> Walk:
    """The axes of a shape as digits, without those of 1; as one where they are too many to try all orders."""
    axes = tuple(Digit(size, prod(shape[at + 1 :])) for at, size in enumerate(shape) if size > 1)
    return axes if len(axes) <= _MOST_AXES else merged(axes)


def cuts(shape: Shape) -> list[int]:
    """The strides of a C-ordered shape and its size, rising."""
    found = [1]
    for length in reversed(shape):
        found.append(found[-1] * length)
    return sorted(set(found))


def _atoms(walk: Walk, target: Shape, source: Shape) -> list[Digit] | None:
    """The walk in digits so small that both shapes are made of whole ones; None where the shapes do not nest."""
    found: list[Digit] = []
    span = prod(digit.size for digit in walk)
    for size, stride in walk:
        span //= size
        inner = [cut / span for cut in cuts(target) if span < cut < span * size]
        if stride:
            inner += [cut / stride for cut in cuts(source) if stride < cut < stride * size]
        bounds = sorted({1.0, *inner, float(size)}, reverse=True)
        for outer, low in pairwise(bounds):
            if low != int(low) or outer % low:
                return None
            found.append(Digit(int(outer // low), stride * int(low)))
    return found


def _spans(atoms: list[Digit]) -> list[int]:
    """The stride of each atom in the tensor that walks."""
    return [prod(digit.size for digit in atoms[at + 1 :]) for at in range(len(atoms))]


def _hidden(atoms: list[Digit], target: Shape, source: Shape) -> list[int]:
    """Atoms that are no whole axes of either shape: nobody could tell from the shapes that they are there."""
    seen_target, seen_source = set(cuts(target)), set(cuts(source))
    if any(digit.stride == 0 for digit in atoms):
        kept = merged(tuple(digit for digit in atoms if digit.stride))
        return [at for at, (size, stride) in enumerate(kept) if not {stride, stride * size} <= seen_source]
    found = []
    for at, (digit, span) in enumerate(zip(atoms, _spans(atoms), strict=True)):
        whole_in_target = {span, span * digit.size} <= seen_target
        whole_in_source = {digit.stride, digit.stride * digit.size} <= seen_source
        if not whole_in_target and not whole_in_source:
            found.append(at)
    return found


def _cause(atoms: list[Digit], hidden: list[int], target: Shape, source: Shape) -> str:
    if any(digit.stride == 0 for digit in atoms):
        return "layout.repeat"
    spans = _spans(atoms)
    places = {(_axis_at(spans[at], target), _axis_at(atoms[at].stride, source)) for at in hidden}
    if not hidden or all(atoms[at].stride == spans[at] for at in hidden):
        return "layout.transpose"
    if len(places) > 1:
        return "layout.reshape"
    return _cause_within_axis([(atoms[at].size, atoms[at].stride) for at in hidden])


def _cause_within_axis(parts: list[tuple[int, int]]) -> str:
    """One axis has its parts, given in their new order as (size, old stride), in another order."""
    before = sorted(parts, key=lambda part: -part[1])
    while parts and parts[0] == before[0]:
        parts, before = parts[1:], before[1:]
    in_chunks = False
    while parts and parts[-1] == before[-1]:
        parts, before, in_chunks = parts[:-1], before[:-1], True
    sizes = sorted(size for size, _ in parts)
    if 3 in sizes:
        return "layout.qkv_order"
    if len(sizes) == 2 and sizes[0] == 2 and not in_chunks:
        return "layout.rope_interleave" if prod(sizes) <= _LONGEST_HEAD else "layout.interleave"
    return "layout.head_order"


def _axis_at(stride: int, shape: Shape) -> int:
    """The axis within which elements `stride` apart lie."""
    return max(at for at in range(len(shape)) if prod(shape[at:]) > stride)


def _in_one_step(atoms: list[Digit], target: Shape, source: Shape) -> tuple[Rearrange, ...]:
    names = _names(atoms)
    left_order = sorted((at for at, digit in enumerate(atoms) if digit.stride), key=lambda at: -atoms[at].stride)
    left = _cut_into(source, [(names[at], atoms[at].size) for at in left_order])
    right = _cut_into(target, [(names[at], atoms[at].size) for at in range(len(atoms))])
    repeated = {names[at] for at, digit in enumerate(atoms) if digit.stride == 0}
    bare = tuple(tuple(axis if axis.name in repeated else Axis(axis.name) for axis in group) for group in right)
    sized = tuple((*group[:-1], Axis(group[-1].name)) if group else group for group in left)
    return (Rearrange(Pattern(sized, bare)),)


def _in_three_steps(walk: Walk, target: Shape, source: Shape) -> tuple[Rearrange, ...]:
    """Read the source as one row, walk, cut the row into the target: for shapes that do not nest."""
    size = (prod(source),)
    row = (prod(target),)
    flatten = () if len(source) == 1 else _in_one_step(_atoms((Digit(*size, 1),), size, source) or [], size, source)
    turn = () if len(walk) == 1 and walk[0].stride else _in_one_step(list(walk), row, size)
    unflatten = () if len(target) == 1 else _in_one_step(_atoms((Digit(*row, 1),), target, row) or [], target, row)
    return (*flatten, *turn, *unflatten)


def _names(atoms: list[Digit]) -> list[str]:
    letters = iter("abcdefghijklmnopqstuvwxyz")
    names = [""] * len(atoms)
    for at in sorted(range(len(atoms)), key=lambda at: -atoms[at].stride):
        names[at] = next(letters) if atoms[at].stride else f"r{at if names.count('r') else ''}"
    return names


def _cut_into(shape: Shape, atoms: list[tuple[str, int]]) -> tuple[Group, ...]:
    """Atoms, in order, dealt out to the dimensions they make up."""
    rest = iter(atoms)
    groups: list[Group] = []
    for length in shape:
        group: list[Axis] = []
        while prod(axis.size or 1 for axis in group) < length:
            group.append(Axis(*next(rest)))
        groups.append(tuple(group))
    return tuple(groups)
