"""Checks that a verb's command line, and its options are one list."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import typer

from meta_eval.cli import app


def check_one_list(verb: str, options: type, only_said: str) -> None:
    """Check names: ``only_said`` are arguments that only the command line has."""
    own = {field.name for field in fields(options)}
    assert own <= _parameters(verb).keys()
    assert _parameters(verb).keys() - own == set(only_said.split())


def check_defaults(verb: str, options: type) -> None:
    """Check that the command line shows the defaults of the options."""
    parameters = _parameters(verb)
    shown = {"shard": "0/1", "ask": False}
    for field in fields(options):
        if field.default is MISSING:
            assert parameters[field.name].required
            continue
        assert (parameters[field.name].default or None) == (shown.get(field.name, field.default) or None), field.name


def _parameters(verb: str) -> dict[str, Any]:
    command: Any = typer.main.get_command(app)
    for word in verb.split():
        command = command.get_command(None, word)
    return {parameter.name: parameter for parameter in command.params}
