"""Where things stand in the plot: each row of a table with the interval that decides, beside 0 and the margin.

A point would vanish on an axis from 0 to 100, so the axis is in points of drop, worse to the right; from 0 to its
margin a task may lie and hold. Where nothing was compared, the axis is that of the scores. Positions are in
percent of the width, so the plot fits any page.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from meta_eval.base.thresholds import LEVEL_TEXT
from meta_eval.reports.document import Row, Table
from meta_eval.reports.text import MINUS

if TYPE_CHECKING:
    from meta_eval.judge.decision import Score
    from meta_eval.reports.report_data import ReportData
    from meta_eval.reports.task_tables import DropRow

# Shares: how far the axis reaches at least on either side of 0, and what stays free at its ends.
_NARROWEST = 0.03
_FREE = 0.005
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_TICKS = 9


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the grid, and its label."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Mark:
    """One line of the plot."""

    row: Row[Any]
    """The row of the table."""

    x: float | None = None
    low: float | None = None
    high: float | None = None
    """Where point and interval stand; None where there is nothing to show."""

    margin: float | None = None
    """Where the band ends that begins at 0; None where there is no margin."""


@dataclass(frozen=True, slots=True)
class Plot:
    """Marks and the axis that they share."""

    table: Table[Any]
    """The table of the rows. Its columns stand beside the marks."""

    marks: tuple[Mark, ...]
    """One a row."""

    ticks: tuple[Tick, ...]
    """Of the axis."""

    zero: float | None
    """Where 0 stands; None on an axis of scores."""

    axis: str
    """What the axis is."""

    interval: str
    """What the interval is."""

    hint: str = ""
    """How to read it."""

    nothing: str = ""
    """What stands where there is no mark."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """How many tasks have each outcome, to filter by; empty for no filter."""

    band: str = "allowed: 0 to the margin"
    """What the band from 0 on is."""


def make_plot(report: ReportData, drops: Table[DropRow], scores: Table[Score]) -> Plot:
    """A mark per task, and the mean over several tasks. If nothing is compared, a mark per score."""
    counts: Counter[str] = Counter(task.outcome for task in report.tasks)
    if drops.rows:
        marks = [_drop_mark(row, report.decision.margin) for row in drops.rows]
        return plot_drops(drops, marks, "Within margin: the interval ends in the band or left of it.", counts)
    table = _alone(report, scores)
    marks = [_score_mark(row) for row in table.rows]
    shown = _placed(marks, 0.0, 1.0, 0.2, zero=False)
    return Plot(table, *shown, "percent", f"{LEVEL_TEXT} interval", nothing="no score", counts=counts)


def plot_drops(table: Table[Any], marks: Sequence[Mark], hint: str, counts: Mapping[str, int] | None = None) -> Plot:
    """Drops beside 0 and their margins, as marks in shares.

    Args:
        table: The table of the rows.
        marks: One a row.
        hint: How to read it.
        counts: See `Plot`.
    """
    axis = _axis([place for mark in marks for place in _places(mark)])
    return Plot(
        table, *_placed(marks, *axis, zero=True), "points of drop, worse to the right", f"{LEVEL_TEXT} interval", hint,
        "nothing to compare with", counts or {},
    )  # fmt: skip


def _drop_mark(row: Row[DropRow], margin: float) -> Mark:
    subject = row.subject
    if subject.drop is None or subject.interval is None:
        return Mark(row)
    bounds = subject.interval
    return Mark(row, subject.drop.value, bounds.lower, bounds.upper, subject.task.margin if subject.task else margin)


def _score_mark(row: Row[Score | None]) -> Mark:
    score = row.subject
    bounds = score.interval if score else None
    return Mark(row, score.value if score else None, bounds.lower if bounds else None, bounds.upper if bounds else None)


def _alone(report: ReportData, scores: Table[Any]) -> Table[Any]:
    """The scores alone, with a row for each task that has none, and their outcomes."""
    columns = tuple(replace(column, value=_if_any(column.value)) for column in scores.columns[:3])
    rows: list[Row[Any]] = []
    for task in report.tasks:
        task_rows = [row for row in scores.rows if row.name == task.name]
        rows += [replace(row, outcome=task.outcome) for row in task_rows] or [Row(task.name, None, task.outcome)]
    return replace(scores, columns=columns, rows=tuple(rows))


def _if_any(figure: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda subject: None if subject is None else figure(subject)


def _places(mark: Mark) -> Iterable[float]:
    return (place for place in (mark.low, mark.high, mark.x, mark.margin) if place is not None)


def _placed(
    marks: Iterable[Mark], low: float, high: float, step: float, *, zero: bool
) -> tuple[tuple[Mark, ...], tuple[Tick, ...], float | None]:
    """Marks and ticks in percent of the width, and where 0 is."""

    def at(value: float | None) -> float | None:
        return None if value is None else round(100 * (value - low) / (high - low), 2)

    placed = (
        replace(mark, x=at(mark.x), low=at(mark.low), high=at(mark.high), margin=at(mark.margin)) for mark in marks
    )
    ticks = (
        Tick(at(number * step) or 0.0, _label(number * step))
        for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    )
    return tuple(placed), tuple(ticks), at(0.0) if zero else None


def _axis(values: Sequence[float]) -> tuple[float, float, float]:
    """Bounds on round numbers that hold all drops, and the step between two ticks."""
    low = min([value - _FREE for value in values] + [-_NARROWEST])
    high = max([value + _FREE for value in values] + [_NARROWEST])
    step = next((step for step in _STEPS if (high - low) / step <= _TICKS), _STEPS[-1])
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, step


def _label(value: float) -> str:
    return str(round(100 * value)).replace("-", MINUS)
