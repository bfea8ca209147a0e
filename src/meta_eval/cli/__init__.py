"""The command line: arguments, exit codes, and what is printed where. How things are done stands elsewhere.

stdout is for machines: the command to paste, or one JSON object. Words for people go to stderr. Exit codes: 0 done,
1 verify found verdicts that are not the recorded ones, 2 something that the user can fix, 70 a bug of meta-eval, 130
interrupted.
"""

from __future__ import annotations

import io
import sys
from functools import cache
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from meta_eval.cli import (
    export,
    fidelity,
    grade,
    init,
    new_task,
    preflight,
    prepare,
    publish,
    report,
    run,
    selfcheck,
    slurm,
    tasks,
    verify,
)  # fmt: skip
from meta_eval.cli.console import err, notes, say
from meta_eval.errors import UserError, refused
from meta_eval.notes import log
from meta_eval.shown import visible
from meta_eval.version import __version__

_INTERRUPTED = 130

# What typer raises of a wrong command line; it keeps the class to itself.
_USAGE: Any = next(one for one in typer.BadParameter.__mro__ if one.__name__ == "ClickException")

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
app.command("verify", short_help="Prove a pack: replay recorded answers, compare every verdict.")(verify.verify)
app.command("run", short_help="Ask the model and judge it; the same command goes on.")(run.run)
app.command("fidelity", short_help="Is it the same model? Recorded answers, token by token.")(fidelity.fidelity)
app.command("selfcheck", short_help="Check an engine with a model whose answers are known.")(selfcheck.selfcheck)
app.command("slurm", short_help="Write the jobs of a run for a Slurm cluster.")(slurm.slurm)
app.command("export", short_help="Write what a pack asks as a file that anything can answer.")(export.export)
app.command("grade", short_help="Score answers from anywhere as lm_eval would.")(grade.grade)
app.command("publish", short_help="Write what others need to make a pack anew: no rows.")(publish.publish)
app.command("report", short_help="Judge a run beside recorded answers and published numbers.")(report.report)
app.command("compare", short_help="Compare two runs doc by doc, such as a model and a quantised one.")(report.compare)
app.command("init", short_help="Write eval_config.yaml and meta_template/ to edit.")(init.init)
app.add_typer(tasks.app, name="tasks")
app.command("new-task", short_help="Write a template folder to start from.")(new_task.new_task)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"meta-eval {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(  # noqa: ARG001 (its callback acts)
        False, "--version", help="Print the version and exit.", callback=_version, is_eager=True
    ),
) -> None:
    log.addHandler(notes)


def main() -> None:
    """The entry point of the ``meta-eval`` script, through `meta_eval.__main__`."""
    sys.exit(_run())


@cache
def _command() -> Any:
    """Built once: who calls the command line many times in one process waits for what it does, not for its options."""
    return typer.main.get_command(app)


def _run() -> int:  # noqa: PLR0911 (one for each way to end)
    """The exit code, whatever happens: 0, 1, 2, 3, 130, and 70 for what is a fault of meta-eval itself."""
    try:
        Path.cwd()  # many a path counts from it
    except OSError as error:
        return _end(str(refused(error)))
    try:
        code = _command()(standalone_mode=False)
        return _interrupted() if code == _INTERRUPTED else int(code or 0)
    except UserError as error:
        return _end(str(error))
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except OSError as error:
        return _end(str(refused(error)))
    except SystemExit as error:  # typer's own, for a pipe that was closed, and that of a template or of its libraries
        if isinstance(error.__context__, OSError):
            return _end(str(refused(error.__context__)))
        return _end(f"a template or the code of a pack ended the program with exit code {error.code}")
    except _USAGE as error:
        text = io.StringIO()
        error.show(file=text)
        err.print(Text(visible(text.getvalue().rstrip())), soft_wrap=True)
        return 2
    except Exception as error:
        from meta_eval.cli import bug

        return bug.tell(error)


def _end(message: str) -> int:
    err.print(f"error: {message}", style="bold red", soft_wrap=True)
    return 2


def _interrupted() -> int:
    err.print("interrupted: nothing was left half written")
    return _INTERRUPTED


if __name__ == "__main__":
    main()
