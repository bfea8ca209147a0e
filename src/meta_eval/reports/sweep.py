"""Several models over the same pack, side by side. Each has its own report, with the same baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from meta_eval.judging.decide import Decision
from meta_eval.judging.judgement import Task
from meta_eval.messages.counts import plural
from meta_eval.reports.document import Document, Section, Verdict
from meta_eval.reports.tables import Column, Row, Table
from meta_eval.reports.text import format_drop, format_drop_interval, format_percent
from meta_eval.stats import Interval
from meta_eval.thresholds import LEVEL_TEXT

if TYPE_CHECKING:
    from meta_eval.reports.model import Report

SCHEMA_VERSION = 2

_SHORT = {"within margin": "holds", "worse": "worse", "undecided": "?"}
_LEGEND = "Percent, of one pack. Each model is judged by itself: holds, worse, or undecided (?)."


@dataclass(frozen=True, slots=True)
class Sweep:
    """The reports of several models, by the model's name, each of the same pack."""

    reports: Mapping[str, Report]

    def to_json(self) -> dict[str, Any]:
        """The reports as plain JSON data."""
        reports = {model: report.to_json() for model, report in self.reports.items()}
        return {"schema_version": SCHEMA_VERSION, "document_type": "sweep", "models": reports}


@dataclass(frozen=True, slots=True)
class _TaskOfModels:
    """A task of each model that ran it; of the row of decisions, the decisions."""

    tasks: Mapping[str, Task]
    decisions: Mapping[str, str]


def make_sweep_document(sweep: Sweep) -> Document:
    """A document with a row a task, and a column a model with its score and what is shown of its drop."""
    decisions = tuple(f"{model}: {report.decision.outcome}" for model, report in sweep.reports.items())
    return Document(
        "sweep", f"{plural(len(sweep.reports), 'model')} side by side", None, f"{'; '.join(decisions)}.",
        Verdict("Decisions", reasons=decisions),
        (Section("tasks", "Tasks", "Tasks", (_table(sweep), _make_drop_table(sweep))),),
        (), (), (), max(report.exit_code for report in sweep.reports.values()), sweep,
    )  # fmt: skip


def _table(sweep: Sweep) -> Table[_TaskOfModels]:
    baseline: Column[_TaskOfModels] = Column("baseline", "baseline", _baseline, format_percent)
    names = zip(sweep.reports, shorten_names(list(sweep.reports)), strict=True)
    columns = (baseline, *(_column(model, heading) for model, heading in names))
    return Table("sweep", "Tasks", columns, tuple(_rows(sweep)), _LEGEND)


def _make_drop_table(sweep: Sweep) -> Table[Task | Decision]:
    """What each model loses of each task, and in the mean, with its interval."""
    columns: tuple[Column[Task | Decision], ...] = (
        Column("drop", "drop", _drop, format_drop, "points, positive for worse", strong=True),
        Column("interval", f"{LEVEL_TEXT} interval", _interval, format_drop_interval),
    )
    names = dict(zip(sweep.reports, shorten_names(list(sweep.reports)), strict=True))
    tasks = dict.fromkeys(task.name for report in sweep.reports.values() for task in report.tasks)
    rows: list[Row[Task | Decision]] = [
        Row(name, task, task.outcome, part=names[model])
        for name in tasks
        for model, report in sweep.reports.items()
        for task in report.tasks
        if task.name == name and task.decision
    ]
    means = [(model, report.decision) for model, report in sweep.reports.items() if report.decision.mean]
    rows += [Row("mean", decision, decision.outcome, part=names[model]) for model, decision in means]
    legend = "Points; a positive drop is worse. Each interval is of one model beside the baseline."
    return Table("sweep_drops", "What each model loses", columns, tuple(rows), legend)


def _drop(subject: Task | Decision) -> float | None:
    if isinstance(subject, Task):
        return subject.decision.drop.value if subject.decision else None
    return subject.mean.value if subject.mean else None


def _interval(subject: Task | Decision) -> Interval | None:
    if isinstance(subject, Task):
        return subject.decision.interval if subject.decision else None
    return subject.interval


def _column(model: str, heading: str) -> Column[_TaskOfModels]:
    def outcome(row: _TaskOfModels) -> str | None:
        task = row.tasks.get(model)
        if task is None or not task.scores:
            return None
        return _SHORT[task.decision.outcome] if task.decision else "?"

    return Column(model, heading, _score_of(model), _write, detail=outcome, strong=True, beside=True)


def _score_of(model: str) -> Callable[[_TaskOfModels], float | str | None]:
    def score(row: _TaskOfModels) -> float | str | None:
        task = row.tasks.get(model)
        if task is None:
            return row.decisions.get(model)
        if task.decision:
            return task.decision.drop.candidate
        return task.scores[0].value if task.scores else None

    return score


def _write(value: float | str) -> str:
    return value if isinstance(value, str) else format_percent(value)


def _baseline(row: _TaskOfModels) -> float | None:
    """The baseline's score; None where the runs answered other docs, and so stand beside another part of it."""
    scores = {task.decision.drop.baseline for task in row.tasks.values() if task.decision}
    return scores.pop() if len(scores) == 1 else None


def _rows(sweep: Sweep) -> Iterator[Row[_TaskOfModels]]:
    tasks: dict[str, dict[str, Task]] = {}
    for model, report in sweep.reports.items():
        for task in report.tasks:
            tasks.setdefault(task.name, {})[model] = task
    for name, of_models in tasks.items():
        yield Row(name, _TaskOfModels(of_models, {}))
    decisions = {model: str(report.decision.outcome) for model, report in sweep.reports.items()}
    yield Row("decision", _TaskOfModels({}, decisions), whole=True)


def shorten_names(models: Sequence[str]) -> list[str]:
    """The last part of each name, or the whole where two would be the same."""
    short = [model.rstrip("/").rpartition("/")[2] or model for model in models]
    return short if len(set(short)) == len(short) else list(models)
