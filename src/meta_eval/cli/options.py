"""The arguments that several commands share, each described once, and the options objects of verbs as arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from meta_eval.config.config_loader import DEFAULT_CONFIG
from meta_eval.messages.errors import ConfigError


def _config(note: str = "") -> Path:
    option: Path = typer.Option(
        Path(DEFAULT_CONFIG),
        "--config",
        "--config_path",
        "-c",
        metavar="FILE",
        envvar="META_EVAL_CONFIG",
        help=f"The configuration{note}.",
    )
    return option


CONFIG = _config()
CONFIG_OF_PACK = _config("; read only where no PACK is named")
PACK = typer.Argument(None, metavar="[PACK]", help="The pack; default: the configuration's work_dir.")
OVERRIDES = typer.Option([], "--set", metavar="KEY=VALUE", help="Override a key, as of prepare.")
VIEWS = typer.Option(
    [], "--view", metavar="NAME=FILE", help="Write another view: text, json, or one that a package adds."
)
AS_JSON = typer.Option(False, "--json", help="Print one JSON object on stdout.")
SHARES_AS_JSON = typer.Option(False, "--json", help="Print one JSON object on stdout; scores are from 0 to 1.")


def pack_folder(pack: Path | None, config: Path) -> Path:
    """The pack that was named, else the work_dir of the configuration, else the default work_dir."""
    if pack is not None:
        return pack
    from meta_eval.config import Config, is_missing_default, load_config

    default = Path(Config.model_fields["work_dir"].default)
    if is_missing_default(config) and default.is_dir():
        return default
    return Path(load_config(config).work_dir)


def split_names(tasks: Sequence[str]) -> list[str]:
    """The names that `TASKS` gives, each between two commas or in an option of its own."""
    return [name.strip() for item in tasks for name in item.split(",") if name.strip()]


@dataclass(frozen=True, slots=True)
class Flag:
    """How the command line says a field of an options object.

    Attributes:
        kind: The type that Typer reads.
        option: What Typer is told besides; the default is the field's.
        read: Makes the field's value of the one that Typer read.
        shown: Makes Typer's default of the field's.
    """

    kind: Any
    option: Any
    read: Callable[[Any], Any] = lambda value: value
    shown: Callable[[Any], Any] = lambda value: value


def parse_shard(text: str) -> tuple[int, int]:
    """``I/N`` as numbers.

    Raises:
        ConfigError: It is no part of a run.
    """
    number, slash, of = text.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and int(number) < int(of) <= 1_000_000):
        raise ConfigError(f"{text!r} is not a shard", where="--shard", hint="Write I/N: 0/8 to 7/8 for eight machines")
    return int(number), int(of)


# The fields that several verbs have.
FLAGS = {
    "overrides": Flag(
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key, as of prepare."), shown=list
    ),
    "tasks": Flag(
        list[str],
        typer.Option(
            "--tasks", metavar="NAMES", help="Tasks and groups of the pack, with commas; -NAME leaves one out."
        ),
        read=split_names,
        shown=list,
    ),
    "shard": Flag(
        str,
        typer.Option("--shard", metavar="I/N", help="Ask each N-th request from the I-th on (0 to N-1)."),
        read=parse_shard,
        shown=lambda shard: f"{shard[0]}/{shard[1]}",
    ),
    "allow_code": Flag(
        bool, typer.Option("--allow-code", help="Also grade tasks whose scoring runs model-written code.")
    ),
    "edited": Flag(
        bool,
        typer.Option(
            "--edited", help="Run a pack that was edited since prepare wrote it; everything that follows says so."
        ),
    ),
    "canary": Flag(
        bool,
        typer.Option(
            "--canary/--no-canary",
            help="Compare the first 32 answers with the recorded, stop if they are far off.",
        ),
    ),
}


def spread_options(**flags: Flag) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make each field of a dataclass among the parameters of a verb an option of its own; Typer knows no objects.

    Args:
        flags: By field how it is said, where that is not one of `FLAGS`.
    """
    said = FLAGS | flags
    return lambda verb: _spread(verb, said)


def _spread(verb: Callable[..., None], flags: Mapping[str, Flag]) -> Callable[..., None]:
    parameters, groups = [], {}
    hints = get_type_hints(verb)
    for parameter in signature(verb).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = kind
            parameters += [_parameter(field, flags[field.name]) for field in fields(kind)]
        else:
            parameters.append(parameter.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY))

    @wraps(verb)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            names = [field.name for field in fields(kind)]
            given[name] = kind(**{name: flags[name].read(given.pop(name)) for name in names})
        verb(**given)

    run.__dict__["__signature__"] = Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameter(field: Field[Any], flag: Flag) -> Parameter:
    annotation = Annotated[flag.kind, flag.option]  # type: ignore[name-defined]  # (a type of runtime)
    default = Parameter.empty if field.default is MISSING else flag.shown(field.default)
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
