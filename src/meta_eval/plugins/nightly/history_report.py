"""What a history of runs says of the newest one, and its document."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from meta_eval.base.thresholds import NAMED
from meta_eval.plugins.nightly.history_alarm import PLANNED_RUNS, Chart, DocFlips, HistoryJudgement
from meta_eval.plugins.nightly.run_chart import ENOUGH_RUNS, ChartPoint
from meta_eval.plugins.nightly.run_history import PastRun
from meta_eval.reports.document import BUT_PAGES, Fact, Figure, RunProvenance, Verdict
from meta_eval.reports.plot import Mark, Plot, Tick
from meta_eval.reports.text import NONE, format_count, format_percent
from meta_eval.sockets import Column, Document, Item, Listing, Row, Section, Table, plural

_SCHEMA_VERSION = 1

_EXIT_CODES = {"no alarm": 0, "alarm": 1, "too few runs": 3}

# Runs in a table; JSON has all.
_SHOWN = 30

# Tasks with a plot: those of an alarm, else the first.
_PLOTS = 6

# What names a doc in a history.
_HASHES = (
    "A doc is named by the beginning of its hash. To see it, search for that text in the samples file of its task "
    "(samples_TASK_….jsonl): the doc_id of the line is its number."
)


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """What views read."""

    judgement: HistoryJudgement
    """What was found."""

    folder: str
    """The history."""

    false_alarms: float
    runs_a_year: int
    """The rate of false alarms: so many a year, of so many runs."""

    drop: float
    """The drop that docs and runs are planned for, from 0 to 1."""

    @property
    def exit_code(self) -> int:
        """0 without an alarm, 1 with one, 3 with too few runs."""
        return _EXIT_CODES[self.judgement.outcome]

    @property
    def summary(self) -> str:
        """The result in one line."""
        judgement = self.judgement
        if judgement.outcome == "too few runs":
            most = max(len(chart.points) for chart in judgement.charts)
            clauses = [
                f"too few runs to tell: {plural(most, 'run')} of the same docs, and an alarm needs {ENOUGH_RUNS}"
            ]
        elif judgement.outcome == "alarm":
            clauses = [clause for chart in judgement.charts if (clause := self.describe_alarm(chart))]
            clauses[0] = f"alarm: {clauses[0]}"
        else:
            earlier = plural(len(judgement.charts[0].points) - 1, "run")
            clauses = [f"no alarm: {judgement.runs[-1].label} is like the {earlier} before it"]
        return "; ".join((*clauses, *filter(None, (judgement.other_model,))))

    def describe_alarm(self, chart: Chart) -> str:
        """What an alarm says, with the range of runs in which the change began; empty without one."""
        alarm = chart.alarm
        if alarm is None:
            return ""
        at, point = alarm
        assert point.change is not None  # noqa: S101 (an alarm has one)
        first, last = (self._label(chart, place) for place in point.change)
        before = self._label(chart, point.change[0] - 1) if point.change[0] else "the first run"
        kind = "a sudden drop" if point.state == "sudden drop" else "a slow drift"
        since = f"after {before}, with {first}" if first == last else f"after {before} and by {last}"
        raised = "" if at == len(chart.points) - 1 else f", raised by {self._label(chart, at)}"
        return f"{chart.name}: {kind} that began {since}{raised}{self._name_fallen(chart, point.change[0])}"

    def _name_fallen(self, chart: Chart, change: int) -> str:
        """Of a fall of the mean over tasks the task that fell most, a clause; empty of a task."""
        _, *tasks = self.judgement.charts
        if not tasks or chart is not self.judgement.charts[0] or not change:
            return ""
        falls = [(_measure_fall(task, chart.runs[change]), task.name) for task in tasks]
        fall, name = max(falls)
        return f"; most fell {name}, by {100 * fall:.1f} points" if fall > 0 else ""

    def _label(self, chart: Chart, point: int) -> str:
        return self.judgement.runs[chart.runs[point]].label

    def document(self) -> Document:
        """The document that views show."""
        return make_history_document(self)

    def to_json(self) -> dict[str, Any]:
        """The whole as plain JSON data; scores and drops from 0 to 1."""
        judgement = self.judgement
        return {
            "schema_version": _SCHEMA_VERSION,
            "document_type": "history",
            "outcome": judgement.outcome,
            "summary": self.summary,
            "false_alarms": self.false_alarms,
            "runs_a_year": self.runs_a_year,
            "runs": [run.model_dump(exclude={"tasks", "format", "version"}) for run in judgement.runs],
            "charts": [_chart_json(chart) for chart in judgement.charts],
            "notes": list(judgement.notes),
            "other_model": judgement.other_model,
            "exit_code": self.exit_code,
        }


def _chart_json(chart: Chart) -> dict[str, Any]:
    return {
        "name": chart.name, "docs": chart.docs, "runs_per_alarm": chart.runs_per_alarm,
        "points": [
            {"run": place, **dataclasses.asdict(point)} for place, point in zip(chart.runs, chart.points, strict=True)
        ],
        "flips": dataclasses.asdict(chart.flips) if chart.flips else None,
    }  # fmt: skip


def _measure_fall(chart: Chart, change: int) -> float:
    """How much lower the scores of a task are from a run of the history on; 0 where it has none before or since."""
    scores = [(run >= change, point.score) for run, point in zip(chart.runs, chart.points, strict=True)]
    before, since = ([score for is_since, score in scores if is_since is wanted] for wanted in (False, True))
    return math.fsum(before) / len(before) - math.fsum(since) / len(since) if before and since else 0.0


def make_history_document(report: HistoryReport) -> Document:
    """The document of a history."""
    judgement = report.judgement
    newest = judgement.runs[-1]
    runs = (RunProvenance("the newest run", f"{newest.model or 'unknown model'} ({newest.engine})", (), newest.label),)
    return Document(
        "history", newest.model or "History", judgement.outcome, report.summary, _verdict(report),
        tuple(_sections(report)), runs, (), judgement.notes, report.exit_code, report, heading="History",
    )  # fmt: skip


def _verdict(report: HistoryReport) -> Verdict:
    judgement = report.judgement
    chart = next((chart for chart in judgement.charts if chart.is_alarmed), judgement.charts[0])
    newest = chart.points[-1]
    facts = [Fact(f"score of {chart.name}", format_percent(newest.score))]
    if newest.mean is not None:
        facts.append(Fact("mean of the runs before", format_percent(newest.mean)))
    facts.append(Fact("runs", format_count(len(judgement.runs))))
    of_runs = f"of {format_count(report.runs_a_year)} runs"
    facts.append(Fact("false alarms", f"{report.false_alarms:g} a year", detail=of_runs))
    reasons = tuple(clause for chart in judgement.charts if (clause := report.describe_alarm(chart)))
    named = (*reasons, *filter(None, (judgement.other_model,))) if reasons else (report.summary,)
    return Verdict(judgement.outcome, facts=tuple(facts), reasons=named)


def _sections(report: HistoryReport) -> Iterator[Section]:
    charts = _chart_table(report)
    yield Section("charts", charts.title, "Tasks", (charts,))
    runs = _run_table(report, report.judgement.charts[0])
    alarmed = [chart for chart in report.judgement.charts if chart.is_alarmed] or report.judgement.charts[:1]
    plots = [Figure("plot", _draw_runs(_run_table(report, chart))) for chart in alarmed[:_PLOTS]]
    yield Section("runs", runs.title, "Runs", (*plots, replace(runs, views=BUT_PAGES)))
    unsteady = [
        Item((chart.name,), _name_docs(chart.flips))
        for chart in report.judgement.charts
        if chart.flips and chart.flips.unsteady
    ]
    if unsteady:
        unsteady.append(Item((), _HASHES))
    yield Section("unsteady", "Docs that go either way", "Docs", (Listing(tuple(unsteady)),))


def _name_docs(flips: DocFlips) -> str:
    named = ", ".join(flips.unsteady[:NAMED])
    more = len(flips.unsteady) - NAMED
    return f"{plural(len(flips.unsteady), 'doc')} of {flips.docs:,}: {named}{f' and {more:,} more' if more > 0 else ''}"


# A terminal has no room for it.
_PAGE = {"terminal": ""}


def _chart_table(report: HistoryReport) -> Table[Chart]:
    drop = report.drop
    columns: tuple[Column[Chart], ...] = (
        Column("score", "score", lambda chart: chart.points[-1].score, format_percent, strong=True),
        Column("mean", "mean before", lambda chart: chart.points[-1].mean, format_percent),
        Column("spread", "spread of runs", lambda chart: chart.flips.seen if chart.flips else None, _format_points,
               "standard deviation of the runs' scores, in points", headings=_PAGE),
        Column("expected", "by flips", lambda chart: chart.flips.expected if chart.flips else None, _format_points,
               "what independent flips of docs explain of it", headings=_PAGE),
        Column("changed", "docs that flip", lambda chart: chart.flips.changed if chart.flips else None, format_count,
               headings=_PAGE),
        Column("correlation", "correlation", lambda chart: chart.points[-1].correlation, lambda value: f"{value:.2f}",
               "of neighbouring runs", headings=_PAGE),
        Column("docs", "docs", lambda chart: chart.docs, format_count),
        Column("docs_needed", "docs needed", lambda chart: chart.find_docs_needed(drop), format_count),
        Column("runs_needed", "runs needed", lambda chart: chart.find_runs_needed(drop),
               lambda runs: format_count(math.ceil(runs))),
    )  # fmt: skip
    several = len(report.judgement.charts) > 1
    rows = tuple(
        Row(chart.name, chart, "alarm" if chart.is_alarmed else "no alarm", whole=several and chart.name == "mean")
        for chart in report.judgement.charts
    )
    legend = (
        f"Docs needed: with so many a lasting drop of {100 * drop:g} points raises an alarm within {PLANNED_RUNS} runs "
        "on average; a dash where more docs do not help, or it is unknown. Runs needed: so many runs with the docs "
        "that there are."
    )
    return Table("charts", "The newest run beside the runs before it", columns, rows, legend)


@dataclass(frozen=True, slots=True)
class _RunRow:
    run: PastRun
    point: ChartPoint | None


def _run_table(report: HistoryReport, chart: Chart) -> Table[_RunRow]:
    runs = report.judgement.runs
    by_run = dict(zip(chart.runs, chart.points, strict=True))
    shown = [_RunRow(run, by_run.get(place)) for place, run in enumerate(runs)][-_SHOWN:][::-1]
    rows = tuple(Row(row.run.time[:16].replace("T", " "), row) for row in shown)
    columns: tuple[Column[_RunRow], ...] = (
        Column("name", "of", lambda row: row.run.name or None, str, words=True),
        Column("engine", "engine", lambda row: row.run.engine or NONE, str, words=True, headings={"terminal": ""}),
        Column("score", chart.name, lambda row: row.point.score if row.point else None, format_percent),
        Column("state", "state", lambda row: row.point.state if row.point else "left out", str, words=True),
    )
    title = "All runs, newest first" if len(runs) <= _SHOWN else f"The newest {_SHOWN} of {len(runs)} runs"
    return Table("runs", title, columns, rows, first="run (UTC)")


def _draw_runs(table: Table[_RunRow]) -> Plot | None:
    """The score of each run beside the mean of the runs before it; None with a single run."""
    points = [row.subject.point for row in table.rows if row.subject.point]
    if len(points) < 2:
        return None
    values = [value for point in points for value in (point.score, point.mean) if value is not None]
    room = max(max(values) - min(values), 0.02) / 8
    low, high = max(0.0, min(values) - room), min(1.0, max(values) + room)

    def at(score: float) -> float:
        return round(100 * (score - low) / (high - low), 2)

    def mark(row: Row[_RunRow]) -> Mark:
        point = row.subject.point
        if point is None:
            return Mark(row)
        x, mean = at(point.score), at(point.score if point.mean is None else point.mean)
        return Mark(row, x, min(x, mean), max(x, mean))

    ticks = tuple(Tick(at(score), f"{100 * score:.1f}") for score in (low, (low + high) / 2, high))
    line = "from the score, the taller mark, to the mean of the runs before"
    return Plot(table, tuple(map(mark, table.rows)), ticks, None, "percent", line, nothing="left out")


def _format_points(share: float) -> str:
    return f"{100 * share:.2f}"
