"""What a command found, as sections of tables, lists and figures: all that a view reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from meta_eval.base.plain_data import NOT_WRITTEN, make_plain, written
from meta_eval.base.secrets import hide_secrets
from meta_eval.judge.alarm_kinds import Alarm
from meta_eval.judge.decision import TaskDecision
from meta_eval.reports.text import NONE
from meta_eval.stats import Interval

S = TypeVar("S")

# Where a figure of the page shows a table, the page does not repeat it.
BUT_PAGES = ("json", "markdown", "terminal")

# A figure as data: shares and drops from -1 to 1, nats, counts, words; None where there is none.
CellValue = float | int | str | Interval | None


@dataclass(frozen=True, slots=True)
class Column(Generic[S]):
    """One column, for rows about an ``S``."""

    key: str
    """Its name for machines."""

    heading: str
    """Its name for people."""

    value: Callable[[S], CellValue]
    """The figure of a row."""

    write: Callable[[Any], str]
    """The figure as people read it."""

    legend: str = ""
    """What the figure is, in full; empty where the heading says it."""

    detail: Callable[[S], str | None] | None = None
    """Small print under the figure; None for none."""

    detailed: tuple[str, ...] = ()
    """The views that show the detail; empty for all."""

    headings: Mapping[str, str] = field(default_factory=dict)
    """By view another heading, to save room (a terminal has 80 columns, and a heading may hold line breaks); the empty
    text where a view leaves the column out.
    """

    samples: str = ""
    """The filter that shows the docs of the figure in a table of samples; empty for none."""

    strong: bool = False
    """Whether this is the figure to look at first."""

    words: bool = False
    """Whether the figures are words, which stand on the left."""

    beside: bool = False
    """Whether the detail stands beside the figure on a terminal, and not below."""

    spare: bool = False
    """Whether a terminal that is too narrow for the table leaves this column out first."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure, as plain data and as text, with its small print."""

    value: float | str | None
    """A number or a word. None where there is none, and in the column of an interval."""

    text: str
    """The figure as people read it."""

    detail: str = ""
    """Small print."""

    lower: float | None = None
    """The lower bound of an interval; None in other columns."""

    upper: float | None = None
    """The upper bound."""


@dataclass(frozen=True, slots=True)
class Row(Generic[S]):
    """One row."""

    name: str
    """What it is about, such as a task."""

    subject: S
    """What the columns take their figures from."""

    outcome: str = ""
    """The verdict; empty for none."""

    part: str = ""
    """What of the name it is about, such as the way to average; empty for all."""

    remarks: tuple[str, ...] = ()
    """What else to know of it, such as ``3 runs``."""

    whole: bool = False
    """Whether it sums up the others."""

    samples: bool = False
    """Whether a table of samples finds its docs by the name."""


@dataclass(frozen=True, slots=True)
class Table(Generic[S]):
    """A table."""

    key: str
    """Its name for machines."""

    title: str
    """Its name for people."""

    columns: tuple[Column[S], ...]
    """The columns after the name of the row and its outcome, if it has any."""

    rows: tuple[Row[S], ...]
    """In their order."""

    legend: str = ""
    """The meaning of its figures, in a sentence or two."""

    notes: tuple[tuple[str, str], ...] = ()
    """Remarks on single rows: the name of the row, and a clause."""

    first: str = "task"
    """The heading over the names of rows."""

    views: tuple[str, ...] = ()
    """The views that show it; empty for all. ``json`` stands for JSON and the views of other packages."""

    folded: tuple[str, ...] = ()
    """The views that fold it."""

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
        cells = {column.key: make_plain(column.value(row.subject)) for column in self.columns}
        return {"name": row.name, "part": row.part, "outcome": row.outcome, "whole": row.whole, "cells": cells}


@dataclass(frozen=True, slots=True)
class Item:
    """A sentence, and the tasks that it is about."""

    names: tuple[str, ...]
    """Of tasks, or of a fact."""

    text: str
    """A clause or a value."""

    outcome: str = ""
    """The verdict that it explains; empty for none."""

    only: str = ""
    """The filter that shows its docs in a table of samples; empty for none."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of sentences."""

    items: tuple[Item, ...]
    """In their order."""

    title: str = ""
    """What they are; empty where they need no title."""

    views: tuple[str, ...] = ()
    """The views that show it; empty for all."""

    folded: tuple[str, ...] = ()
    """The views that fold it."""

    facts: bool = False
    """Whether the items are names with values."""

    kind: ClassVar[str] = "listing"

    @property
    def has_content(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.items)


@dataclass(frozen=True, slots=True)
class Figure:
    """What pages alone can show: the template ``templates/figures/NAME.html.j2`` of a package, and its data."""

    name: str
    data: Any
    views: tuple[str, ...] = ("html",)
    package: str = "meta_eval.reports"

    kind: ClassVar[str] = "figure"

    @property
    def has_content(self) -> bool:
        """Whether there is anything to show."""
        return self.data is not None


Block = Table[Any] | Listing | Figure


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks under a title; ``label`` is its name in the page's navigation."""

    key: str
    title: str
    label: str
    blocks: tuple[Block, ...]

    def blocks_in(self, view: str) -> list[Block]:
        """The blocks that a view shows, without empty ones."""
        return [block for block in self.blocks if (not block.views or view in block.views) and block.has_content]


