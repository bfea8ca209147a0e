"""What a command found, as sections of tables, lists and figures: all that a view reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from meta_eval.judge.decision import Alarm, TaskDecision
from meta_eval.reports.model import RunProvenance, ShownSample, VerdictOwner
from meta_eval.reports.tables import Table


@dataclass(frozen=True, slots=True)
class Item:
    """A sentence, and the tasks that it is about.

    Attributes:
        names: Of tasks, or of a fact.
        text: A clause or a value.
        outcome: The verdict that it explains; empty for none.
        only: The filter that shows its docs in a table of samples; empty for none.
    """

    names: tuple[str, ...]
    text: str
    outcome: str = ""
    only: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of sentences.

    Attributes:
        items: In their order.
        title: What they are; empty where they need no title.
        views: The views that show it; empty for all.
        folded: The views that fold it.
        facts: Whether the items are names with values.
    """

    items: tuple[Item, ...]
    title: str = ""
    views: tuple[str, ...] = ()
    folded: tuple[str, ...] = ()
    facts: bool = False

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
    """The verdict in parts, for views that lay it out.

    Attributes:
        title: The outcome, or what stands in its place.
        caveats: What must be known first.
        facts: The numbers, the first of them the largest.
        reasons: Clauses.
        advice: What would settle it, a sentence; empty for nothing.
    """

    title: str
    caveats: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    reasons: tuple[str, ...] = ()
    advice: str = ""


class DocumentSource(Protocol):
    """What a document is made of: a report."""

    def document(self) -> Document:
        """The document that views show."""

    def to_json(self) -> dict[str, Any]:
        """The whole as plain JSON data."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a command found, for every view.

    Attributes:
        document_type: ``report``, ``compare``, ``candidates`` or ``texts``; of a plug-in often the name of its verb.
        title: The model, or several.
        outcome: The decision or verdict; None if there is none.
        summary: The result in one line.
        verdict: The same in parts.
        sections: Tables, lists and figures, in their order.
        runs: Where the numbers come from.
        alarms: What went wrong, by kind.
        notes: What the reader must know of the files that were read.
        exit_code: What the command ends with.
        source: All that was found, for views that show more.
        samples: Reads the docs with their texts again at each call.
        heading: What it is, in the first line of Markdown.
        style: CSS of its figures, for pages: ``PACKAGE:FILE``; empty for none.
        script: Whether pages need the script of the shipped figures.
        sides: Whose the two verdicts on each doc are, where two runs are compared.
        tasks: What is decided of each task, for views that show more.
    """

    document_type: str
    title: str
    outcome: str | None
    summary: str
    verdict: Verdict
    sections: tuple[Section, ...]
    runs: tuple[RunProvenance, ...]
    alarms: tuple[Alarm, ...]
    notes: tuple[str, ...]
    exit_code: int
    source: DocumentSource
    samples: Callable[[], Iterable[ShownSample]] = tuple
    heading: str = "Evaluation"
    style: str = ""
    script: bool = False
    sides: tuple[VerdictOwner, ...] = ()
    tasks: tuple[TaskDecision, ...] = ()

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
        return {**self.source.to_json(), "tables": [table.to_json() for table in self.tables]}
