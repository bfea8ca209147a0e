"""``meta-eval equality``: whether two endpoints serve the same model."""

from __future__ import annotations

from pathlib import Path

import typer

from meta_eval.base.sigterm import interrupt_on_sigterm
from meta_eval.cli import options
from meta_eval.cli.steps import Log
from meta_eval.plugins.equality.options import EqualityOptions
from meta_eval.sockets import err, show_result, write_document


@options.spread_options()
def equality(
    config: Path = options.CONFIG_OF_PACK,
    *,
    chosen: EqualityOptions,
    html: Path | None = typer.Option(None, "--html", metavar="FILE", help="Write an HTML page."),
    markdown: Path | None = typer.Option(None, "--markdown", metavar="FILE", help="Write Markdown."),
    view: list[str] = options.VIEWS,
    as_json: bool = options.AS_JSON,
) -> None:
    """Test whether two endpoints serve the same model, without its weights: by sampled short answers alone.

    Both are asked the prompts of a pack at temperature 1, in one random order. It says before it asks how many requests
    and tokens that takes. Recorded answers are compared without asking. If the command stops, rerun it to resume.

    Exit codes: 0 same, 1 different, 2 an error that you can fix, 3 undecided.

    Example: meta-eval equality http://localhost:8000/v1 https://b.example.com/v1 --pack work_dir
    """
    from dataclasses import fields

    from meta_eval.ask.pipeline import Interrupted
    from meta_eval.plugins.equality import api
    from meta_eval.reports.views import check_views, choose_views

    views = choose_views("equality", view, {"html": html, "markdown": markdown})
    places = (chosen.pack, config)
    check_views(views, (Path(place) for place in places if place is not None))
    keywords = {field.name: getattr(chosen, field.name) for field in fields(chosen)}
    try:
        with Log("asking"), interrupt_on_sigterm():
            report = api.equality(config=config, **keywords)
    except Interrupted as end:
        err.print(f"{end.kept:,} of {end.total:,} answers are saved. Rerun the same command to resume", soft_wrap=True)
        raise
    document = report.document()
    write_document(document, views)
    show_result(document, as_json=as_json)
    raise typer.Exit(report.exit_code)
