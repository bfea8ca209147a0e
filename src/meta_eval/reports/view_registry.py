"""Every view, by the name that ``--view`` asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from meta_eval.base.errors import ConfigError
from meta_eval.base.extensions import find_extensions, load_extension
from meta_eval.reports.shipped_views import EvalResultsView, HtmlView, JsonView, MarkdownView, TextView
from meta_eval.reports.view import View

ENTRY_POINTS = "meta_eval.views"

_SHIPPED: dict[str, type[View]] = {
    "eval-results": EvalResultsView,
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
    others = find_extensions(ENTRY_POINTS)
    if name not in _SHIPPED and name not in others:
        views = ", ".join(sorted({*_SHIPPED, *others}))
        raise ConfigError(f"unknown view {name}", where="--view", hint=f"Views: {views}")
    view: View = (
        _SHIPPED[name]() if name in _SHIPPED else load_extension(others[name], View, document_types=(frozenset, set))
    )
    if view.document_types and document_type not in view.document_types:
        raise ConfigError(f"the view {name} shows only {', '.join(sorted(view.document_types))}", where="--view")
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
        chosen.append((Path(file), find_view(name, document_type)))
    return chosen
