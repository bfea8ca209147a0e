"""The socket for views, the shipped ones, and every view by the name that ``--view`` asks for.

A document holds what a command found; a view makes a file of it. A package adds a view of its own by an entry point of
the group ``meta_eval.views``, under the name that ``--view NAME=FILE`` asks for; ``examples/tracker_view.py`` is
small.
"""

from __future__ import annotations

import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from meta_eval.base.errors import ConfigError
from meta_eval.base.extensions import find_extensions, load_extension
from meta_eval.base.inputs import check_path
from meta_eval.base.outputs import OutputError, check_outputs, check_own, replace_file
from meta_eval.base.secrets import hide_secrets
from meta_eval.base.thresholds import SAME_VERDICT
from meta_eval.base.version import __version__
from meta_eval.reports import eval_results, html, markdown, terminal
from meta_eval.reports.document import Document as Document  # noqa: PLC0414 (for views of other packages)

if TYPE_CHECKING:
    from rich.console import Console


class View(ABC):
    """A way to show a document."""

    document_types: ClassVar[frozenset[str]] = frozenset()
    """The documents that it shows; empty for all."""

    mark: ClassVar[re.Pattern[str] | None] = None
    """What is found in the first and last 4,096 bytes of each file of this view. An existing file without it is not
    replaced; where there is none, no existing file is."""

    @abstractmethod
    def render(self, document: Document) -> str | bytes | Iterable[str]:
        """The file's content; pieces of a text where it may be too large for memory."""


def check_views(views: Iterable[tuple[Path, View]], inputs: Iterable[Path | None]) -> None:
    """Refuse, before any work, a file of a view that `check_outputs` refuses, or that this view did not write.

    Raises:
        OutputError: A file must not be written.
    """
    chosen = list(views)
    check_outputs((path for path, _ in chosen), inputs)
    for path, view in chosen:
        check_own(path, view.mark)


def write_view(path: Path, view: View, document: Document) -> None:
    """Write a view of a document, whole or not at all.

    Raises:
        OutputError: The file cannot be written, or must not be replaced.
    """
    check_views([(path, view)], ())  # again: the command may have written a table there
    content = view.render(document)
    with replace_file(path) as out:
        if isinstance(content, bytes):
            assert isinstance(out, io.TextIOWrapper)  # noqa: S101 (what `replace_file` opens)
            out.buffer.write(content)
        else:
            out.writelines(_check_texts(view, content))


def _check_texts(view: View, content: Any) -> Iterator[str]:
    """The pieces of a text that a view made.

    Raises:
        OutputError: They are no texts that a file can hold.
    """
    where = f"view {type(view).__module__}.{type(view).__qualname__}"
    if not isinstance(content, Iterable):
        raise OutputError(f"render gave {type(content).__name__} and no text", where=where)
    for piece in [content] if isinstance(content, str) else content:
        if not isinstance(piece, str):
            raise OutputError(f"render gave {type(piece).__name__} in a text", where=where)
        try:
            piece.encode()
        except UnicodeEncodeError as error:
            raise OutputError(
                f"render gave a text with {piece[error.start]!r}, which no file can hold", where=where
            ) from None
        yield piece


class TextView(View):
    """Plain text of 80 columns, which is also what the terminal shows."""

    mark = re.compile(r"\nMade by meta-eval \S+\.\n\Z")

    def render(self, document: Document) -> str:
        """See `View.render`."""
        from rich.console import Console

        out = io.StringIO()
        self.show(document, Console(file=out, width=80, color_system=None))
        return f"{out.getvalue()}\nMade by meta-eval {__version__}.\n"

    def show(self, document: Document, console: Console) -> None:
        """Print it, in colours where the terminal has them."""
        terminal.show_document(document, console)


class MarkdownView(View):
    """Markdown for a model card."""

    mark = re.compile(r"\A## .*\n<sub>Made by meta-eval \S+\.</sub>\n\Z", re.DOTALL)

    def render(self, document: Document) -> str:
        """See `View.render`."""
        return markdown.render(document)