@dataclass(frozen=True, slots=True)
class Fact:
    """A number of the verdict: ``label`` and ``text``, with a unit and small print."""

    label: str
    text: str
    unit: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict in parts, for views that lay it out."""

    title: str
    """The outcome, or what stands in its place."""

    facts: tuple[Fact, ...] = ()
    """The numbers, the first of them the largest."""

    reasons: tuple[str, ...] = ()
    """Clauses."""

    advice: str = ""
    """What to do first, sentences; empty for nothing."""


@dataclass(frozen=True, slots=True)
class RunProvenance:
    """Where numbers come from: a label, the model, and names with values
    (``lm-eval``: ``0.4.13`` …) in the order to show them.

    ``folder`` is the place of its files as the command line named it. It tells A from B if both are of the same model.
    ``seconds`` is the median time from a request to its answer, and ``cost`` that of all answers in the unit of the
    given prices; None if unknown.
    """

    label: str
    model: str
    provenance: tuple[tuple[str, str], ...] = field(metadata=written(dict))
    folder: str | None = None
    seconds: float | None = field(default=None, metadata=NOT_WRITTEN)
    cost: float | None = field(default=None, metadata=NOT_WRITTEN)


@dataclass(frozen=True, slots=True)
class VerdictOwner:
    """The owner of a verdict: ``B``; in full ``B · results_fp8``; and a description."""

    label: str
    full_label: str
    title: str


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """The answer of a run to a doc."""

    verdict: float
    """From 0 to 1."""

    text: str
    """The generated text. For a choice the likelihoods, a line per continuation."""

    extracted: str | None
    """What was taken for the answer; None where the whole is graded or nothing was found."""

    flags: tuple[str, ...] = ()
    """``unextracted``, ``limit hit``, ``empty``, ``ungraded``, ``other prompt``: what is so."""

    tokens: int | None = None
    """Its length in tokens; None where nobody can count them, and of a choice."""

    limit: int | None = None
    """The tokens that it was allowed; None where nobody wrote that down."""

    likelihoods: bool = False
    """Whether the text is the likelihoods of a choice, and so has no length to speak of."""

    metrics: Mapping[str, Any] = field(default_factory=dict)
    """What each metric gave it, by ``METRIC,FILTER``."""


@dataclass(frozen=True, slots=True)
class ShownSample:
    """One doc with all its texts: what the table of samples shows."""

    task: str
    subtask: str | None
    doc: int
    question_hash: str
    question: str
    prompt: str
    gold: str
    answers: tuple[ShownAnswer, ...]
    """One, or A's and B's."""

    recorded_verdict: float | None = None
    """The verdict on Meta's recorded answer, 0 to 1; None where there is none."""

    recorded_text: str | None = None
    """Meta's recorded answer, of a choice the recorded likelihoods; None where there is none."""

    recorded_tokens: int | None = None
    """Its length in tokens; None where nobody can count them."""


class DocumentSource(Protocol):
    """What a document is made of: a report."""

    def to_json(self) -> dict[str, Any]:
        """The whole as plain JSON data: first ``schema_version``, a number, then ``document_type``. What begins
        otherwise is never replaced by a later one."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a command found, for every view."""

    document_type: str
    """``report``, ``compare``, ``candidates`` or ``texts``; of a plug-in often the name of its verb."""

    title: str
    """The model, or several."""

    outcome: str | None
    """The decision or verdict; None if there is none."""

    summary: str
    """The result in one line."""

    verdict: Verdict
    """The same in parts."""

    sections: tuple[Section, ...]
    """Tables, lists and figures, in their order."""

    runs: tuple[RunProvenance, ...]
    """Where the numbers come from."""

    alarms: tuple[Alarm, ...]
    """What went wrong, by kind."""

    notes: tuple[str, ...]
    """What the reader must know of the files that were read."""

    exit_code: int
    """What the command ends with."""

    source: DocumentSource
    """All that was found, for views that show more."""

    samples: Callable[[], Iterable[ShownSample]] = tuple
    """Reads the docs with their texts again at each call."""

    heading: str = "Evaluation"
    """What it is, in the first line of Markdown."""

    style: str = ""
    """CSS of its figures, for pages: ``PACKAGE:FILE``; empty for none."""

    script: bool = False
    """Whether pages need the script of the shipped figures."""

    sides: tuple[VerdictOwner, ...] = ()
    """Whose the two verdicts on each doc are, where two runs are compared."""

    tasks: tuple[TaskDecision, ...] = ()
    """What is decided of each task, for views that show more."""

    @property
    def tables(self) -> tuple[Table[Any], ...]:
        """The tables that have a row, in their order."""
        blocks = (block for section in self.sections for block in section.blocks_in("json"))
        return tuple(block for block in blocks if isinstance(block, Table))

    def sections_in(self, view: str) -> list[tuple[Section, list[Block]]]:
        """The sections that have something to show in a view, with their blocks there."""
        shown = ((section, section.blocks_in(view)) for section in self.sections)
        return [(section, blocks) for section, blocks in shown if blocks]

    def to_json(self) -> dict[str, Any]:
        """The whole as plain JSON data; scores, drops and bounds are from 0 to 1."""
        tree = {**self.source.to_json(), "tables": [table.to_json() for table in self.tables]}
        return {name: hide_secrets(value, named=False) for name, value in tree.items()}
