"""The socket for views: a document holds what a command found, a view makes a file of it.

A package adds a view of its own by an entry point of the group ``meta_eval.views``, under the name that ``--view
NAME=FILE`` asks for; ``examples/junit_view.py`` is a small one.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from meta_eval.boundary.outputs import replace_file
from meta_eval.judging.judgement import Alarm
from meta_eval.reports.fidelity import FidelityReport
from meta_eval.reports.fidelity_tables import fidelity_tables
from meta_eval.reports.model import Report, Sample
from meta_eval.reports.tables import Table
from meta_eval.reports.task_tables import tables_of


@dataclass(frozen=True, slots=True)
class Document:
    """What a command found, for every view.

    Attributes:
        kind: ``report``, ``compare`` or ``fidelity``.
        title: The model, or both.
        outcome: The decision or verdict; None without one.
        summary: The whole in one line.
        tables: Those that have a row, in their order.
        alarms: What went wrong, by kind.
        notes: What the reader must know of the files that were read.
        exit_code: What the command ends with.
        source: All that was found, for views that show more than tables.
        samples: Reads the docs with their texts anew each time it is called.
    """

    kind: str
    title: str
    outcome: str | None
    summary: str
    tables: tuple[Table[Any], ...]
    alarms: tuple[Alarm, ...]
    notes: tuple[str, ...]
    exit_code: int
    source: Report | FidelityReport
    samples: Callable[[], Iterable[Sample]] = tuple

    def to_json(self) -> dict[str, Any]:
        """The whole as plain JSON data; scores, drops and bounds are from 0 to 1."""
        return {**self.source.to_json(), "tables": [one.to_json() for one in self.tables]}


class View(ABC):
    """A way to show a document.

    Attributes:
        kinds: The documents that it shows.
    """

    kinds: ClassVar[frozenset[str]] = frozenset(("report", "compare", "fidelity"))

    @abstractmethod
    def render(self, document: Document) -> str | bytes | Iterable[str]:
        """The file's content; pieces of a text where it may be too large for memory."""


def document_of(source: Report | FidelityReport, samples: Callable[[], Iterable[Sample]] = tuple) -> Document:
    """The document of a report, a comparison or a fidelity report."""
    if isinstance(source, FidelityReport):
        title = source.title
        tables, notes = fidelity_tables(source), source.notes
        return Document(
            "fidelity", title, source.outcome, source.summary, tables, (), notes, source.exit_code, source
        )  # fmt: skip
    return Document(
        source.kind, source.title, source.decision.outcome, source.summary, tables_of(source), source.alarms,
        source.notes, source.exit_code, source, samples,
    )  # fmt: skip


def write_view(path: Path, view: View, document: Document) -> None:
    """Write a view of a document, whole or not at all.

    Raises:
        OutputError: The file cannot be written.
    """
    content = view.render(document)
    with replace_file(path) as out:
        if isinstance(content, bytes):
            assert isinstance(out, io.TextIOWrapper)  # noqa: S101 (what `replace_file` opens)
            out.buffer.write(content)
        else:
            out.writelines([content] if isinstance(content, str) else content)
