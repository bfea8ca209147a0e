"""``meta-eval report`` and ``meta-eval compare``: does a run hold, beside recorded answers or another run?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from meta_eval.boundary.outputs import check_outputs
from meta_eval.cli import options
from meta_eval.cli.console import err, print_result, result_console, show_progress
from meta_eval.judging.options import JudgingOptions
from meta_eval.messages.errors import ConfigError
from meta_eval.messages.logs import report_progress
from meta_eval.thresholds import CAP, MARGIN

if TYPE_CHECKING:
    from meta_eval.reports.model import Report, Sample
    from meta_eval.reports.view import View

_HTML = typer.Option(None, "--html", metavar="FILE", help="Write one self-contained page with every sample.")
_MARKDOWN = typer.Option(None, "--markdown", metavar="FILE", help="Write Markdown for a model card.")
_MAX_DROP = typer.Option(None, "--max-drop", metavar="POINTS", help="A margin, and exit by the decision.")


def _clusters(given: list[str]) -> Mapping[str, str]:
    from meta_eval.results.clusters import read_fields

    return read_fields(given)


_FLAGS = {
    "margin": options.Flag(
        float | None,
        typer.Option(
            "--margin",
            metavar="POINTS",
            help=f"The largest drop that is allowed; else the pack's, which is {100 * MARGIN:g} by default.",
        ),
    ),
    "cap": options.Flag(
        float | None,
        typer.Option(
            "--cap",
            metavar="POINTS",
            help=f"What no task may lose at the worse end of its interval; {100 * CAP:g} by default.",
        ),
    ),
    "gate": options.Flag(
        Path | None,
        typer.Option("--gate", metavar="FILE", help="Exit by the decision, under the rules of a gate.yaml."),
    ),
    "tasks": options.Flag(
        list[str],
        typer.Option("--tasks", metavar="NAMES", help="Only these tasks, groups or patterns; -NAME: not this."),
        read=options.split_names,
        shown=list,
    ),
    "cluster": options.Flag(
        list[str],
        typer.Option(
            "--cluster",
            metavar="TASK=FIELD",
            help="Docs of TASK with the same FIELD are not independent; TASK may be a pattern such as 'mmlu_*'.",
        ),
        read=_clusters,
        shown=lambda _: [],
    ),
    "repeats": options.Flag(
        bool,
        typer.Option(
            "--repeats", help="Average all runs of a task that are of one model and pack, not only the newest."
        ),
    ),
    "skip_damaged": options.Flag(
        bool, typer.Option("--skip-damaged", help="Leave damaged files, lines and docs out, and say so.")
    ),
}


def _pack(text: str) -> options.Flag:
    return options.Flag(Path | None, typer.Option("--pack", metavar="WORK_DIR", help=text))


def _with_max_drop(chosen: JudgingOptions, max_drop: float | None) -> JudgingOptions:
    """The options with the gate that the exit code follows.

    Raises:
        ConfigError: A margin was named twice, or is none.
    """
    from meta_eval.judging.gate import Gate

    given = {"--margin": chosen.margin, "--gate": chosen.gate, "--max-drop": max_drop}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        said = f"{' and '.join(names)} are given together"
        raise ConfigError(said, hint="Give one of them; in a gate file the key is margin")
    if chosen.margin is not None:
        Gate().with_margin(chosen.margin, where="--margin")
    if chosen.cap is not None:
        Gate().with_cap(chosen.cap, where="--cap")
    return chosen if max_drop is None else chosen.updated(gate=Gate().with_margin(max_drop, where="--max-drop"))


@options.spread_options(**_FLAGS, pack=_pack("The pack that was run: it says what a run is compared with."))
def report(
    results: list[Path] = typer.Argument(..., metavar="RESULTS…", help="Folders or files that lm_eval wrote."),
    *,
    chosen: JudgingOptions,
    max_drop: float | None = _MAX_DROP,
    html: Path | None = _HTML,
    markdown: Path | None = _MARKDOWN,
    eval_results: Path | None = typer.Option(
        None, "--eval-results", metavar="FILE", help="Write the hub's .eval_results/*.yaml."
    ),
    view: list[str] = options.VIEWS,
    as_json: bool = options.SHARES_AS_JSON,
) -> None:
    """Does it hold? SHIP, DON'T SHIP or UNDECIDED: the drop from the recorded answers, with intervals, beside a margin.

    Exit codes: 0; with --gate or --max-drop 0 SHIP, 1 DON'T SHIP, 3 UNDECIDED; 2 something that you can fix.
    """
    from meta_eval import api
    from meta_eval.reports.view_registry import choose_views

    views = choose_views("report", view, {"html": html, "markdown": markdown, "eval-results": eval_results})
    check_outputs((path for path, _ in views), _read_from(results, chosen))
    chosen = _with_max_drop(chosen, max_drop)
    with show_progress("reading"):
        judged = api.report(results, options=chosen)
        report_progress("writing")
        write_views(judged, views, chosen.folder)
    _finish(judged, as_json=as_json)


@options.spread_options(**_FLAGS, pack=_pack("The pack of both."))
def compare(
    a: Path = typer.Argument(..., metavar="A", help="The baseline: what lm_eval wrote of it."),
    b: Path = typer.Argument(..., metavar="B", help="The run that is compared with it."),
    *,
    chosen: JudgingOptions,
    max_drop: float | None = _MAX_DROP,
    html: Path | None = _HTML,
    markdown: Path | None = _MARKDOWN,
    view: list[str] = options.VIEWS,
    as_json: bool = options.SHARES_AS_JSON,
) -> None:
    """Compare two runs doc by doc: what B loses of A with intervals, flips with both answers, recovery in percent.

    Exit codes: 0; with --gate or --max-drop 0 SHIP, 1 DON'T SHIP, 3 UNDECIDED; 2 something that you can fix.
    """
    from meta_eval import api
    from meta_eval.reports.view_registry import choose_views

    views = choose_views("compare", view, {"html": html, "markdown": markdown})
    check_outputs((path for path, _ in views), _read_from((a, b), chosen))
    chosen = _with_max_drop(chosen, max_drop)
    with show_progress("reading"):
        judged = api.compare(a, b, options=chosen)
        report_progress("writing")
        write_views(judged, views, chosen.folder)
    _finish(judged, as_json=as_json)


def _read_from(results: Iterable[Path], chosen: JudgingOptions) -> list[Path | None]:
    """What a report reads, so that none of it is written over."""
    from meta_eval.results.baseline import verify_folder

    pack, gate = chosen.folder, chosen.gate if isinstance(chosen.gate, Path) else None
    return [*results, pack, gate, None if pack is None else verify_folder(pack)]


def write_views(judged: Report, views: Iterable[tuple[Path, View]], pack: Path | None) -> None:
    """Write the files that were asked for, each whole or not at all.

    Raises:
        OutputError: One cannot be written.
    """
    from meta_eval.reports.samples import read_samples
    from meta_eval.reports.view import document_of, write_view

    def samples() -> Iterable[Sample]:
        from meta_eval.pack.manifest import read_manifest
        from meta_eval.pack.prompt_lengths import make_token_counter

        count_tokens = make_token_counter(read_manifest(pack).run.tokenizer_of()) if pack is not None else None
        return read_samples(judged.tasks, count_tokens=count_tokens)

    document = document_of(judged, samples)
    for path, view in views:
        write_view(path, view, document)


def _finish(judged: Report, *, as_json: bool) -> None:
    """Show the report to people, print it for machines, and end with its exit code."""
    from meta_eval.reports.shipped_views import JsonView, TextView
    from meta_eval.reports.view import document_of

    document = document_of(judged)
    console = err if as_json else result_console()
    TextView().show(document, console)
    if console is not err and not err.is_terminal:  # a log that is kept apart from the table has the decision too
        err.print(judged.summary, markup=False, highlight=False, soft_wrap=True)
    if as_json:
        print_result(JsonView().render(document).rstrip("\n"))
    raise typer.Exit(judged.exit_code)
