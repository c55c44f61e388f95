"""The layout rule: which recipes may be a match, and what to say of those that may not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from firstdiff.align.solution import Solution


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether values that agree under a recipe are a match, and why."""

    may_match: bool
    reason: str


def layout_rule(
    solution: Solution,
    *,
    role: str = "output",
    stated: bool = False,
    accepted: Collection[str] = (),
    strict: bool = False,
) -> Ruling:
    """May the pair be a match under the solution's recipe?

    role: of the reference; a `param` may be kept in any layout
    stated: whether the user gave this recipe
    accepted: causes the user accepts, with or without `layout.`: `transpose`, `rope_interleave`
    strict: let nothing but identity match
    """
    if solution.alignment is None:
        tried = f"; tried: {', '.join(solution.tried)}" if solution.tried else ""
        return Ruling(False, f"no recipe relates the shapes{tried}")
    if solution.is_identity:
        return Ruling(True, "same layout")
    recipe = f"'{solution.alignment}'"
    if strict:
        return Ruling(False, f"only identity may match here; {recipe} would have fitted")
    if stated:
        return Ruling(True, f"{recipe} is stated")
    if role == "param":
        return Ruling(True, f"a param may be kept in any layout, here {recipe}")
    if solution.declared:
        return Ruling(True, f"dims declare {recipe}")
    if solution.forced:
        return Ruling(True, f"the shapes call for {recipe}")
    code = solution.cause or "layout.reshape"
    name = code.removeprefix("layout.")
    if {code, name} & set(accepted):
        return Ruling(True, f"{recipe} is accepted as {name}")
    return Ruling(False, f"the values fit only through {recipe} ({code}); accept it with --accept-layout {name}")
