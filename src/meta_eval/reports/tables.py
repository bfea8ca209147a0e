"""Tables that every view shows: a column is described once, with its figure and how people read it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from meta_eval.reports.text import NONE
from meta_eval.stats import Interval

S = TypeVar("S")

# A figure as data: shares and drops from -1 to 1, nats, counts, words; None where there is none.
CellValue = float | int | str | Interval | None


@dataclass(frozen=True, slots=True)
class Column(Generic[S]):
    """One column, for rows about an ``S``.

    Attributes:
        key: Its name for machines.
        heading: Its name for people.
        value: The figure of a row.
        write: The figure as people read it.
        legend: What the figure is, in full; empty where the heading says it.
        detail: Small print under the figure; None for none.
        detailed: The views that show the detail; empty for all.
        headings: By view another heading, to save room (a terminal has 80 columns, and a heading may hold line breaks);
            the empty text where a view leaves the column out.
        samples: The filter that shows the docs of the figure in a table of samples; empty for none.
        strong: Whether this is the figure to look at first.
        words: Whether the figures are words, which stand on the left.
        beside: Whether the detail stands beside the figure on a terminal, and not below.
        spare: Whether a terminal that is too narrow for the table leaves this column out first.
    """

    key: str
    heading: str
    value: Callable[[S], CellValue]
    write: Callable[[Any], str]
    legend: str = ""
    detail: Callable[[S], str | None] | None = None
    detailed: tuple[str, ...] = ()
    headings: Mapping[str, str] = field(default_factory=dict)
    samples: str = ""
    strong: bool = False
    words: bool = False
    beside: bool = False
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure, as plain data and as text, with its small print.

    Attributes:
        value: A number or a word. None where there is none, and in the column of an interval.
        text: The figure as people read it.
        detail: Small print.
        lower, upper: Bounds of an interval; None in other columns.
    """

    value: float | str | None
    text: str
    detail: str = ""
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, slots=True)
class Row(Generic[S]):
    """One row.

    Attributes:
        name: What it is about, such as a task.
        subject: What the columns take their figures from.
        outcome: The verdict; empty for none.
        part: What of the name it is about, such as the way to average; empty for all.
        remarks: What else to know of it, such as ``3 runs``.
        whole: Whether it sums up the others.
        samples: Whether a table of samples finds its docs by the name.
    """

    name: str
    subject: S
    outcome: str = ""
    part: str = ""
    remarks: tuple[str, ...] = ()
    whole: bool = False
    samples: bool = False


@dataclass(frozen=True, slots=True)
class Table(Generic[S]):
    """A table.

    Attributes:
        key: Its name for machines.
        title: Its name for people.
        columns: The columns after the name of the row and its outcome, if it has any.
        rows: In their order.
        legend: The meaning of its figures, in a sentence or two.
        notes: Remarks on single rows: the name of the row, and a clause.
        first: The heading over the names of rows.
        views: The views that show it; empty for all. ``json`` stands for JSON and the views of other packages.
        folded: The views that fold it.
    """

    key: str
    title: str
    columns: tuple[Column[S], ...]
    rows: tuple[Row[S], ...]
    legend: str = ""
    notes: tuple[tuple[str, str], ...] = ()
    first: str = "task"
    views: tuple[str, ...] = ()
    folded: tuple[str, ...] = ()

    kind: ClassVar[str] = "table"

    @property
    def has_content(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.rows)

    @property
    def has_outcomes(self) -> bool:
        return any(row.outcome for row in self.rows)

    def columns_in(self, view: str) -> list[tuple[str, Column[S]]]:
        """The columns that a view has room for, each with its heading there."""
        headed = ((column.headings.get(view, column.heading), column) for column in self.columns)
        return [(heading, column) for heading, column in headed if heading]

    def cell(self, row: Row[S], column: Column[S], view: str = "") -> Cell:
        """A figure. A missing figure is a dash, or empty if the row sums up others."""
        value = column.value(row.subject)
        text = ("" if row.whole else NONE) if value is None else column.write(value)
        detail = column.detail if not column.detailed or view in column.detailed else None
        small = (detail(row.subject) if detail else None) or ""
        if isinstance(value, Interval):
            return Cell(None, text, small, value.lower, value.upper)
        return Cell(value, text, small)

    def to_json(self) -> dict[str, Any]:
        """The table as plain JSON data, by the columns' keys."""
        return {
            "key": self.key,
            "title": self.title,
            "columns": [
                {"key": column.key, "heading": column.heading, "legend": column.legend} for column in self.columns
            ],
            "rows": [self._row(row) for row in self.rows],
        }

    def _row(self, row: Row[S]) -> dict[str, Any]:
        cells = {column.key: _plain(column.value(row.subject)) for column in self.columns}
        return {"name": row.name, "part": row.part, "outcome": row.outcome, "whole": row.whole, "cells": cells}


def _plain(value: CellValue) -> Any:
    return dataclasses.asdict(value) if isinstance(value, Interval) else value
