"""Where things stand in the plot: each task's drop with the interval that decides, beside 0 and the margin.

A point would vanish on an axis from 0 to 100, so the axis is in points of drop, worse to the right; from 0 to its
margin a task may lie and hold. Where nothing was compared, the axis is that of the scores. Places are in percent of
the width, so that the plot fits any page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from meta_eval.judging.judgement import Score, Task
from meta_eval.reports.model import Report
from meta_eval.reports.tables import Row
from meta_eval.reports.task_tables import DropRow, drop_table
from meta_eval.reports.text import MINUS

# Shares: how far the axis reaches at least on either side of 0, and what stays free at its ends.
_NARROWEST = 0.03
_FREE = 0.005
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_TICKS = 9


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the grid, and its label in points or percent."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Mark:
    """One line of the plot.

    Attributes:
        name: The task; of the mean over tasks what it is.
        outcome: What is said of it.
        task: The task; None for the mean.
        score: On an axis of scores the score.
        x, low, high: Where point and interval stand; None where there is nothing to show.
        margin: Where the band ends that begins at 0; None where there is no margin.
        line: On an axis of drops the row of the table of drops.
    """

    name: str
    outcome: str
    task: Task | None
    score: Score | None = None
    x: float | None = None
    low: float | None = None
    high: float | None = None
    margin: float | None = None
    line: Row[DropRow] | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.line.remarks if self.line else ()


@dataclass(frozen=True, slots=True)
class Plot:
    """Rows, the axis that they share, and where 0 stands on it; None on an axis of scores."""

    rows: tuple[Mark, ...]
    ticks: tuple[Tick, ...]
    zero: float | None


def plot(report: Report) -> Plot:
    """One row a task, and the mean over several; of a report in which nothing is compared one a score."""
    compared = any(task.decision for task in report.tasks)
    marks = _drops(report) if compared else [mark for task in report.tasks for mark in _scores(task)]
    values = [value for mark in marks for value in (mark.low, mark.high, mark.x, mark.margin) if value is not None]
    low, high, step = _axis(values, compared)

    def at(value: float | None) -> float | None:
        return None if value is None else round(100 * (value - low) / (high - low), 2)

    rows = [replace(mark, x=at(mark.x), low=at(mark.low), high=at(mark.high), margin=at(mark.margin)) for mark in marks]
    ticks = [
        Tick(at(number * step) or 0.0, _label(number * step))
        for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    ]
    return Plot(tuple(rows), tuple(ticks), at(0.0) if compared else None)


def _drops(report: Report) -> list[Mark]:
    """Where points and intervals lie, as shares: a mark for each row of the table that has an outcome."""
    tasks = {task.name: task for task in report.tasks}
    return [_mark(row, tasks, report) for row in drop_table(report).rows if row.outcome]


def _mark(row: Row[DropRow], tasks: Mapping[str, Task], report: Report) -> Mark:
    one = row.subject
    task = None if row.whole else tasks[row.name]
    if one.drop is None or one.interval is None:
        return Mark(row.name, row.outcome, task, line=row)
    margin = one.one.margin if one.one else report.decision.margin
    ends = one.interval.lower, one.interval.upper
    return Mark(row.name, row.outcome, task, None, one.drop.value, *ends, margin, row)


def _scores(task: Task) -> list[Mark]:
    marks = []
    for score in task.scores:
        bounds = score.interval
        ends = (bounds.lower, bounds.upper) if bounds else (None, None)
        marks.append(Mark(task.name, task.outcome, task, score, score.value, *ends))
    return marks or [Mark(task.name, task.outcome, task)]


def _axis(values: Sequence[float], compared: bool) -> tuple[float, float, float]:
    """Bounds on round numbers that hold all values (of scores: the whole range), and the step between two ticks."""
    if not compared:
        return 0.0, 1.0, 0.2
    low = min([value - _FREE for value in values] + [-_NARROWEST])
    high = max([value + _FREE for value in values] + [_NARROWEST])
    step = next((step for step in _STEPS if (high - low) / step <= _TICKS), _STEPS[-1])
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, step


def _label(value: float) -> str:
    return str(round(100 * value)).replace("-", MINUS)
