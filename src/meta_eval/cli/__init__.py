"""The command line: arguments, exit codes and output.

stdout is for machines: the command to paste, or a JSON object. Words for people go to stderr. Exit codes: 0 done, 1 a
check failed, 2 an error that the user can fix, 3 undecided, 70 a bug of meta-eval, 130 interrupted.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from meta_eval.base.errors import UserError, refused
from meta_eval.base.interrupts import was_interrupted
from meta_eval.base.logs import log
from meta_eval.base.version import __version__
from meta_eval.base.worker import NO_MEMORY, ran_out_of_memory
from meta_eval.cli.streams import print_result
from meta_eval.cli.verb import Verb, find_verb, list_verbs, warn_shadowed

_INTERRUPTED = 130
_CODES = (0, 1, 2, 3, _INTERRUPTED)

# typer's class for errors of usage. typer does not export it.
_USAGE: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

_CLI = "meta_eval.cli"
_HELP = ["-h", "--help"]

VERBS = (
    Verb("init", "Write a configuration and task templates to edit, or an example.", f"{_CLI}.init:init",
         panel="Make and verify"),
    Verb("prepare", "Make a pack of tasks, and print the lm_eval command that runs it.", f"{_CLI}.prepare:prepare",
         "meta_eval.api:prepare", panel="Make and verify"),
    Verb("verify", "Grade the recorded answers again and compare every verdict.", f"{_CLI}.verify:verify",
         "meta_eval.pack.verify:verify", panel="Make and verify"),
    Verb("doctor", "Check a pack and this machine, or an engine with --engine.", f"{_CLI}.doctor:doctor",
         panel="Make and verify"),
    Verb("run", "Run the model and judge it. Rerun the same command to resume.", f"{_CLI}.run:run", "meta_eval.api:run",
         panel="Run", resumes=True),
    Verb("export", "Write the requests of a pack for other tools.", f"{_CLI}.export:export",
         "meta_eval.api:export", panel="Run"),
    Verb("grade", "Grade answers that another tool made, as lm_eval would.", f"{_CLI}.grade:grade",
         "meta_eval.api:grade", panel="Run"),
    Verb("report", "Judge a run against recorded answers and published scores.", f"{_CLI}.report:report",
         "meta_eval.api:report", panel="Judge"),
    Verb("compare", "Compare runs doc by doc, such as a model and its FP8 copy.", f"{_CLI}.report:compare_app",
         "meta_eval.api:compare", panel="Judge"),
)  # fmt: skip


class _Verbs(TyperGroup):
    """The verbs. One is imported when it is used; help lists them as plain text in 80 columns."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 (it is called with it)
        return [verb.name for verb in list_verbs(VERBS)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 (it is called with it)
        if cmd_name not in self.commands:
            verb = find_verb(cmd_name, VERBS)
            if verb is None:
                return None
            self.commands[cmd_name] = _make_command(verb)
        return self.commands[cmd_name]

    def get_help_option(self, ctx: Any) -> Any:
        return _print_help(super().get_help_option(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (it is called with it)
        from meta_eval.cli.console import notes

        log.addHandler(notes)  # help is shown before `_root` runs
        for heading, verbs in groupby(list_verbs(VERBS), key=lambda verb: verb.panel):
            with formatter.section(heading):
                formatter.write_dl([(verb.name, verb.help) for verb in verbs])


def _print_help(option: Any) -> Any:
    """Let ``--help`` write to our stdout: that of the process belongs to the code of others once any was imported."""

    def show(context: Any, _option: Any, is_set: bool) -> None:
        if is_set and not context.resilient_parsing:
            for parameter in context.command.params:
                if "{views}" in (getattr(parameter, "help", None) or ""):  # the import takes time
                    from meta_eval.cli.options import complete_help

                    complete_help(parameter)
            print_result(context.get_help())
            context.exit()

    if option is not None:
        option.callback = show
    return option


def _check_paths(parameter: Any) -> None:
    """Let a parameter that takes paths refuse what names no file or folder."""
    process = parameter.process_value

    def check(context: Any, value: Any) -> Any:
        from meta_eval.base.inputs import check_path
        from meta_eval.cli.usage_errors import name_parameter

        for given in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(given, str):
                check_path(given, where=name_parameter(parameter))
        return process(context, value)

    # Earlier versions of Typer have the type alone.
    if "Path" in repr(getattr(parameter, "type_descriptor", None) or parameter.type):
        parameter.process_value = check


def _make_command(verb: Verb) -> Any:
    body = verb.load()
    if isinstance(body, typer.Typer):
        body._add_completion = False  # that of the whole command line
    else:
        function, body = body, typer.Typer(add_completion=False, rich_markup_mode=None)
        body.command(verb.name)(function)
    command = typer.main.get_command(body)
    command.name = verb.name
    for part in (command, *getattr(command, "commands", {}).values()):
        _print_help(part.get_help_option(typer.Context(part, help_option_names=_HELP)))  # it keeps its option
        for parameter in part.params:
            _check_paths(parameter)
    return command


app = typer.Typer(
    name="meta-eval",
    cls=_Verbs,
    help="Find out whether a model got worse: make a pack of lm-eval tasks, verify it, run it, judge the run.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": _HELP},
)


def _version(is_set: bool) -> None:
    if is_set:
        print_result(f"meta-eval {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: bool = typer.Option(  # noqa: ARG001 (its callback acts)
        False, "--version", help="Print the version and exit.", callback=_version, is_eager=True
    ),
) -> None:
    from meta_eval.cli.console import notes

    log.addHandler(notes)
    warn_shadowed(context.invoked_subcommand, VERBS)


def main() -> None:
    """Run the ``meta-eval`` script. `meta_eval.__main__` calls it."""
    sys.exit(_run())


@cache
def _command() -> Any:
    """Build the command line once per process."""
    return typer.main.get_command(app)


def _call() -> Any:
    """Run the command. What fails for want of memory is nobody's fault.

    Raises:
        UserError: Memory ran out.
    """
    try:
        return _command()(prog_name="meta-eval", standalone_mode=False)
    except Exception as error:
        if ran_out_of_memory(error):
            raise UserError(NO_MEMORY) from None
        raise


def _run() -> int:  # noqa: PLR0911 (one for each way to end)
    """Run a command and return its exit code. No exception leaves this function."""
    try:
        Path.cwd()  # relative paths need it
    except OSError as error:
        return _end(str(refused(error)))
    try:
        code = _call()
        if code is None:
            return 0
        if type(code) is not int or code not in _CODES:
            return _end(_describe_wrong_code(code))
        return _interrupted() if code == _INTERRUPTED else code
    except UserError as error:
        return _end(str(error))
    except (KeyboardInterrupt, typer.Abort) as end:
        return _interrupted(is_said=hasattr(end, "kept"))
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
            from rich.text import Text

            from meta_eval.base.display import visible
            from meta_eval.cli.console import err

            err.print(Text(visible(error.format_message())), soft_wrap=True)
            return 2
        return _end(str(describe_usage_error(error)))
    except BaseException as error:
        from meta_eval.cli import bug

        if was_interrupted():
            return _interrupted()
        fault = _find_fault(error)
        return _end(fault) if fault else bug.tell_bug(error)


def _find_fault(error: BaseException) -> str | None:
    """An exception as the fault of another package that extends us; None if it is none."""
    from meta_eval.base.extensions import find_extension_fault

    fault = find_extension_fault(error)
    return None if fault is None else str(fault)


def _describe_wrong_code(code: object) -> str:
    from meta_eval.base.display import quoted

    verb = find_verb(sys.argv[1], VERBS) if sys.argv[1:] else None
    body = f" ({verb.body})" if verb else ""
    return (
        f"meta-eval {' '.join(sys.argv[1:2])}{body}: returned {quoted(code)}, which is no exit code of meta-eval. "
        f"Report it to that package; allowed are {', '.join(map(str, _CODES))}"
    )


def _end(message: str) -> int:
    from meta_eval.cli.console import err

    if was_interrupted():
        return _interrupted()
    err.print(f"error: {message}", style="bold red", soft_wrap=True)
    return 2


def _interrupted(*, is_said: bool = False) -> int:
    """Say how an interrupted command ends.

    Args:
        is_said: Whether the verb has said what is saved, and that the same command resumes.
    """
    from meta_eval.cli.console import err

    verb = None
    with suppress(UserError):
        verb = find_verb(sys.argv[1], VERBS) if sys.argv[1:] else None
    resumes = verb is not None and verb.resumes and not is_said
    more = "; the same command goes on from what is saved" if resumes else ""
    err.print(f"interrupted: no file is half-written{more}", soft_wrap=True)
    return _INTERRUPTED


if __name__ == "__main__":
    main()
