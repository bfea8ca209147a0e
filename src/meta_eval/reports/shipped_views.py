"""The views that meta-eval ships, each over what its own modules make."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from meta_eval.reports import eval_results, html, markdown, terminal
from meta_eval.reports.document import Document
from meta_eval.reports.view import View

if TYPE_CHECKING:
    from rich.console import Console


class TextView(View):
    """Plain text of 80 columns, which is also what the terminal shows."""

    def render(self, document: Document) -> str:
        """See `View.render`."""
        from rich.console import Console

        out = io.StringIO()
        self.show(document, Console(file=out, width=80, color_system=None))
        return out.getvalue()

    def show(self, document: Document, console: Console) -> None:
        """Print it, in colours where the terminal has them."""
        terminal.show_document(document, console)


class MarkdownView(View):
    """Markdown for a model card."""

    def render(self, document: Document) -> str:
        """See `View.render`."""
        return markdown.render(document)


class HtmlView(View):
    """One self-contained page, with every sample or with some answers token by token."""

    def render(self, document: Document) -> Iterable[str]:
        """See `View.render`."""
        return html.render(document)


class JsonView(View):
    """A JSON object on a single line, in ASCII."""

    def render(self, document: Document) -> str:
        """See `View.render`."""
        return json.dumps(document.to_json(), ensure_ascii=True, allow_nan=False) + "\n"


class EvalResultsView(View):
    """The hub's ``.eval_results/*.yaml``."""

    document_types: ClassVar[frozenset[str]] = frozenset(("report",))

    def render(self, document: Document) -> str:
        """See `View.render`."""
        return eval_results.render(document)
