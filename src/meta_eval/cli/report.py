"""``meta-eval report`` and ``meta-eval compare``: judge a run against a record or another run."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperCommand

from meta_eval.base.errors import ConfigError, join_errors
from meta_eval.base.logs import report_progress
from meta_eval.cli import options
from meta_eval.cli.console import show_progress, show_result, write_document
from meta_eval.judge.judging_options import JudgingOptions

if TYPE_CHECKING:
    from meta_eval.reports.document import ShownSample
    from meta_eval.reports.report import Report
    from meta_eval.reports.views import View

# What stands for ``--`` between two sides: no argument of a command line holds it.
_BETWEEN = "\ue000"

_HTML = typer.Option(None, "--html", metavar="FILE", help="Write a self-contained HTML page with every sample.")
_MARKDOWN = typer.Option(None, "--markdown", metavar="FILE", help="Write Markdown for a model card.")
_MAX_DROP = typer.Option(
    None, "--max-drop", metavar="POINTS", help="Like --margin, and set the exit code by the decision."
)


def _with_max_drop(chosen: JudgingOptions, max_drop: float | None) -> JudgingOptions:
    """Turn ``--max-drop`` into a gate, and check the margin and the cap.

    Raises:
        ConfigError: Two options set the margin or the cap, or a value is not allowed.
    """
    from meta_eval.judge.gate import Gate

    margins = {"--margin": chosen.margin, "--gate": chosen.gate, "--max-drop": max_drop}
    for key, values in (("margin", margins), ("cap", {"--cap": chosen.cap, "--gate": chosen.gate})):
        names = [name for name, value in values.items() if value is not None]
        if len(names) > 1:
            conflict = f"{' and '.join(names)} are given together"
            raise ConfigError(conflict, hint=f"Give one of them; in a gate file the key is {key}")
    if chosen.margin is not None:
        Gate().with_margin(chosen.margin, where="--margin")
    if chosen.cap is not None:
        Gate().with_cap(chosen.cap, where="--cap")
    return chosen if max_drop is None else chosen.updated(gate=Gate().with_margin(max_drop, where="--max-drop"))


@options.spread_options()
def report(
    results: list[Path] = typer.Argument(..., metavar="RESULTS…", help="Results folders, or files in them."),
    *,
    chosen: JudgingOptions,
    max_drop: float | None = _MAX_DROP,
    html: Path | None = _HTML,
    markdown: Path | None = _MARKDOWN,
    eval_results: Path | None = typer.Option(
        None, "--eval-results", metavar="FILE", help="Write scores for a model page of the hub (.eval_results/*.yaml)."
    ),
    view: list[str] = options.VIEWS,
    as_json: bool = options.SHARES_AS_JSON,
) -> None:
    """Judge a run against the record of its pack: SHIP, DON'T SHIP or UNDECIDED.

    The report shows the drop of each task with its interval.

    Exit codes: 0 done, 2 an error that you can fix. With --gate or --max-drop: 0 SHIP, 1 DON'T SHIP, 3 UNDECIDED.

    Example: meta-eval report eval_results --pack work_dir --html report.html
    """
    from meta_eval import api
    from meta_eval.reports.views import check_views, choose_views

    views = choose_views("report", view, {"html": html, "markdown": markdown, "eval-results": eval_results})
    check_views(views, _read_from(results, chosen))
    chosen = _with_max_drop(chosen, max_drop)
    with show_progress("reading"):
        judged = api.report(results, options=chosen)
        report_progress("writing")
        write_views(judged, views, chosen.folder)
    _finish(judged, as_json=as_json)


class CompareCommand(TyperCommand):
    """`compare` with ``--`` between sides instead of before arguments that are no options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_BETWEEN if arg == "--" else arg for arg in args])


compare_app = typer.Typer(add_completion=False, rich_markup_mode=None)


