"""Apply the default verdict to every row in execution order, given the noise upstream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import final

from firstdiff import dtypes
from firstdiff.comparing.upstream_noise import UpstreamNoise, is_stated, matching
from firstdiff.judge import is_cast, percent, short_name
from firstdiff.locate import MeasuredPair, Replays, RowGraph
from firstdiff.schema import FailedPart, Isolated, Metrics, Note, Systematic

_FOR_ALARMS = 0.25  # of the time, kept for rows that differ and that nothing before them explains
# times the time, to prove that an alarm is nothing but rounding of operations there was no time for; estimates of what
# that costs are high, and where an error was seen before an alarm nothing is to be proven
_FOR_PROOFS = 15.0
# times a limit that a row may be beyond if its operation introduced nothing, but not all before it could be computed
# again: an error that was made unseen, and grows, gets past that
_SLIGHT = 4.0
_AMOUNTS = ("level", "row", "row_noise", "channel", "element")
_BY_DEFAULT = ("default", "exact")
# times the difference of two runs node by node, that the same model may differ by where a runtime optimises it
_OPTIMIZED = 4.0


@dataclass(frozen=True, slots=True)
class Settled:
    """Rows with their final verdict.

    isolated: each operation judged on the candidate's own inputs; None where that was not asked, or not affordable
    notes: what there is to say about all of them
    seconds_left: of those that computing operations again may cost
    """

    rows: list[MeasuredPair]
    isolated: list[Isolated | None]
    notes: tuple[Note, ...]
    seconds_left: float | None


def settled(
    rows: Sequence[MeasuredPair], graph: RowGraph, replays: Replays, *, equal_nan: bool, seconds: float | None
) -> Settled:
    """Judge rows in the order of execution: by isolation where it can tell, elsewhere beside the noise upstream.

    seconds: what computing operations again may cost; None for no limit
    """
    noise, isolation = UpstreamNoise(rows), Isolation(graph, replays, seconds)
    found = []
    for place, row in enumerate(rows):
        judged = isolation.judged(place, noise.judged(row, equal_nan=equal_nan))
        noise.add(judged)
        found.append(judged)
    left = None if seconds is None else isolation.seconds_left
    return Settled(found, isolation.known, tuple(isolation.notes(found)), left)


@final
class Isolation:
    """Lets operations that were computed again decide: they tell what was introduced from what was only passed on.

    known: the judgement of each row so far
    """

    def __init__(self, graph: RowGraph, replays: Replays, seconds: float | None) -> None:
        self.known: list[Isolated | None] = []
        self._rows: list[MeasuredPair] = []
        self._graph = graph
        self._replays = replays
        self._left = inf if seconds is None else (1 - _FOR_ALARMS) * seconds * 1e9
        self._left_for_alarms = inf if seconds is None else _FOR_ALARMS * seconds * 1e9
        self._left_for_proofs = inf if seconds is None else _FOR_PROOFS * seconds * 1e9
        self._left_out: set[int] = set()
        self._introduced: set[int] = set()
        self._tainted: set[int] = set()
        self._unproven: set[int] = set()
        self._only_rounded: set[int] = set()
        self._cast: dict[int, bool] = {}
        self._stepped: list[str] = []
        self._any_by_default = any(row.tolerance is not None and row.tolerance.rule == "default" for row in graph.rows)

    @property
    def seconds_left(self) -> float:
        return (self._left + self._left_for_alarms) / 1e9

    def judged(self, place: int, row: MeasuredPair) -> MeasuredPair:
        """Return a row with its final verdict; the rows before it have theirs."""
        fed = self._graph.compared[place].rows
        if any(at in self._tainted or at in self._introduced for at in fed):
            self._tainted.add(place)
        proven = not any(at in self._unproven for at in fed)
        alone = self._isolated(place, row)
        self.known.append(alone)
        # an error too small to be seen where it was made may grow until it is: nothing downstream is excused then
        if not proven or (not _is_proof(alone) and row.compared and not self._unchanged(place)):
            self._unproven.add(place)
        if alone is not None and is_stated(row):  # its verdict stands, but what comes after it has limits of its own
            self._note_introduced(place, alone)
        elif alone is not None and row.systematic is not None and row.status in ("match", "mismatch"):
            row = self._combined(place, row, row.systematic, alone)
        elif alone is not None and row.differs and row.systematic is None:
            row = self._over_a_step(place, row, alone)
        if row.differs:
            row = self._beside_exposed(place, row)
        if row.differs and place not in self._tainted:
            self._introduced.add(place)
        self._rows.append(row)
        return row

    def _beside_exposed(self, place: int, row: MeasuredPair) -> MeasuredPair:
        """Excuse an output of the optimised model that is as near as the one computed node by node, which matches.

        Nothing inside the optimised model was recorded, so that what its operations make of rounding shows only there.
        """
        by_rule = row.tolerance is not None and row.tolerance.rule in ("default", "exact")
        if row.record is None or row.record.slot != "optimized" or not by_rule or _certain(row):
            return row
        fed = (self._rows[at] for at in self._graph.compared[place].rows if at < place)
        exposed = next((other for other in fed if other.record and other.record.name == row.record.name), None)
        if exposed is None or exposed.status != "match" or not _as_near(row.metrics, exposed.metrics):
            return row
        share = row.metrics.rel_l2 if row.metrics and row.metrics.rel_l2 is not None else 0.0
        return _excused(row, f"differs by {percent(share)}, about as much as {exposed.key}, which matches")

    def _combined(self, place: int, row: MeasuredPair, systematic: Systematic, alone: Isolated) -> MeasuredPair:
        excused = place not in self._tainted and not _certain(row)
        copied = row.role == "input" and not alone.residual  # in which nothing grows; what it is made of matches
        if row.differs and excused and place in self._unproven and not (copied or _is_slight(systematic)):
            excused = alone.status == "match" and (self._only_rounds(place, row) or self._prove(place))
        if alone.status == "match" and row.differs and excused:
            share = row.metrics.rel_l2 if row.metrics and row.metrics.rel_l2 is not None else 0.0
            return _excused(
                row, f"differs by {percent(share)} of propagated rounding; the operation introduces nothing"
            )
        if alone.ill_conditioned and row.differs and excused:
            metrics = replace(row.metrics, mismatched=0) if row.metrics else None
            return replace(row, status="inconclusive", reason=alone.reason, required=None, metrics=metrics)
        if self._note_introduced(place, alone) and row.status == "match":
            reason = alone.reason or "it is not what its inputs give"
            part = FailedPart("alone", alone.residual or 0.0, alone.limit or 0.0, f"small, yet wrong: {reason}")
            systematic = replace(systematic, failed=(part,), note=None)
            counted = self._graph.rows[place].metrics  # those of a match have no element that counts as mismatched
            return replace(row, status="mismatch", reason=part.text, systematic=systematic, metrics=counted)
        return row

    def _only_rounds(self, place: int, row: MeasuredPair) -> bool:
        """True for a row that differs by its operation's own rounding, as a sigmoid near 0, and for copies of it.

        Exact results of what both sides were given are near, so that nothing before it can be the reason.
        """
        fed = [at for at in self._graph.compared[place].rows if at < place]
        copied = (at for at in fed if at in self._only_rounded)
        if any(_as_near(row.metrics, self._rows[at].metrics, times=1.0) for at in copied):
            self._only_rounded.add(place)
            return True
        cost = 2 * self._replays.operation_cost(place)
        if cost > self._left_for_proofs or any(self._rows[at].status != "match" for at in fed):
            return False
        self._left_for_proofs -= cost
        if not self._replays.inherits_nothing(place):
            return False
        self._only_rounded.add(place)
        return True

    def _over_a_step(self, place: int, row: MeasuredPair, alone: Isolated) -> MeasuredPair:
        """Excuse whole numbers that are what the candidate's own inputs give, where nothing before made an error.

        Where a value is rounded to a step, or the largest is chosen, rounding before it can decide which.
        """
        if alone.status != "match" or alone.residual or place in self._tainted or _certain(row):
            return row
        if place in self._unproven and not self._prove(place):
            return row
        many = _how_many(row)
        self._stepped.append(f"{row.key}: {many}")
        return _excused(row, f"{many} by rounding that crossed a step; the operation introduces nothing")

    def _note_introduced(self, place: int, alone: Isolated) -> bool:
        """Remember an operation that introduces an error; False where it does not, or something inside it did."""
        if alone.status != "mismatch" or self._made_inside(place):
            return False
        self._introduced.add(place)
        return True

    def _isolated(self, place: int, row: MeasuredPair) -> Isolated | None:
        if not row.compared or row.is_evidence or row.tolerance is None:
            return None
        if row.tolerance.rule not in _BY_DEFAULT and not (self._any_by_default and is_stated(row)):
            return None
        if self._equal(place) and all(self._equal(at) for at in self._graph.compared[place].rows):
            return Isolated(status="match", residual=0.0)
        cost = self._replays.cost(place)
        alarms = row.differs and place not in self._tainted
        if alarms and cost <= self._left_for_alarms:
            self._left_for_alarms -= cost
        elif cost <= self._left:
            self._left -= cost
        elif alarms and cost <= self._left_for_proofs:
            self._left_for_proofs -= cost
        else:
            self._left_out.add(place)
            return None
        return self._replays.judged(place)

    def _prove(self, place: int) -> bool:
        """Compute again what was left out before an alarming row; True if none of it introduces anything."""
        chain, waiting = {place}, [place]
        while waiting:
            fed = [at for at in self._graph.compared[waiting.pop()].rows if at in self._unproven and at not in chain]
            chain.update(fed)
            waiting.extend(fed)
        wanted = sorted(chain & self._left_out)
        cost = sum(self._replays.cost(at) for at in wanted)
        unknown = any(
            not _is_proof(self.known[at]) and not self._unchanged(at) and self._graph.rows[at].compared
            for at in chain - self._left_out
        )
        if unknown or cost > self._left_for_proofs:
            return False
        self._left_for_proofs -= cost
        for at in wanted:
            self.known[at] = self._replays.judged(at)
        self._left_out -= chain
        proven = all(alone is not None and alone.status == "match" for alone in (self.known[at] for at in wanted))
        if proven:
            self._unproven -= chain
        return proven

    def _equal(self, place: int) -> bool:
        row = self._graph.rows[place]
        metrics, basis = row.metrics, row.basis
        if row.layout_cause is not None:
            return False
        return metrics is not None and metrics.max_abs in (0, None) and basis is not None and not basis.conflicting

    def _unchanged(self, place: int) -> bool:
        """Return whether a row that nothing tells the origin of is the reference's, cast to another type."""
        if self._equal(place):
            return True
        if place not in self._cast:
            row = self._graph.rows[place]
            self._cast[place] = row.role == "input" and row.sources is not None and is_cast(row.sources)
        return self._cast[place]

    def _made_inside(self, place: int) -> bool:
        """Return whether something that ran inside this call is to blame already."""
        call = self._graph.calls.of(place)
        if self._graph.rows[place].role == "input" or not call.inner:
            return False
        begin = min([*call.inputs, *call.inner])
        return any(begin <= at < place for at in self._introduced)

    def notes(self, rows: Sequence[MeasuredPair]) -> Iterator[Note]:
        """Say what computing operations again has shown, and what there was no time for."""
        counted = Counter(alone.status for alone in self.known if alone is not None)
        largest = max((_share(row) for row in rows if row.status == "match"), default=0.0)
        proven = any(alone is not None and alone.status == "match" and _share(row) for row, alone in self._judged(rows))
        if proven and largest and not any(row.differs for row in rows):
            kind = _coarsest_name(rows)
            unknown = f"; {counted['unknown']:,} could not be computed again" if counted["unknown"] else ""
            yield Note(
                "other",
                None,
                f"Differences grow to {percent(largest)} by propagated {kind} rounding; none of {counted['match']:,} "
                f"operations introduces an error{unknown}",
            )
        if self._stepped:
            count = len(self._stepped)
            what = "1 row differs" if count == 1 else f"{count:,} rows differ"
            text = f"{what} by rounding that crossed a step; the first is {self._stepped[0]}"
            yield Note("other", None, text)
        if not any(row.differs for row in rows):
            yield from self._unseen(rows)
        if self._left_out:
            count = len(self._left_out)
            rows_left = "1 row was" if count == 1 else f"{count:,} rows were"
            text = f"{rows_left} not computed again, for want of time; --isolate or --effort full judges all of them"
            yield Note("not_searched", None, text)

    def _judged(self, rows: Sequence[MeasuredPair]) -> Iterator[tuple[MeasuredPair, Isolated | None]]:
        return zip(rows, self.known, strict=True)

    def _unseen(self, rows: Sequence[MeasuredPair]) -> Iterator[Note]:
        """Say what a match could not have seen: by values alone, or by operations that round their results."""
        judged = [two for two in self._judged(rows) if two[0].status == "match" and _share(two[0])]
        by_values = [row for row, alone in judged if not _is_proof(alone)]
        if by_values:
            worst, least = max(by_values, key=_scale_seen), min(map(_scale_seen, by_values))
            count = "1 row was" if len(by_values) == 1 else f"{len(by_values):,} rows were"
            most = f" ({percent(_scale_seen(worst))} in {worst.key})" if _scale_seen(worst) > least else ""
            seen = f"a scale error below {percent(least)}{most} would not show there"
            yield Note("other", None, f"{count} judged by values alone: {seen}")
        elif judged:
            text = f"An error within one rounding of {_coarsest_name(rows)} in an operation would not show"
            yield Note("other", None, text)


