"""Parse the notation `b s (h=8 d) -> s b h d`, and solve for the sizes of its axes from a shape."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from firstdiff.errors import UsageError

Shape = tuple[int, ...]
_WORD = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)(?:=(?P<size>\d+))?|(?P<mark>\.\.\.|[()1]))")


@dataclass(frozen=True, slots=True)
class Axis:
    name: str
    size: int | None = None

    def __str__(self) -> str:
        return self.name if self.size is None else f"{self.name}={self.size}"


Group = tuple[Axis, ...]  # the axes that make up one dimension of a tensor; none of them: a dimension of 1
REST: Group = (Axis("..."),)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Both sides of `left -> right`."""

    left: tuple[Group, ...]
    right: tuple[Group, ...]

    def __str__(self) -> str:
        return f"{write_side(self.left)} -> {write_side(self.right)}".strip()

    @property
    def repeated(self) -> Group:
        """The axes that are new on the right: the values are repeated along them."""
        known = {axis.name for group in self.left for axis in group}
        return tuple(axis for group in self.right for axis in group if axis.name not in known)


@dataclass(frozen=True, slots=True)
class Bound:
    """A pattern with every size known: `left` and `right` hold names, in order, one tuple a dimension."""

    left: tuple[tuple[str, ...], ...]
    right: tuple[tuple[str, ...], ...]
    sizes: dict[str, int]
    repeated: tuple[str, ...]

    @property
    def shape(self) -> Shape:
        return tuple(prod(self.sizes[name] for name in group) for group in self.right)


def write_side(groups: tuple[Group, ...]) -> str:
    return " ".join(_write_group(group) for group in groups)


def _write_group(group: Group) -> str:
    if len(group) == 1:
        return str(group[0])
    return "(" + " ".join(map(str, group)) + ")" if group else "1"


@lru_cache(maxsize=4096)
def parse_pattern(text: str) -> Pattern:
    """Read `left -> right`; UsageError says which word makes no sense."""
    sides = text.split("->")
    if len(sides) != 2:
        raise UsageError(f"{text.strip()!r} is no rearrangement; write it as 'b s h -> s b h', with one arrow")
    left, right = (parse_side(side) for side in sides)
    pattern = Pattern(left, right)
    _check_names(pattern)
    return pattern


def parse_side(text: str) -> tuple[Group, ...]:
    """Read one side, such as `s (b h=8) 1 d`."""
    groups: list[Group] = []
    inside: list[Axis] | None = None
    at = 0
    while text[at:].strip():
        word = _WORD.match(text, at)
        if word is None or _runs_on(text, word.end()):
            raise UsageError(
                f"{text[at:].split(maxsplit=1)[0]!r} in {text.strip()!r} is neither an axis, a group (h d) nor 1"
            )
        at = word.end()
        if word["name"]:
            axis = Axis(word["name"], int(word["size"]) if word["size"] else None)
            if inside is None:
                groups.append((axis,))
            else:
                inside.append(axis)
        elif word["mark"] == "(" and inside is None:
            inside = []
        elif word["mark"] == ")" and inside is not None:
            groups.append(tuple(inside))
            inside = None
        elif inside is None and word["mark"] in ("1", "..."):
            groups.append(() if word["mark"] == "1" else REST)
        elif word["mark"] != "1":
            raise UsageError(f"{word['mark']!r} is out of place in {text.strip()!r}; groups do not nest")
    if inside is not None:
        raise UsageError(f"a group in {text.strip()!r} is not closed with ')'")
    _check_once(groups, text)
    return tuple(groups)


def _runs_on(text: str, at: int) -> bool:
    """True if a word goes on past its end, as `12` does past `1`."""
    return at < len(text) and (text[at].isalnum() or text[at] in "_=") and text[at - 1] not in "()"


def _check_once(groups: list[Group], text: str) -> None:
    names = [axis.name for group in groups for axis in group]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UsageError(f"{twice!r} stands twice in {text.strip()!r}; every axis has a name of its own")
    if any(axis.size == 0 for group in groups for axis in group):
        raise UsageError(f"{text.strip()!r} has an axis of size 0; sizes start at 1")


def _check_names(pattern: Pattern) -> None:
    right = {axis.name for group in pattern.right for axis in group}
    lost = [axis.name for group in pattern.left for axis in group if axis.name not in right]
    if lost:
        raise UsageError(f"axis {lost[0]!r} of '{pattern}' is lost on the right; pick a part of it with [...] first")
    unsized = [axis.name for axis in pattern.repeated if axis.size is None]
    if "..." in unsized:
        raise UsageError(f"'{pattern}' has ... on the right only; write it on both sides")
    if unsized:
        raise UsageError(f"axis {unsized[0]!r} of '{pattern}' is new on the right; say how often, as {unsized[0]}=4")


@lru_cache(maxsize=4096)
def bind(pattern: Pattern, shape: Shape) -> Bound:
    """Give every axis its size for a tensor of this shape; UsageError says what does not fit."""
    left = _spelled_out(pattern, shape)
    sizes = {axis.name: axis.size for group in pattern.left for axis in group if axis.size is not None}
    sizes |= {axis.name: axis.size for group in pattern.right for axis in group if axis.size is not None}
    for number, (group, length) in enumerate(zip(left, shape, strict=True)):
        _bind_group(pattern, shape, number, group, length, sizes)
    rest = tuple(name for group in left for name in group if name.startswith("."))
    return Bound(
        left=left,
        right=_replace_rest(pattern.right, rest),
        sizes=sizes,
        repeated=tuple(axis.name for axis in pattern.repeated),
    )


def _spelled_out(pattern: Pattern, shape: Shape) -> tuple[tuple[str, ...], ...]:
    """The left side by names, with `...` standing for as many axes as the shape has beyond the others."""
    beyond = len(shape) - len(pattern.left) + (REST in pattern.left)
    if beyond != 0 if REST not in pattern.left else beyond < 0:
        wanted = len(pattern.left) - (REST in pattern.left)
        raise UsageError(f"'{pattern}' takes {wanted} axes, but the tensor has {len(shape)}: {list(shape)}")
    return _replace_rest(pattern.left, tuple(f".{number}" for number in range(beyond)))


def _replace_rest(groups: tuple[Group, ...], rest: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    named: list[tuple[str, ...]] = []
    for group in groups:
        named += [(name,) for name in rest] if group == REST else [tuple(axis.name for axis in group)]
    return tuple(named)


def _bind_group(
    pattern: Pattern, shape: Shape, number: int, group: tuple[str, ...], length: int, sizes: dict[str, int]
) -> None:
    unknown = [name for name in group if name not in sizes]
    stated = prod(sizes[name] for name in group if name in sizes)
    where = f"axis {number} of {list(shape)} is {length}"
    if len(unknown) > 1:
        raise UsageError(f"{where}, which does not tell {' and '.join(unknown)} of '{pattern}'; write {unknown[0]}=8")
    if unknown and length % stated == 0:
        sizes[unknown[0]] = length // stated
    elif unknown:
        raise UsageError(f"{where}, which the {stated} that '{pattern}' wants there does not divide")
    elif stated != length:
        raise UsageError(f"{where}, but '{pattern}' wants {stated} there")
