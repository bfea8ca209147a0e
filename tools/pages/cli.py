"""docs/reference/cli.md, generated from the command line."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from meta_eval.cli import VERBS, app
from meta_eval.cli.options import complete_help
from meta_eval.cli.verb import list_verbs


def values() -> dict[str, Any]:
    """Values for cli.md.j2."""
    root = typer.main.get_command(app)
    return {"commands": list(_commands(root, ()))}


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    panels = {verb.name: verb.panel for verb in list_verbs(VERBS)}
    context = typer.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        here = (*path, name)
        yield {
            "name": " ".join(("meta-eval", *here)),
            "text": inspect.cleandoc(child.help or child.short_help or ""),
            "panel": panels.get(name) if not path else None,
            "rows": [_row(parameter) for parameter in child.params if not getattr(parameter, "hidden", False)],
        }
        if hasattr(child, "list_commands"):
            yield from _commands(child, here)


def _row(parameter: Any) -> dict[str, str]:
    if parameter.param_type_name == "argument":
        name = (parameter.metavar or parameter.name).strip("[]{}").removesuffix("…")
        return {"name": name, "text": parameter.help or "", "default": ""}
    if "{views}" in (parameter.help or ""):
        complete_help(parameter)
    names = ", ".join((*parameter.opts, *parameter.secondary_opts))
    kind = "" if parameter.is_flag or not parameter.metavar else f" {parameter.metavar}"
    return {"name": f"{names}{kind}", "text": parameter.help or "", "default": _default(parameter)}


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.is_flag or value is None or callable(value) or value in ((), [], "", False):
        return ""
    return str(value)
