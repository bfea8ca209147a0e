"""How a verb's options are written: a line each, with default, flag and help, and what it means to Python below.

The command line fills these objects (`meta_eval.cli.options`), and the API accepts them. Each room has the options of
its verbs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from meta_eval.base.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Flag:
    """How an option appears on the command line."""

    kind: Any
    """The type that Typer parses."""

    usage: str
    """Names and value as help shows them: ``--output -o FOLDER``; an argument has no name: ``[PACK]``."""

    help: str
    """What it does."""

    read: Callable[[Any], Any] = lambda value: value
    """Turns the parsed value into the option's value."""

    shown: Callable[[Any], Any] = lambda value: [] if value == () else value
    """Turns the option's default into Typer's default."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """More arguments of `typer.Option`."""


def option(default: Any, kind: Any, usage: str, help: str, **more: Any) -> Any:
    """A field of an options class, and its flag.

    Args:
        default: Its default; `dataclasses.MISSING` for none.
        kind: See `Flag`.
        usage: See `Flag`.
        help: See `Flag`.
        more: ``read``, ``shown`` and ``settings`` of `Flag`.
    """
    return field(default=default, metadata={"flag": Flag(kind, usage, help, **more)})


def option_of(owner: Any, name: str) -> Any:
    """The same option as another options class has."""
    (same,) = (own for own in fields(owner) if own.name == name)
    return field(default=same.default, metadata=same.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The base class of all options."""

    def updated(self, **keywords: Any) -> Self:
        """Return these options with some of them changed.

        Raises:
            TypeError: An option is unknown.
        """
        return replace(self, **keywords)


def split_names(tasks: Sequence[str]) -> list[str]:
    """Split comma-separated names. The option may be repeated.

    Raises:
        ConfigError: It holds no name, as where a script names a variable that is not set.
    """
    names = [name.strip() for item in tasks for name in item.split(",") if name.strip()]
    if tasks and not names:
        raise ConfigError("names no task", where="--tasks", hint="Leave it out for all tasks")
    return names
