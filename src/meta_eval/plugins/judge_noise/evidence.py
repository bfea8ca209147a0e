"""The judge's own noise in a report: how often the same answer got another grade, and what more gradings are worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import LEVEL_TEXT
from meta_eval.reports.text import format_count, format_interval, format_percent
from meta_eval.sockets import Column, Evidence, EvidenceCase, Findings, Row, Section, Table

if TYPE_CHECKING:
    from meta_eval.plugins.judge_noise.noise import DropNoise, TaskNoise
    from meta_eval.stats import Interval

_LEGEND = (
    "Docs whose same answer was graded twice. Lost: the later grading (B's) is lower; won: it is higher. Flips both "
    "ways decide nothing, but widen the interval of the drop. Half-widths are of that interval, in points, with so "
    "many gradings of each answer; cut answers count as graded."
)


class JudgeNoiseEvidence(Evidence):
    """How often a judge gives the same answer another grade. It raises no alarm and changes no decision."""

    def find(self, case: EvidenceCase) -> Findings:
        """See `Evidence.find`."""
        from meta_eval.harness.doc_results import find_shared_questions
        from meta_eval.plugins.judge_noise.noise import measure_task

        sides = case.baseline, case.candidate
        shared = find_shared_questions([task.docs for task in case.candidate.tasks.values()])
        names = sorted({name for run in sides if run for name in run.tasks})
        found = {}
        for name in names:
            before, after = (run.all_runs(name) if run else () for run in sides)
            noise = measure_task(name, before, after, shared)
            if noise is not None and noise.is_judged:
                found[name] = noise
        measured = {name: noise for name, noise in found.items() if noise.docs}
        unknown = [name for name in found if name not in measured]
        tree = {"tasks": {name: _as_json(noise) for name, noise in measured.items()}, "unknown": unknown}
        return Findings(notes=tuple(_explain_unknown(unknown)), data=measured, json=tree if found else None)

    def make_sections(self, findings: Findings) -> Iterator[Section]:
        """See `Evidence.make_sections`."""
        tasks: Mapping[str, TaskNoise] = findings.data or {}
        yield Section("judge_noise", "The judge's own noise", "Judge's noise", (_make_table(tasks),) if tasks else ())


def _explain_unknown(tasks: Sequence[str]) -> Iterator[str]:
    if tasks:
        shown = join_names([f"{name:.80}" for name in tasks])
        yield (
            f"the judge's own noise is unknown, as no answer was graded twice ({shown}): grade one of the logs again, "
            "and compare both logs"
        )


def _make_table(tasks: Mapping[str, TaskNoise]) -> Table[TaskNoise]:
    columns: list[Column[TaskNoise]] = [
        Column("docs", "docs", lambda noise: noise.docs, format_count, "docs that were graded twice"),
        Column("pairs", "pairs", lambda noise: noise.pairs, format_count, "pairs of gradings of the same answer",
               headings={} if any(noise.pairs != noise.docs for noise in tasks.values()) else {"terminal": ""}),
        Column("lost", "lost", lambda noise: noise.lost, format_count, "gradings that are lower the second time"),
        Column("won", "won", lambda noise: noise.won, format_count, "gradings that are higher the second time"),
        Column("rate", "flips", lambda noise: noise.rate, format_percent,
               f"percent of pairs of gradings that flip, with the {LEVEL_TEXT} interval",
               lambda noise: format_interval(noise.interval), strong=True),
    ]  # fmt: skip
    if any(noise.drop for noise in tasks.values()):
        columns += [
            _make_column("explained", "explains", lambda drop: drop.explained, "percent of the drop's variance",
                         lambda drop: format_interval(drop.explained_interval)),
            _make_column("half_width", "half-width", lambda drop: drop.half_width, "of the drop's interval, points"),
            _make_column("half_width_2", "2 gradings", lambda drop: drop.half_widths[2]),
            _make_column("half_width_4", "4 gradings", lambda drop: drop.half_widths[4]),
            _make_column("half_width_unlimited", "unlimited", lambda drop: drop.half_widths[None]),
        ]  # fmt: skip
    rows = tuple(Row(name, noise, remarks=("one way",) if noise.goes_one_way else ()) for name, noise in tasks.items())
    return Table("judge_noise", "Gradings of the same answers", tuple(columns), rows, _LEGEND)


def _make_column(key: str, heading: str, value: Any, legend: str = "", detail: Any = None) -> Column[TaskNoise]:
    """A column about the drop, in two lines on a terminal; empty where nothing is compared."""

    def of_drop(take: Any) -> Any:
        return lambda noise: take(noise.drop) if noise.drop else None

    return Column(
        key, heading, of_drop(value), format_percent, legend, of_drop(detail) if detail else None,
        headings={"terminal": heading.replace(" ", "\n").replace("-", "-\n")},
    )  # fmt: skip


def _as_json(noise: TaskNoise) -> dict[str, Any]:
    return {
        "docs": noise.docs, "pairs": noise.pairs, "lost": noise.lost, "won": noise.won, "rate": noise.rate,
        "interval": _bounds(noise.interval), "drop": _drop_as_json(noise.drop),
    }  # fmt: skip


def _drop_as_json(drop: DropNoise | None) -> dict[str, Any] | None:
    if drop is None:
        return None
    widths = {"1": drop.half_width, **{str(count or "unlimited"): width for count, width in drop.half_widths.items()}}
    return {
        "variance": drop.variance, "explained": drop.explained, "explained_interval": _bounds(drop.explained_interval),
        "half_widths": widths,
    }  # fmt: skip


def _bounds(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None else {"lower": interval.lower, "upper": interval.upper}