@compare_app.command("compare", cls=CompareCommand)
@options.spread_options(pack="The pack of all runs.")
def compare(
    runs: list[Path] = typer.Argument(
        ..., metavar="RUNS…", help="Results folders: the baseline, then each candidate. Several of a side: A… -- B…"
    ),
    *,
    chosen: JudgingOptions,
    max_drop: float | None = _MAX_DROP,
    texts: bool = typer.Option(
        False, "--texts", help="Compare greedy texts instead of verdicts: where they part, and whether it is rounding."
    ),
    tokens: list[Path] = typer.Option(
        [], "--tokens", metavar="TABLE", help="A table of tokens of the trusted model over the texts of A (or of B)."
    ),
    html: Path | None = _HTML,
    markdown: Path | None = _MARKDOWN,
    view: list[str] = options.VIEWS,
    as_json: bool = options.SHARES_AS_JSON,
) -> None:
    """Compare run B with baseline A doc by doc: SHIP, DON'T SHIP or UNDECIDED.

    The report shows the drop of each task with its interval, and every flip with both answers. Several runs of a side,
    separated by --, are averaged, and what differs from run to run is in the interval.

    Of several candidates (A B C) a table shows the drop of each from A, its decision, and its range of places. Each is
    decided by itself, as by compare with it alone. If one cannot be compared, the others still are, and the exit code
    is 2. The page of several candidates has no samples.

    With --texts: same, different or undecided. Texts that part at a near tie differ by rounding alone.

    Exit codes: 0 done, 2 an error that you can fix. With --gate or --max-drop: 0 SHIP, 1 DON'T SHIP, 3
    UNDECIDED; of --texts with --gate: 0 same, 1 different, 3 undecided. Of several candidates the worst counts: 2
    before 1, 3 and 0.

    Example: meta-eval compare results_bf16 results_fp8 --margin 1
    """
    from meta_eval import api
    from meta_eval.reports.views import check_views, choose_views

    of_verdicts: dict[str, object] = {"--margin": chosen.margin, "--cap": chosen.cap, "--max-drop": max_drop}
    of_verdicts |= {"--cluster": chosen.cluster, "--repeats": chosen.repeats, "--regrade": chosen.regrade}
    _check_text_options(texts, tokens, of_verdicts)
    if as_json and (file := next((run for run in runs[2:] if run.suffix == ".json" and not run.exists()), None)):
        raise ConfigError("takes no file", where=f"--json {file}", hint=f"Write --json > {file}, or --view json={file}")
    a, b, *others = _split_sides(runs)
    if texts and others:
        raise ConfigError(
            f"compares two runs, and {2 + len(others)} are named", where="--texts", hint="Name A and one candidate"
        )
    kind = "texts" if texts else "candidates" if others else "compare"
    views = choose_views(kind, view, {"html": html, "markdown": markdown})
    check_views(views, _read_from((*a, *b, *itertools.chain(*others), *tokens), chosen))
    if texts:
        raise typer.Exit(_compare_texts(a, b, chosen, tokens, views, as_json=as_json))
    chosen = _with_max_drop(chosen, max_drop)
    if others:
        _compare_candidates(a, [b, *others], chosen, views, as_json=as_json)
    with show_progress("reading"):
        judged = api.compare(a, b, options=chosen)
        report_progress("writing")
        write_views(judged, views, chosen.folder)
    _finish(judged, as_json=as_json)


def _check_text_options(texts: bool, tables: Sequence[Path], refused: Mapping[str, object]) -> None:
    """Refuse options that have no effect.

    Args:
        texts: Whether ``--texts`` is given.
        tables: Those of ``--tokens``.
        refused: Values of options that only verdicts use, by option.

    Raises:
        ConfigError: An option has no effect.
    """
    if tables and not texts:
        raise ConfigError("has no effect without --texts", where="--tokens", hint="Add --texts")
    useless = next((name for name, value in refused.items() if value), None)
    if texts and useless:
        raise ConfigError("has no effect with --texts", where=useless, hint="Leave it out: texts have no verdicts")


