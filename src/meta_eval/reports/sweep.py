"""Several models over the same pack, side by side. Each has its own report, with the same baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from meta_eval.messages.counts import plural
from meta_eval.reports.document import Document, Section, Verdict
from meta_eval.reports.tables import Column, Row, Table
from meta_eval.reports.text import format_percent

if TYPE_CHECKING:
    from meta_eval.judging.judgement import Task
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
        Verdict("Decisions", reasons=decisions), (Section("tasks", "Tasks", "Tasks", (_table(sweep),)),),
        (), (), (), max(report.exit_code for report in sweep.reports.values()), sweep,
    )  # fmt: skip


def _table(sweep: Sweep) -> Table[_TaskOfModels]:
    baseline: Column[_TaskOfModels] = Column("baseline", "baseline", _baseline, format_percent)
    names = zip(sweep.reports, shorten_names(list(sweep.reports)), strict=True)
    columns = (baseline, *(_column(model, heading) for model, heading in names))
    return Table("sweep", "Tasks", columns, tuple(_rows(sweep)), _LEGEND)


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
