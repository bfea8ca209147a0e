"""The command line: arguments, exit codes and output.

stdout is for machines: the command to paste, or a JSON object. Words for people go to stderr. Exit codes: 0 done, 1 a
check failed, 2 an error that the user can fix, 3 undecided, 70 a bug of meta-eval, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from meta_eval.base.errors import UserError, refused
from meta_eval.base.escaping import visible
from meta_eval.base.logs import log
from meta_eval.cli import (
    doctor,
    export,
    grade,
    init,
    prepare,
    report,
    run,
    verify,  # fmt: skip
)
from meta_eval.cli.console import err, notes, print_result
from meta_eval.plugins.engines.slurm import slurm_verb as slurm
from meta_eval.plugins.meta import tasks_verb as tasks
from meta_eval.plugins.nightly import history_verb as history
from meta_eval.plugins.tokens import audit_verb as audit
from meta_eval.plugins.tokens import fidelity_verb as fidelity
from meta_eval.version import __version__

_INTERRUPTED = 130

# typer's class for errors of usage. typer does not export it.
_USAGE: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

_MAKE, _RUN, _JUDGE, _EXTEND = "Make and verify", "Run", "Judge", "Extend"


class _Verbs(TyperGroup):
    """List the verbs under the headings of their ``rich_help_panel``, as plain text in 80 columns."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (it is called with it)
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            line = (name, command.get_short_help_str(formatter.width))
            panels.setdefault(command.rich_help_panel, []).append(line)  # type: ignore[attr-defined]
        for heading, lines in panels.items():
            with formatter.section(heading):
                formatter.write_dl(lines)


app = typer.Typer(
    name="meta-eval",
    cls=_Verbs,
    help="Find out whether a model got worse: make a pack of lm-eval tasks, verify it, run it, judge the run.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _add(panel: str, verb: Callable[..., None], short_help: str, cls: type[TyperCommand] | None = None) -> None:
    """Add a verb under the name of its function. The short help must fit into 80 columns."""
    app.command(verb.__name__, cls=cls, short_help=short_help, rich_help_panel=panel)(verb)


_add(_MAKE, init.init, "Write a configuration and task templates to edit, or an example.")
_add(_MAKE, prepare.prepare, "Make a pack of tasks, and print the lm_eval command that runs it.")
_add(_MAKE, verify.verify, "Grade the recorded answers again and compare every verdict.")
_add(_MAKE, doctor.doctor, "Check a pack and this machine, or an engine with --engine.")
_add(_RUN, run.run, "Run the model and judge it. Rerun the same command to resume.")
_add(_RUN, slurm.slurm, "Write job scripts that run a pack on a Slurm cluster.")
_add(_RUN, export.export, "Write the requests of a pack for other tools.")
_add(_RUN, grade.grade, "Grade answers that another tool made, as lm_eval would.")
_add(_JUDGE, report.report, "Judge a run against recorded answers and published scores.")
_add(_JUDGE, report.compare, "Compare runs doc by doc, such as a model and its FP8 copy.", report.CompareCommand)
_add(_JUDGE, fidelity.fidelity, "Check whether two models are the same, token by token.")
_add(_JUDGE, audit.audit, "Check by its answers whether an endpoint serves a model.")
app.add_typer(
    history.app, name="history", short_help="Keep past runs, and judge the newest by all of them.",
    rich_help_panel=_JUDGE,
)  # fmt: skip
app.add_typer(
    tasks.app, name="tasks", short_help="List the tasks, show a task, or start a new one.", rich_help_panel=_EXTEND
)


def _version(is_set: bool) -> None:
    if is_set:
        print_result(f"meta-eval {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(  # noqa: ARG001 (its callback acts)
        False, "--version", help="Print the version and exit.", callback=_version, is_eager=True
    ),
) -> None:
    log.addHandler(notes)


def main() -> None:
    """Run the ``meta-eval`` script. `meta_eval.__main__` calls it."""
    sys.exit(_run())


@cache
def _command() -> Any:
    """Build the command line once per process."""
    return typer.main.get_command(app)


def _run() -> int:  # noqa: PLR0911 (one for each way to end)
    """Run a command and return its exit code. No exception leaves this function."""
    try:
        Path.cwd()  # relative paths need it
    except OSError as error:
        return _end(str(refused(error)))
    try:
        code = _command()(prog_name="meta-eval", standalone_mode=False)
        return _interrupted() if code == _INTERRUPTED else int(code or 0)
    except UserError as error:
        return _end(str(error))
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except OSError as error:
        return _end(str(refused(error)))
    except SystemExit as error:  # raised by typer for a closed pipe, or by a template or its libraries
        if isinstance(error.__context__, OSError):
            return _end(str(refused(error.__context__)))
        fault = _find_fault(error)
        return _end(fault or f"a template or the code of a pack ended the program with exit code {error.code}")
    except _USAGE as error:
        from meta_eval.cli.usage_errors import describe_usage_error

        if type(error).__name__ == "NoArgsIsHelpError":
            err.print(Text(visible(error.format_message())), soft_wrap=True)
            return 2
        return _end(str(describe_usage_error(error)))
    except BaseException as error:
        from meta_eval.cli import bug

        fault = _find_fault(error)
        return _end(fault) if fault else bug.tell_bug(error)


def _find_fault(error: BaseException) -> str | None:
    """An exception as the fault of another package that extends us; None if it is none."""
    from meta_eval.base.extensions import find_extension_fault

    fault = find_extension_fault(error)
    return None if fault is None else str(fault)


def _end(message: str) -> int:
    err.print(f"error: {message}", style="bold red", soft_wrap=True)
    return 2


def _interrupted() -> int:
    err.print("interrupted: no file is half-written")
    return _INTERRUPTED


if __name__ == "__main__":
    main()
