"""Types of a stored comparison: inputs, edits, progress and outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from firstdiff.schema import Summary

Kind = Literal["pair", "look", "self"]
State = Literal["queued", "running", "done", "failed", "cancelled"]
SideName = Literal["reference", "candidate", "third"]
SIDES: tuple[SideName, ...] = get_args(SideName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a comparison: `done` of `total` files or bytes of a stage; `first` differs first so far."""

    stage: str
    done: int
    total: int
    bytes_per_second: float | None = None
    seconds_left: float | None = None
    first: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One side as the user gave it: a path on this machine, or an upload."""

    label: str
    path: str | None = None
    upload: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOut:
    """One side: what it is called, where it came from, how much it holds, and whether it is still there."""

    label: str
    path: str | None
    upload: str | None
    tensors: int | None
    bytes: int | None
    present: bool


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Two tensors by their keys."""

    reference: str
    candidate: str


@dataclass(frozen=True, slots=True)
class StatedLayout:
    """The recipe of a pair, which the key of its reference names."""

    key: str
    recipe: str


@dataclass(frozen=True, slots=True)
class Edits:
    """Changes made by the user.

    pairs: tensors that belong together
    dropped: pairs that are none
    layouts: recipes of single pairs
    layer_offset: added to the candidate's layers; None to find it
    """

    pairs: tuple[KeyPair, ...] = ()
    dropped: tuple[KeyPair, ...] = ()
    layouts: tuple[StatedLayout, ...] = ()
    layer_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A comparison in the list.

    first: the first divergence in one sentence
    bytes: disk used by the result and by the uploads
    error: why it failed, in one sentence
    """

    id: str
    name: str
    kind: Kind
    state: State
    created: str
    finished: str | None
    reference: SideOut
    candidate: SideOut | None
    third: SideOut | None
    verdict: str | None
    summary: Summary | None
    first: str | None
    bytes: int
    progress: Progress | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The summary of a finished comparison for the list."""

    verdict: str | None
    summary: Summary
    first: str | None
    tensors: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A comparison to run: sides, options, edits, and the number of the run."""

    id: str
    kind: Kind
    run: int
    sides: dict[SideName, Given]
    options: dict[str, Any]
    edits: Edits
