"""Several models over one pack, side by side: each beside the same baseline, by its own report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from meta_eval.judging.judgement import Task
from meta_eval.reports import text as write
from meta_eval.reports.model import Report

_SHORT = {"shown to hold": "holds", "shown below": "below", "not shown": "?"}


def show(reports: Mapping[str, Report]) -> Table:
    """A row a task, a column a model with its score and what is shown of its drop; the decisions are the last row.

    Args:
        reports: By the model's name, each of the same pack.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("task", overflow="fold", ratio=1)
    table.add_column("baseline", justify="right", no_wrap=True)
    for name in labels(list(reports)):
        table.add_column(name, justify="right", overflow="fold")
    tasks: dict[str, dict[str, Task]] = {}
    for model, report in reports.items():
        for task in report.tasks:
            tasks.setdefault(task.name, {})[model] = task
    for name, of_models in tasks.items():
        before = {one.decision.drop.before for one in of_models.values() if one.decision}
        # Runs that answered other docs stand beside another part of the baseline.
        base = write.percent(before.pop()) if len(before) == 1 else "-"
        table.add_row(name, base, *(_cell(of_models.get(model)) for model in reports))
    table.add_row("decision", "", *(report.decision.outcome for report in reports.values()), style="bold")
    return table


def _cell(task: Task | None) -> str:
    if task is None or task.decision is None:
        score = task.scores[0].value if task is not None and task.scores else None
        return f"{write.percent(score)} ?" if score is not None else "-"
    return f"{write.percent(task.decision.drop.after)} {_SHORT[task.decision.outcome]}"


def labels(models: Sequence[str]) -> list[str]:
    """The last part of each name, or the whole where two would be the same."""
    short = [model.rstrip("/").rpartition("/")[2] or model for model in models]
    return short if len(set(short)) == len(short) else list(models)
