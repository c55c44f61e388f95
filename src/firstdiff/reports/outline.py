"""The outline that reports share: the rows where errors were introduced, the rest folded by layer and by role."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, isfinite

from firstdiff.reports.sentences import count, excess, some, title
from firstdiff.reports.tokens import token_remarks
from firstdiff.schema import Comparison, Origin, Pair, Status

ORIGINS: dict[Origin, str] = {"inherited": "Inherited", "unknown": "Of unknown origin"}
_WEIGHTS = frozenset({"param", "buffer"})
_MOST_SOUNDS = 20
_QUANTISED = frozenset({"dtype.int8", "dtype.int4"})
_MOST_LINES = 26  # of a list that is folded by layer
_ONE_SIDE: tuple[tuple[Status, str, str], ...] = (
    ("missing", "reference", "allow_missing"),
    ("extra", "candidate", "allow_extra"),
)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows of one layer, or of several in a row.

    worst: the one furthest beyond its tolerance, by a factor of `ratio`
    """

    label: str
    rows: int
    worst: Pair
    ratio: float


def introduced_rows(comparison: Comparison) -> list[Pair]:
    """Return the rows where errors were introduced, in order; a first divergence of unknown origin counts as one."""
    first = comparison.first_divergence
    sites = {site.pair for site in comparison.divergences}
    if first is not None and first.origin != "inherited":
        sites.add(first.pair)
    return [comparison.pairs[index] for index in sorted(sites)]


def differing_by_layer(comparison: Comparison, origin: Origin, most: int = _MOST_LINES) -> list[RowGroup]:
    """Fold the rows that differ by layer, but for those of `introduced_rows` and for weights.

    origin: of the rows to fold; "unknown" includes rows whose origin was not determined
    most: how many groups there may be; with more layers than that, several that follow each other are one group
    """
    sites = {pair.index for pair in introduced_rows(comparison)}
    label = _labels(comparison.pairs)
    rows = [
        pair
        for pair in comparison.pairs
        if pair.status == "mismatch"
        and pair.role not in _WEIGHTS
        and pair.index not in sites
        and (pair.origin or "unknown") == origin
    ]
    groups = [(name, list(found)) for name, found in groupby(sorted(rows, key=_place(label)), key=label)]
    step = max(1, ceil(len(groups) / most))
    return [_group(groups[start : start + step]) for start in range(0, len(groups), step)]


def _place(label: Callable[[Pair], str]) -> Callable[[Pair], int]:
    """Return a sorting key that keeps labels in the order of their first row."""
    first: dict[str, int] = {}

    def place(pair: Pair) -> int:
        return first.setdefault(label(pair), len(first))

    return place


def _group(parts: Sequence[tuple[str, list[Pair]]]) -> RowGroup:
    rows = [pair for _, found in parts for pair in found]
    label = parts[0][0] if len(parts) == 1 else f"{parts[0][0]} to {parts[-1][0]}"
    worst = max(rows, key=_ratio)
    return RowGroup(label, len(rows), worst, _ratio(worst))


def _ratio(pair: Pair) -> float:
    """Return how far a row is beyond its limit; rows that cannot be compared at all are the worst."""
    found = excess(pair)
    return float("inf") if found is None else found


def _labels(pairs: Sequence[Pair]) -> Callable[[Pair], str]:
    """Return what names a row's layer; without layers it is the first part of the name."""
    layered = [pair.index for pair in pairs if pair.layer is not None and pair.role not in _WEIGHTS]
    steps = len({pair.step for pair in pairs}) > 1
    parts = len({pair.component for pair in pairs}) > 1

    def label(pair: Pair) -> str:
        words = [f"step {pair.step}"] if steps else []
        words += [pair.component] if parts and pair.component else []
        if pair.layer is not None:
            words.append(f"layer {pair.layer}")
        elif not layered:
            words.append(pair.name.replace("/", ".").partition(".")[0])
        elif pair.index < layered[0]:
            words.append("before the layers")
        else:
            words.append("after the layers" if pair.index > layered[-1] else "between the layers")
        return " ".join(words)

    return label


def other_rows(comparison: Comparison) -> Iterator[str]:
    """Count the rows that are neither compared outputs nor matches: weights, tensors of one side, unreadable ones."""
    weights = [pair.key for pair in comparison.pairs if pair.status == "mismatch" and pair.role in _WEIGHTS]
    if weights and comparison.first_divergence and comparison.first_divergence.key not in weights:
        yield f"Weights that differ: {len(weights):,} ({some(weights, 3)})"
    for status, side, option in _ONE_SIDE:
        found = [pair for pair in comparison.pairs if pair.status == status]
        if found:
            passes = ", which --allow-missing lets pass" if status == "missing" else ", which --allow-extra lets pass"
            roles = Counter(pair.role for pair in found)
            counts = ", ".join(count(amount, role) for role, amount in roles.most_common())
            names = [pair.key for pair in found if pair.role not in _WEIGHTS] or [pair.key for pair in found]
            tail = passes if comparison.settings.get(option) else ""
            yield f"Only in the {side}: {counts} ({some(names, 3)}){tail}"
    in_part = [pair.key for pair in comparison.pairs if pair.alignment is not None and pair.alignment.coverage < 1]
    if in_part:
        allowed = bool(comparison.settings.get("allow_partial"))
        tail = ", which --allow-partial lets pass" if allowed else "; --allow-partial lets them pass"
        yield f"Compared only in part: {count(len(in_part), 'tensor')} ({some(in_part, 3)}){tail}"
    yield from _set_apart(comparison)
    failed: dict[str, list[str]] = {}
    for pair in comparison.pairs:
        if pair.status == "failed":
            failed.setdefault(pair.reason or "cannot be read", []).append(pair.key)
    for reason, keys in failed.items():
        yield f"Failed: {count(len(keys), 'row')} ({some(keys, 3)}): {reason}"


