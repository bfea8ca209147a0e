"""``meta-eval audit``: judge by its answers whether an endpoint serves the model of a trusted copy."""

from __future__ import annotations

from pathlib import Path

import typer

from meta_eval.base.sigterm import interrupt_on_sigterm
from meta_eval.cli import options
from meta_eval.cli.steps import Log
from meta_eval.plugins.tokens.options import AuditOptions
from meta_eval.sockets import err, show_result, write_document


@options.spread_options()
def audit(
    answers: list[Path] = typer.Argument(
        None, metavar="[ANSWERS…]", help="Files of the endpoint's answers. Default: the recorded answers of the pack."
    ),
    config: Path = options.CONFIG_OF_PACK,
    *,
    chosen: AuditOptions,
    html: Path | None = typer.Option(None, "--html", metavar="FILE", help="Write an HTML page."),
    markdown: Path | None = typer.Option(None, "--markdown", metavar="FILE", help="Write Markdown for a model card."),
    view: list[str] = options.VIEWS,
    as_json: bool = options.AS_JSON,
) -> None:
    """Check by its answers alone whether an endpoint serves the model that it names.

    The answers are scored by a trusted copy: the model of the configuration, on an engine that gives log-probabilities.
    Nothing is generated. The endpoint need not give log-probabilities. Name the copy and its engine with --set. If
    the command stops, rerun it to resume.

    Example: meta-eval audit answers.jsonl --pack work_dir --set backend=vllm --set model_name=my/model
    """
    from meta_eval.ask.pipeline import Interrupted
    from meta_eval.plugins.tokens import api
    from meta_eval.reports.views import check_views, choose_views

    views = choose_views("audit", view, {"html": html, "markdown": markdown})
    places = (chosen.pack, chosen.noise)
    check_views(views, (*(answers or ()), *(None if place is None else Path(place) for place in places)))
    try:
        with Log("asking"), interrupt_on_sigterm():
            report = api.audit(answers or (), config, options=chosen)
    except Interrupted as end:
        err.print(f"{end.kept:,} of {end.total:,} answers are saved. Rerun the same command to resume", soft_wrap=True)
        raise
    err.print(f"wrote {report.table}", soft_wrap=True)
    document = report.document()
    write_document(document, views)
    show_result(document, as_json=as_json)
    raise typer.Exit(report.exit_code)
