"""``meta-eval load``: whether a server loses answers when it is full."""

from __future__ import annotations

from pathlib import Path

import typer

from meta_eval.base.sigterm import interrupt_on_sigterm
from meta_eval.cli import options
from meta_eval.cli.steps import Log
from meta_eval.plugins.load.options import LoadOptions
from meta_eval.sockets import err, show_result, write_document


@options.spread_options()
def load(
    config: Path = options.CONFIG_OF_PACK,
    *,
    chosen: LoadOptions,
    html: Path | None = typer.Option(None, "--html", metavar="FILE", help="Write an HTML page."),
    markdown: Path | None = typer.Option(None, "--markdown", metavar="FILE", help="Write Markdown."),
    view: list[str] = options.VIEWS,
    as_json: bool = options.AS_JSON,
) -> None:
    """Check whether a server loses answers when it is full: ask docs alone, under load, and alone again.

    Answers are asked greedily and compared doc by doc: verdicts, texts, and whether a text can be the model's own. Half
    of the requests in flight are made up, to fill the server. If the command stops, rerun it to resume.

    Exit codes: 0 same or no fault seen, 1 worse, 2 an error that you can fix, 3 undecided.

    Example: meta-eval load work_dir --concurrency 16,64 --set base_url=http://localhost:8000/v1
    """
    from meta_eval.ask.pipeline import Interrupted
    from meta_eval.plugins.load import api
    from meta_eval.reports.views import check_views, choose_views

    views = choose_views("load", view, {"html": html, "markdown": markdown})
    places = (chosen.pack, config)
    check_views(views, (Path(place) for place in places if place is not None))
    try:
        with Log("asking"), interrupt_on_sigterm():
            report = api.load(config, options=chosen)
    except Interrupted as end:
        err.print(f"{end.kept:,} of {end.total:,} answers are saved. Rerun the same command to resume", soft_wrap=True)
        raise
    document = report.document()
    write_document(document, views)
    show_result(document, as_json=as_json)
    raise typer.Exit(report.exit_code)