def _set_apart(comparison: Comparison) -> Iterator[str]:
    """Count the rows that have no verdict, and those that are another way of writing."""
    unclear = [pair for pair in comparison.pairs if pair.status == "inconclusive"]
    if unclear:
        yield f"Inconclusive: {count(len(unclear), 'row')}, the first {unclear[0].key}: {unclear[0].reason}"
    apart = [pair.key for pair in comparison.pairs if pair.status == "rewritten" and pair.role not in _WEIGHTS]
    weights = [pair for pair in comparison.pairs if pair.status == "rewritten" and pair.role in _WEIGHTS]
    for side, lone in (("reference", "candidate"), ("candidate", "reference")):
        unrecorded = [pair.key for pair in weights if getattr(pair, side) is None]
        if unrecorded:
            advice = f"which the {side} did not record; capture with params='all' to compare them"
            yield f"Only recorded in the {lone}: {count(len(unrecorded), 'weight')} ({some(unrecorded, 3)}), {advice}"
    if apart:
        why = "explain says why for each; --strict-functions counts them"
        yield f"Written differently, no error: {count(len(apart), 'tensor')} ({some(apart, 3)}); {why}"


def controlled(comparison: Comparison) -> str | None:
    """Say what the worst row is beside a control; None where there was no control, or it had no say."""
    compared = (pair for pair in comparison.pairs if pair.status != "rewritten")
    judged = [(pair.key, pair.controlled) for pair in compared if pair.controlled is not None]
    if not judged:
        return None
    key, worst = max(judged, key=lambda found: found[1].rms)
    return f"Beside the control: {count(len(judged), 'row')}; the worst is {key}: {worst.text}"


def sounds(comparison: Comparison) -> Iterator[str]:
    """Describe rows that are sound, but for the first divergence, whose answer does."""
    first = comparison.first_divergence.pair if comparison.first_divergence else None
    found = [pair for pair in comparison.pairs if pair.audio and pair.index != first]
    for pair in found[:_MOST_SOUNDS]:
        yield f"Sound of {title(pair)}: {pair.audio['verdict'] if pair.audio else ''}"
    if len(found) > _MOST_SOUNDS:
        yield f"… and {len(found) - _MOST_SOUNDS:,} more sounds"


def recovered(comparison: Comparison) -> str | None:
    """Name the first row that matches although what feeds it does not; None if there is none."""
    for pair in comparison.pairs:
        if pair.recovers_from is not None:
            earlier = comparison.pairs[pair.recovers_from].key
            return f"{pair.key} matches although {earlier}, which feeds it, does not: the error is hidden there"
    return None


def isolated(comparison: Comparison) -> str | None:
    """Say what judging each operation alone found; None where it could judge no row that differs."""
    judged = [pair for pair in comparison.pairs if pair.isolated is not None]
    if not any(pair.isolated and pair.isolated.status != "unknown" and _may_be_wrong(pair) for pair in judged):
        return None
    broken = [pair.key for pair in judged if pair.isolated and pair.isolated.status == "mismatch"]
    unknown = sum(pair.isolated is not None and pair.isolated.status == "unknown" for pair in judged)
    rest = f"{unknown:,} of {len(judged):,} could not be judged"
    if not broken:
        return f"Computed again from the candidate's own inputs, every operation gives what was recorded; {rest}"
    give = "operation gives" if len(broken) == 1 else "operations give"
    names = some(broken, 8)
    return f"Computed again from the candidate's own inputs, {len(broken):,} {give} something else: {names}; {rest}"


def _may_be_wrong(pair: Pair) -> bool:
    return pair.metrics is not None and pair.metrics.max_abs not in (0, None)


def is_quantised(comparison: Comparison) -> bool:
    """True for a candidate whose values were found to be quantised to a few bits."""
    return any(found.cause in _QUANTISED for pair in comparison.pairs for found in pair.diagnosis)


def quantised(comparison: Comparison) -> str | None:
    """Return the signal-to-noise ratio of a quantised candidate, at its lowest and at the end."""
    if not is_quantised(comparison):
        return None
    outputs = [pair for pair in comparison.pairs if pair.role == "output" and not pair.key.endswith(":out.optimized")]
    told = [(pair.metrics.sqnr_db, pair.key) for pair in outputs if pair.metrics and pair.metrics.sqnr_db is not None]
    noisy = [(level, key) for level, key in told if isfinite(level)]
    if not noisy:
        return None
    (lowest, key), (last, last_key) = min(noisy), noisy[-1]
    return (
        f"SQNR: at the lowest {lowest:.1f} dB in {key}, at the end {last:.1f} dB in {last_key}; --all prints each row's"
    )


def remarks(comparison: Comparison) -> Iterator[str]:
    """Return what follows the lists of rows: hidden errors, operations judged alone, quantising, sounds."""
    yield from filter(
        None, (controlled(comparison), recovered(comparison), isolated(comparison), quantised(comparison))
    )
    yield from sounds(comparison)
    yield from token_remarks(comparison)
