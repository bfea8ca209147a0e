"""Errors of usage: unknown options and commands, missing and wrong values. They become errors like all others."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

from meta_eval.base.errors import UserError, describe_wrong_value, suggest_name


def describe_usage_error(error: Any) -> UserError:
    """Turn an error of usage of Typer into an error with the place, the fault and the next step.

    Args:
        error: Typer's exception, whose classes it does not export.
    """
    context = getattr(error, "ctx", None)
    # Some errors lack the verb, which is then the first word of the command line.
    verb = [word for word in sys.argv[1:2] if word.replace("-", "").isalpha() and not word.startswith("-")]
    command = context.command_path if context else " ".join(["meta-eval", *verb])
    words = error.format_message()
    hint = f"See `{command} --help`"
    for where, what in _explain(error, context, command):
        return UserError(what, where=where, hint=_suggest_config(what, context) or hint)
    return UserError(words[:1].lower() + words[1:].rstrip("."), where=command, hint=hint)


def _explain(error: Any, context: Any, command: str) -> Iterable[tuple[str, str]]:
    """The place and the fault of an error that Typer describes in another form."""
    param, words = getattr(error, "param", None), error.format_message()
    option = getattr(error, "option_name", None)
    if option is not None and words.startswith("No such option"):
        yield option, f"`{command}` has no such option{_suggest_option(option, context)}"
    elif option is not None:
        yield option, "needs a value" if "requires" in words else "takes no value"
    elif param is not None and words.startswith("Missing"):
        yield command, f"{name_parameter(param)} is missing"
    elif param is not None:
        yield name_parameter(param), _describe_value(error)
    elif words.startswith("No such command"):
        name = words.split("'")[1]
        yield command, f"there is no command {name!r}{suggest_name(name, context.command.list_commands(context))}"
    elif words.startswith("Got unexpected extra"):
        yield command, f"takes fewer arguments; unexpected: {words.partition('(s) (')[2].rstrip(')')}"


def _suggest_config(what: str, context: Any) -> str | None:
    """What to do with a configuration that is no argument of the verb; None where there is none."""
    words = what.partition("unexpected: ")[2].split()
    takes_config = context is not None and any("--config" in param.opts for param in context.command.params)
    named = next((word for word in words if word.endswith((".yaml", ".yml"))), None)
    return f"Name the configuration with --config {named}" if takes_config and named else None


def name_parameter(param: Any) -> str:
    """The first long name of an option, or the metavar of an argument."""
    names = (name for name in param.opts if name.startswith("--"))
    return next(names, str(param.metavar or param.name).strip("[]"))


def _describe_value(error: Any) -> str:
    """Say what a value must be. pydantic, which newer versions of Typer use, knows the value but does not say it."""
    words = describe_wrong_value(str(error.message))
    if words.startswith("it must be "):
        given = error.__cause__.errors()[0]["input"] if hasattr(error.__cause__, "errors") else "this"
        return f"{given!r} is not allowed: {words}"
    given, *choices = re.findall("'([^']*)'", words) or [""]
    return f"{words}{suggest_name(given, choices)}"


def _suggest_option(option: str, context: Any) -> str:
    """The nearest options of the command, or ``--set`` for a key of the configuration."""
    from meta_eval.pack.config import Config

    known = {name for param in context.command.params for name in (*param.opts, *param.secondary_opts)}
    key = option.lstrip("-").replace("-", "_")
    if "--set" in known and key in Config.model_fields:
        return f"; set this key of the configuration with --set {key}=VALUE"
    near = suggest_name(option, [name for name in known if name.startswith("--")] if option.startswith("--") else [])
    return near.replace("'", "")
