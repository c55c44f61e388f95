"""The result of a calibration as tables, for a terminal and for the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from firstdiff.errors import UsageError
from firstdiff.judge.noise_rule import PARTS
from firstdiff.testing.corpus.faults import FAULTS
from firstdiff.testing.corpus.measuring import Measured
from firstdiff.testing.corpus.models import MODELS
from firstdiff.testing.corpus.scoring import MARGIN, SHIPPED, Chosen, Rate, Score, choose, largest_healthy, only, score

_BEGIN, _END = "<!-- make calibrate writes from here -->", "<!-- to here -->"
_SHOWN_ALARMS = 8


def calibration(found: Sequence[Measured]) -> str:
    """Everything in Markdown: limits, then false alarms and detection rates on the half they were not chosen on."""
    choosing = only(found, lambda one: one.half == "choose")
    scoring = only(found, lambda one: one.half == "score")
    trained = only(scoring, lambda one: one.trained)
    chosen = choose(choosing)
    scored = [
        ("limits of the other half", score(scoring, chosen)),
        ("limits as shipped", score(scoring, SHIPPED)),
        ("as shipped, trained models only", score(trained, SHIPPED)),
    ]
    alarms = scored[1][1].examples[:_SHOWN_ALARMS]
    listed = ["", "Alarms:", "", *(f"- {alarm}" for alarm in alarms)] if alarms else []
    return "\n".join(
        [_summary(choosing, scoring), "", *_limits(choosing, scoring, chosen), "", *_rates(scored), *listed]
    )


def write_docs(path: Path, text: str) -> None:
    """Put the tables between the markers of a page; UsageError where it has none."""
    page = path.read_text(encoding="utf-8")
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise UsageError(f"{path} has no lines {_BEGIN!r} and {_END!r} to write the tables between")
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def _summary(choosing: Sequence[Measured], scoring: Sequence[Measured]) -> str:
    def count(half: Sequence[Measured]) -> str:
        healthy = [one for one in half if one.fault is None]
        runs = len({(one.model, one.variation) for one in healthy})
        return f"{len({one.model for one in half})} models in {runs} pairs of runs, {len(healthy):,} healthy tensors"

    planted = sum(one.fault is not None for one in (*choosing, *scoring))
    return (
        f"Of {len(MODELS)} models, chosen on {count(choosing)}; scored on {count(scoring)}. {planted:,} faults planted."
    )


def _limits(choosing: Sequence[Measured], scoring: Sequence[Measured], chosen: Chosen) -> list[str]:
    lines = [
        f"| part | shipped: half, fp32 | largest healthy figure, chosen on | scored on | chosen (x{MARGIN:g}) |",
        "|---|---|---|---|---|",
    ]
    worst = [[largest_healthy(half, wide) for wide in (False, True)] for half in (choosing, scoring)]
    for part in PARTS:
        healthy = [_both(*(side.get(part, 0.0) for side in half)) for half in worst]
        shipped = _both(getattr(SHIPPED.half, part), getattr(SHIPPED.wide, part))
        lines.append(
            f"| `{part}` | {shipped} | {healthy[0]} | {healthy[1]} | "
            f"{_both(getattr(chosen.half, part), getattr(chosen.wide, part))} |"
        )
    return lines


def _rates(scored: Sequence[tuple[str, Score]]) -> list[str]:
    lines = [f"| | {' | '.join(name for name, _ in scored)} |", "|---|" + "---|" * len(scored)]
    lines.append("| **false alarms**, runs | " + " | ".join(_count(s.alarm_runs) for _, s in scored) + " |")
    for width in ("half", "fp32"):
        cells = [_count(s.alarms[width]) if width in s.alarms else "-" for _, s in scored]
        lines.append(f"| false alarms, tensors, {_width(width)} | {' | '.join(cells)} |")
    for width in ("half", "fp32"):
        for fault in FAULTS:
            rates = [s.found.get((width, fault)) for _, s in scored]
            if any(rates):
                size = "" if width == "half" else ", a thousandth"
                cells = [f"{100 * rate.share:.0f} %" if rate else "-" for rate in rates]
                lines.append(f"| found, {_width(width)}: {fault}{size} | {' | '.join(cells)} |")
    return lines


def _width(width: str) -> str:
    return "bf16, fp16" if width == "half" else "fp32, fp64"


def _both(half: float, wide: float) -> str:
    return f"{half:.3g}, {wide:.3g}" if wide < float("inf") else f"{half:.3g}, -"


def _count(rate: Rate) -> str:
    return f"{rate.flagged} of {rate.tensors:,}"
