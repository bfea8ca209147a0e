"""``meta-eval history``: keep past runs, and judge the newest one by all of them."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from meta_eval.base.outputs import OutputError
from meta_eval.cli import options
from meta_eval.cli.console import warn
from meta_eval.sockets import err, plural, print_result, show_result, write_document

app = typer.Typer(
    help="Keep the verdicts of past runs, and judge the newest run by all of them.\n\n"
    "Example: meta-eval history add eval_results && meta-eval history check",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_FOLDER = typer.Option(Path("history"), "--folder", metavar="FOLDER", help="The history.")

# Where CI services write the commit that they test.
_COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA", "BUILDKITE_COMMIT")


@app.command("add", short_help="Add a run to the history.")
def add(
    results: list[Path] = typer.Argument(
        ..., metavar="RESULTS...", help="Results of lm_eval or `run`: folders, files."
    ),
    folder: Path = _FOLDER,
    name: str | None = typer.Option(
        None,
        "--name",
        metavar="COMMIT",
        help="What the run is of. Default: the commit that CI names in the environment.",
    ),
    new_level: bool = typer.Option(False, "--new-level", help="Accept a change: runs before this one no longer count."),
) -> None:
    """Add the verdicts of a run to a folder: one JSON file, without prompts and answers.

    The folder can lie in a repository, in a cache of CI or in a bucket.

    Example: meta-eval history add eval_results --name 1a2b3c4
    """
    from meta_eval.plugins.nightly.run_history import add_run, find_newer, read_past_run

    commit = next((value for variable in _COMMITS if (value := os.environ.get(variable))), "")
    run = read_past_run(results, name=commit if name is None else name, new_level=new_level)
    docs = sum(len(verdicts.docs) for verdicts in run.tasks.values())
    path = add_run(folder, run)
    err.print(f"added {run.label}: {plural(docs, 'verdict')} of {plural(len(run.tasks), 'task')}", soft_wrap=True)
    if run.time.startswith("1970-01-01T00:00:00"):
        warn("the results name no time: check takes this run for the oldest. Results of a run of lm-eval name one")
    if (newer := find_newer(folder, run)) is not None:
        warn(
            f"check does not judge this run, of {run.time}: the newest is {newer.label}, of {newer.time}. If that is "
            "wrong, a clock was: move the file of that run out of the folder"
        )
    print_result(str(path))


@app.command("check", short_help="Judge the newest run of the history.")
def check(
    folder: Path = _FOLDER,
    *,
    false_alarms: float = typer.Option(
        1.0, "--false-alarms", metavar="N", min=1e-3, max=1e6, help="So many false alarms a year are acceptable."
    ),
    runs_a_year: int = typer.Option(
        365, "--runs-a-year", metavar="N", min=1, max=10**9, help="Number of runs a year: 365 at one a night."
    ),
    drop: float = typer.Option(
        2.0, "--drop", metavar="POINTS", min=0.01, max=99.0, help="The drop that docs and runs are planned for."
    ),
    html: Path | None = typer.Option(None, "--html", metavar="FILE", help="Write an HTML page."),
    markdown: Path | None = typer.Option(None, "--markdown", metavar="FILE", help="Write Markdown, for a job summary."),
    view: list[str] = options.VIEWS,
    as_json: bool = options.AS_JSON,
) -> None:
    """Judge the newest run by all runs before it: a sudden drop, or a slow drift.

    Exit codes: 0 no alarm, 1 alarm, 2 an error that you can fix, 3 too few runs.

    Example, for twice a year at ten runs a day: meta-eval history check --false-alarms 2 --runs-a-year 3650
    """
    from meta_eval.plugins.nightly.history_alarm import judge_history, read_alarm_rate
    from meta_eval.plugins.nightly.history_report import HistoryReport
    from meta_eval.plugins.nightly.run_history import read_history
    from meta_eval.reports.views import check_views, choose_views

    runs_per_alarm = read_alarm_rate(false_alarms, runs_a_year)
    views = choose_views("history", view, {"html": html, "markdown": markdown})
    check_views(views, (folder,))
    for path, _ in views:
        if path.suffix == ".json" and os.path.realpath(path.parent) == os.path.realpath(folder):
            raise OutputError(
                "would be read as a run of the history", where=str(path), hint="Write it into another folder"
            )
    judgement = judge_history(read_history(folder), runs_per_alarm)
    report = HistoryReport(judgement, str(folder), false_alarms, runs_a_year, drop / 100)
    document = report.document()
    write_document(document, views)
    show_result(document, as_json=as_json)
    raise typer.Exit(report.exit_code)