def _compare_texts(
    a: Sequence[Path], b: Sequence[Path], chosen: JudgingOptions, tables: Sequence[Path],
    views: Sequence[tuple[Path, View]], *, as_json: bool,
) -> int:  # fmt: skip
    """Compare the texts, write the views and show the result. Return the exit code."""
    from meta_eval import api

    with show_progress("reading"):
        report = api.compare_texts(
            a, b, tokens=tables, pack=chosen.pack, gate=chosen.gate, tasks=chosen.tasks,
            skip_damaged=chosen.skip_damaged,
        )  # fmt: skip
        document = report.document()
        report_progress("writing")
        write_document(document, views)
    show_result(document, as_json=as_json)
    return report.exit_code


def _compare_candidates(
    a: Sequence[Path], candidates: Sequence[Sequence[Path]], chosen: JudgingOptions,
    views: Sequence[tuple[Path, View]], *, as_json: bool,
) -> NoReturn:  # fmt: skip
    """Compare several candidates with A, show them, and exit.

    Raises:
        UserError: A candidate could not be compared; the others were shown before.
    """
    from meta_eval import api

    with show_progress("reading"):
        compared = api.compare_candidates(a, candidates, options=chosen)
        document = compared.document()
        report_progress("writing")
        write_document(document, views)
    show_result(document, as_json=as_json)
    if compared.errors:
        raise join_errors(compared.errors)
    raise typer.Exit(compared.exit_code)


def _split_sides(runs: Sequence[Path]) -> list[list[Path]]:
    """The folders of the baseline and of each candidate.

    Raises:
        ConfigError: There are no two sides, a side is empty, or two candidates share a folder.
    """
    between = Path(_BETWEEN)
    sides: list[list[Path]] = [[]] if between in runs else [[place] for place in runs]
    for place in runs if between in runs else ():
        if place == between:
            sides.append([])
        else:
            sides[-1].append(place)
    if len(sides) < 2 or not all(sides):
        raise ConfigError(
            "needs two sides",
            where="compare",
            hint="Use: meta-eval compare A B; for several candidates: meta-eval compare A B C; for several runs of a "
            "side: meta-eval compare A1 A2 -- B1 B2",
        )
    real = [set(map(os.path.realpath, side)) for side in sides]
    for name, count in Counter(itertools.chain(*real[1:])).items():
        if count > 1:
            raise ConfigError(f"is named as {count} candidates", where=name, hint="Name each candidate once")
    return sides


def _read_from(results: Iterable[Path], chosen: JudgingOptions) -> list[Path | None]:
    """Files and folders that the report reads. No output may replace them."""
    from meta_eval.pack.baseline import find_verify_folder
    from meta_eval.pack.source_files import list_sources

    pack, gate = chosen.folder, chosen.gate if isinstance(chosen.gate, Path) else None
    tasks = None if chosen.include_path is None else Path(chosen.include_path)
    of_pack = [] if pack is None else [find_verify_folder(pack), *list_sources(pack)]
    return [*results, pack, gate, tasks, *of_pack]


def write_views(judged: Report, views: Iterable[tuple[Path, View]], pack: Path | None) -> None:
    """Write the requested views. Each file is written whole or not at all.

    Raises:
        OutputError: A file cannot be written.
    """
    from meta_eval.reports.samples import read_shown_samples

    def samples() -> Iterable[ShownSample]:
        from meta_eval.pack.manifest import read_manifest
        from meta_eval.pack.prompt_lengths import make_token_counter

        count_tokens = make_token_counter(read_manifest(pack).run_settings.tokenizer_of()) if pack is not None else None
        return read_shown_samples(judged.tasks, count_tokens=count_tokens)

    document = judged.document(samples)
    write_document(document, views)


def _finish(judged: Report, *, as_json: bool) -> None:
    """Print the report for people, and as JSON if requested. Exit with its code."""

    show_result(judged.document(), as_json=as_json)
    raise typer.Exit(judged.exit_code)
