"""``meta-eval board``: several endpoints over the same docs, side by side."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import typer

from meta_eval.boundary.outputs import check_outputs
from meta_eval.cli import options
from meta_eval.cli.console import make_result_console, print_result, show_progress, write_document
from meta_eval.messages.errors import ConfigError


def board(
    results: list[str] = typer.Argument(..., metavar="NAME=RESULTS…", help="The results folder of each endpoint."),
    pack: Path | None = typer.Option(None, "--pack", metavar="WORK_DIR", help="The pack of all runs."),
    audit: list[str] = typer.Option([], "--audit", metavar="NAME=FILE", help="What `audit --json` printed of one."),
    html: Path | None = typer.Option(None, "--html", metavar="FILE", help="Write an HTML page."),
    markdown: Path | None = typer.Option(None, "--markdown", metavar="FILE", help="Write Markdown."),
    view: list[str] = options.VIEWS,
    as_json: bool = options.SHARES_AS_JSON,
) -> None:
    """Show several endpoints of a model side by side: score, drop, audit, cut answers, tool calls, seconds and cost.

    Endpoints whose intervals overlap share places.

    Example: meta-eval board a=results_a b=results_b --pack work_dir --audit a=audit_a.json --html board.html
    """
    from meta_eval import api
    from meta_eval.reports.shipped_views import JsonView, TextView
    from meta_eval.reports.view import find_document
    from meta_eval.reports.view_registry import choose_views

    runs, audits = _read_pairs(results, "RESULTS"), _read_pairs(audit, "--audit")
    views = choose_views("board", view, {"html": html, "markdown": markdown})
    check_outputs((path for path, _ in views), (*runs.values(), *audits.values(), pack))
    with show_progress("reading"):
        made = api.board(runs, pack=pack, audits=audits)
    document = find_document(made)
    write_document(document, views)
    TextView().show(document, make_result_console(as_json=as_json))
    if as_json:
        print_result(JsonView().render(document).rstrip("\n"))


def _read_pairs(texts: Iterable[str], where: str) -> dict[str, Path]:
    pairs: dict[str, Path] = {}
    for text in texts:
        name, equals, place = text.partition("=")
        if not (name and equals and place):
            raise ConfigError(f"{text} is not NAME=PATH", where=where, hint="Such as: a=eval_results")
        if name in pairs:
            raise ConfigError(f"two have the name {name}", where=where, hint="Name each endpoint once")
        pairs[name] = Path(place)
    return pairs