def _scale_seen(row: MeasuredPair) -> float:
    return row.systematic.scale_seen if row.systematic is not None else 0.0


def is_found_alone(row: MeasuredPair) -> bool:
    """True for an error that only computing the operation again has shown: its values are near the reference's."""
    return row.systematic is not None and any(part.part == "alone" for part in row.systematic.failed)


def _is_proof(alone: Isolated | None) -> bool:
    """True if it is known what an operation introduced: nothing, an error, or rounding that it makes large."""
    return alone is not None and (alone.status != "unknown" or alone.ill_conditioned)


def _is_slight(systematic: Systematic) -> bool:
    """True if a row is beyond its limits by little, and only by the amount of its difference."""
    return all(part.part in _AMOUNTS and part.figure <= _SLIGHT * part.limit for part in systematic.failed)


def _certain(row: MeasuredPair) -> bool:
    """True for a mismatch whatever it was computed from: a layout, other masks or ids, NaN that only one side has."""
    basis, failed = row.basis, row.systematic.failed if row.systematic is not None else ()
    strange = row.layout_cause is not None or (basis is not None and (basis.conflicting or basis.both_nan))
    return bool(strange) or any(part.part in ("mask", "exact") for part in failed)


def _excused(row: MeasuredPair, note: str) -> MeasuredPair:
    """Return a row that matches, and say why; whole numbers have no form of a difference to note it in."""
    if row.systematic is None:
        return matching(row, reason=note)
    return matching(replace(row, systematic=replace(row.systematic, failed=(), note=note)))


def _how_many(row: MeasuredPair) -> str:
    metrics = row.metrics
    assert metrics is not None, "only what was measured differs"
    return f"{metrics.mismatched:,} of {metrics.elements:,} whole numbers differ"


def _share(row: MeasuredPair) -> float:
    """The relative difference of a row that was computed."""
    if row.is_evidence or row.systematic is None or row.metrics is None:
        return 0.0
    share = row.metrics.rel_l2
    return share if share is not None and isfinite(share) else 0.0


def _as_near(metrics: Metrics | None, known: Metrics | None, times: float = _OPTIMIZED) -> bool:
    """True if a row differs by little more than one that is known to be right, as a whole and in each element."""
    if metrics is None or known is None:
        return False
    pairs = ((metrics.rel_l2, known.rel_l2), (metrics.max_abs, known.max_abs))
    return all(one is not None and other is not None and one <= times * other for one, other in pairs)


def _coarsest_name(rows: Sequence[MeasuredPair]) -> str:
    types = {row.systematic.dtype for row in rows if row.systematic is not None and not row.is_evidence}
    return short_name(max(types, key=lambda name: dtypes.eps_of(dtypes.from_name(name)), default="float32"))
