"""The command line: arguments, exit codes, and what is printed where. How things are done stands elsewhere.

stdout is for machines: the command to paste, or one JSON object. Words for people go to stderr. Exit codes: 0 done,
1 verify found verdicts that are not Meta's, 2 something that the user can fix, 130 interrupted.
"""

from __future__ import annotations

import sys

import typer

from meta_eval.cli import compare, export, grade, init, new_task, preflight, prepare, report, tasks, verify
from meta_eval.cli.console import err, notes
from meta_eval.errors import UserError
from meta_eval.notes import log
from meta_eval.version import __version__

app = typer.Typer(
    name="meta-eval",
    help="Prepare, prove and judge lm-eval task packs that reproduce the published numbers of Llama 3.1, 3.2 and 3.3.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# Each whole in 80 columns; the first sentence of a command's own help says more.
app.command("prepare", short_help="Make a task pack, and print the lm_eval command that runs it.")(prepare.prepare)
app.command("preflight", short_help="Check what can go wrong before generation, without a GPU.")(preflight.preflight)
# Its name until lm-eval had a `validate` of its own, which checks something else.
app.command("validate", hidden=True)(preflight.preflight)
app.command("verify", short_help="Prove a pack: replay Meta's answers, compare every verdict.")(verify.verify)
app.command("export", short_help="Write what a pack asks as a file that anything can answer.")(export.export)
app.command("grade", short_help="Score answers from anywhere as lm_eval would.")(grade.grade)
app.command("report", short_help="Judge a run beside the published numbers and Meta's verdicts.")(report.report)
app.command("compare", short_help="Compare two runs doc by doc, such as a model and a quantised one.")(compare.compare)
app.command("init", short_help="Write eval_config.yaml and meta_template/ to edit.")(init.init)
app.add_typer(tasks.app, name="tasks")
app.command("new-task", short_help="Write a template folder to start from.")(new_task.new_task)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"meta-eval {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(  # noqa: ARG001 (its callback acts)
        False, "--version", help="Print the version and exit.", callback=_version, is_eager=True
    ),
) -> None:
    log.addHandler(notes)


def main() -> None:
    """The entry point of the ``meta-eval`` script."""
    try:
        app(standalone_mode=True)
    except UserError as error:
        err.print(f"error: {error}", style="bold red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        err.print("interrupted: nothing was left half written", markup=False)
        sys.exit(130)


if __name__ == "__main__":
    main()