class HtmlView(View):
    """One self-contained page, with every sample or with some answers token by token."""

    mark = re.compile(r'\A<!doctype html>.*\n<meta name="generator" content="meta-eval ', re.DOTALL)

    def render(self, document: Document) -> Iterable[str]:
        """See `View.render`."""
        return html.render(document)


class JsonView(View):
    """A JSON object on a single line, in ASCII."""

    mark = re.compile(r'\A\{"schema_version": \d+, "document_type": "')

    def render(self, document: Document) -> str:
        """See `View.render`."""
        return json.dumps(document.to_json(), ensure_ascii=True, allow_nan=False) + "\n"


class FlipsView(View):
    """JSON lines: a line for each doc that only one of two runs answers right, or answers better."""

    document_types: ClassVar[frozenset[str]] = frozenset(("compare",))
    mark = re.compile(r'\A\{"task": "[^\n]*", "doc_id": [^\n]*, "doc_hash": [^\n]*, "right": "[AB]", "extracted": ')

    def render(self, document: Document) -> Iterable[str]:
        """See `View.render`."""
        for sample in document.samples():
            a, b = sample.answers
            if abs(a.verdict - b.verdict) > SAME_VERDICT:
                flip = {
                    "task": sample.task, "doc_id": sample.doc, "doc_hash": sample.question_hash,
                    "right": "A" if a.verdict > b.verdict else "B", "extracted": {"A": a.extracted, "B": b.extracted},
                }  # fmt: skip
                yield json.dumps(hide_secrets(flip, named=False), ensure_ascii=True) + "\n"


class EvalResultsView(View):
    """The hub's ``.eval_results/*.yaml``."""

    document_types: ClassVar[frozenset[str]] = frozenset(("report",))
    mark = re.compile(rf"\A{re.escape(eval_results.FIRST_LINE)}\n")

    def render(self, document: Document) -> str:
        """See `View.render`."""
        return eval_results.render(document)


VIEWS_GROUP = "meta_eval.views"

_SHIPPED: dict[str, type[View]] = {
    "eval-results": EvalResultsView,
    "flips": FlipsView,
    "html": HtmlView,
    "json": JsonView,
    "markdown": MarkdownView,
    "text": TextView,
}


def find_view(name: str, document_type: str) -> View:
    """The view of a name; those that are shipped go first.

    Args:
        name: As ``--view`` has it.
        document_type: The type of the document that it is to show.

    Raises:
        ConfigError: There is none of this name, or it does not show such a document.
    """
    others = find_extensions(VIEWS_GROUP, _SHIPPED)
    if name not in _SHIPPED and name not in others:
        views = ", ".join(sorted({*_SHIPPED, *others}))
        raise ConfigError(f"unknown view {name}", where="--view", hint=f"Views: {views}")
    view: View = (
        _SHIPPED[name]()
        if name in _SHIPPED
        else load_extension(others[name], View, document_types=(frozenset, set), mark=(re.Pattern, type(None)))
    )
    if view.document_types and document_type not in view.document_types:
        what = f"the view {name} shows only {', '.join(sorted(view.document_types))}, not {document_type}"
        hint = "Compare one candidate at a time" if document_type == "candidates" else None
        raise ConfigError(what, where="--view", hint=hint)
    return view


def choose_views(
    document_type: str, names: Iterable[str], outputs: Mapping[str, Path | None]
) -> list[tuple[Path, View]]:
    """The files to write, each with its view.

    Args:
        document_type: The type of the document.
        names: ``NAME=FILE`` of each ``--view``.
        outputs: The files of the views that have an option of their own.

    Raises:
        ConfigError: An option is not ``NAME=FILE``, or there is no such view of this type.
    """
    chosen = [(path, find_view(name, document_type)) for name, path in outputs.items() if path is not None]
    for text in names:
        name, equals, file = text.partition("=")
        if not (name and equals and file):
            raise ConfigError(f"{text} is not NAME=FILE", where="--view", hint="Such as: --view markdown=report.md")
        check_path(file, where="--view")
        chosen.append((Path(file), find_view(name, document_type)))
    return chosen
