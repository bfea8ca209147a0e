"""The subtasks of each task: tiles in a page, a table in Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meta_eval.reports import text
from meta_eval.reports.tables import Column, Row, Table

if TYPE_CHECKING:
    from meta_eval.judge.decision import Subtask, TaskDecision
    from meta_eval.reports.model import Report

# Differences of a subtask: a step of colour for every this many points, and the number of steps on either side.
_STEP = 0.025
_STEPS = 4


@dataclass(frozen=True, slots=True)
class Tile:
    """A subtask by the name to show, its difference from the other side's score, and the class of its colour."""

    name: str
    subtask: Subtask
    difference: float | None
    heat: str


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of each task, and the owners of the scores."""

    candidate: str
    baseline: str
    tasks: tuple[tuple[str, tuple[Tile, ...]], ...]


def make_tiles(report: Report) -> Tiles:
    """A tile for each subtask."""
    first, second = report.sides
    candidate, baseline = "our", f"{report.baseline_owner_recorded} verdicts"
    if report.document_type == "compare":
        candidate, baseline = f"{second.label}'s", f"{first.label}'s"
    return Tiles(candidate, baseline, tuple((task.name, _tiles(task)) for task in report.tasks if task.subtasks))


def make_subtask_table(task: TaskDecision, report: Report) -> Table[Subtask]:
    """The same as a table, for Markdown."""
    candidate, baseline = ("B", "A") if report.document_type == "compare" else ("ours", report.baseline_owner)
    columns: tuple[Column[Subtask], ...] = (
        Column("docs", "docs", lambda subtask: subtask.docs, text.format_count),
        Column("score", candidate, lambda subtask: subtask.value, text.format_percent),
        Column("baseline", baseline, lambda subtask: subtask.baseline, text.format_percent),
        Column("difference", "difference", _difference, text.format_points),
    )
    rows = tuple(Row(subtask.name, subtask) for subtask in task.subtasks)
    views = ("markdown",)
    title = f"Subtasks of {task.name}"
    return Table("subtasks", title, columns, rows, first="subtask", views=views, folded=views)


def _difference(subtask: Subtask) -> float | None:
    return None if subtask.baseline is None else subtask.value - subtask.baseline


def _tiles(task: TaskDecision) -> tuple[Tile, ...]:
    names = text.shorten_names([subtask.name for subtask in task.subtasks])
    sign = -1 if task.lower_is_better else 1
    differences = [(subtask, _difference(subtask)) for subtask in task.subtasks]
    return tuple(
        Tile(names[subtask.name], subtask, value, _heat(subtask, None if value is None else sign * value))
        for subtask, value in differences
    )


def _heat(subtask: Subtask, difference: float | None) -> str:
    """A difference diverges from nought; where there is none to show, the score itself is the heat."""
    if difference is None:
        return f"heat s{min(9, int(10 * subtask.value))}"
    most = _STEPS if subtask.clear else 1
    step = max(-most, min(most, round(difference / _STEP)))
    return f"heat {'n' if step < 0 else 'p'}{abs(step)}"
