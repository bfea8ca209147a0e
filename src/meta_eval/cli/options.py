"""Arguments that several commands share, and the fields of options objects as arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from meta_eval.base.errors import ConfigError
from meta_eval.verb_options import DEFAULT_CONFIG


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


CONFIG: Path = _config()
CONFIG_OF_PACK: Path = _config(". Not read if you name a PACK")
PACK: Path | None = typer.Argument(None, metavar="[PACK]", help="The pack. Default: the configuration's work_dir.")
OVERRIDES: list[str] = typer.Option(
    [], "--set", metavar="KEY=VALUE", help="Override a key of the configuration. Repeatable."
)
VIEWS: list[str] = typer.Option(
    [], "--view", metavar="NAME=FILE", help="Write another view: text, json, or a view that a package adds."
)
AS_JSON: bool = typer.Option(False, "--json", help="Print one JSON object on stdout.")
SHARES_AS_JSON: bool = typer.Option(False, "--json", help="Print one JSON object on stdout. Scores are from 0 to 1.")


def pack_folder(pack: Path | None, config: Path, *, hint: str = "Name its folder") -> Path:
    """The pack that was named, else the configuration's work_dir, else the default work_dir.

    Args:
        pack: The pack.
        config: The configuration.
        hint: How to name the pack.

    Raises:
        ConfigError: There is none of these, or the configuration is wrong.
    """
    if pack is not None:
        return pack
    from meta_eval.pack.config import Config, is_missing_default, load_config

    default = Path(Config.model_fields["work_dir"].default)
    if is_missing_default(config):
        if default.is_dir():
            return default
        raise ConfigError(
            f"no pack is named, and neither {DEFAULT_CONFIG} nor {default} is in this folder",
            hint=f"{hint}, or make one: `meta-eval init`, then `meta-eval prepare`",
        )
    return Path(load_config(config).work_dir)


def split_names(tasks: Sequence[str]) -> list[str]:
    """Split comma-separated names. The option may be repeated."""
    return [name.strip() for item in tasks for name in item.split(",") if name.strip()]


@dataclass(frozen=True, slots=True)
class Flag:
    """How a field of an options object appears on the command line.

    Attributes:
        kind: The type that Typer parses.
        usage: Names and value as help shows them: ``--output -o FOLDER``; an argument has no name: ``[PACK]``.
        help: What it does.
        settings: More arguments of `typer.Option`.
        read: Turns the parsed value into the field's value.
        shown: Turns the field's default into Typer's default.
    """

    kind: Any
    usage: str
    help: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    read: Callable[[Any], Any] = lambda value: value
    shown: Callable[[Any], Any] = lambda value: [] if value == () else value


def parse_shard(text: str) -> tuple[int, int]:
    """Parse ``I/N``.

    Raises:
        ConfigError: It is not ``I/N`` with 0 ≤ I < N.
    """
    number, slash, of = text.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and int(number) < int(of) <= 1_000_000):
        raise ConfigError(f"{text!r} is not a shard", where="--shard", hint="Write I/N: 0/8 to 7/8 for eight machines")
    return int(number), int(of)


# Fields that several verbs have.
FLAGS = {
    "overrides": Flag(list[str], "--set KEY=VALUE", "Override a key of the configuration. Repeatable."),
    "tasks": Flag(
        list[str],
        "--tasks NAMES",
        "Tasks and groups of the pack, comma-separated. -NAME excludes NAME.",
        read=split_names,
    ),
    "gate": Flag(Path | None, "--gate FILE", "Decide by the rules of a gate.yaml, and set the exit code."),
    "shard": Flag(
        str,
        "--shard I/N",
        "Send only every N-th request, starting at I (0 to N-1).",
        read=parse_shard,
        shown=lambda shard: f"{shard[0]}/{shard[1]}",
    ),
    "allow_code": Flag(bool, "--allow-code", "Also grade tasks whose scoring runs code that the model wrote."),
    "same_deployment": Flag(
        bool, "--same-deployment", "Go on with answers of another address: the deployment moved, and is the same."
    ),
    "edited": Flag(bool, "--edited", "Accept a pack that was edited after prepare. Results and reports say so."),
    "canary": Flag(
        bool,
        "--canary/--no-canary",
        "Compare the first 32 answers with the recorded answers. Stop if they are far off.",
    ),
}


# The order in which a user needs them.
_FIRST = ("pack", "config", "overrides", "tasks", "to", "baseline", "margin", "max_drop", "cap", "gate")
_LAST = ("view", "same_deployment", "allow_code", "edited", "as_json")


def spread_options(**flags: Flag) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn each field of a verb's options object into an option. Typer does not support such objects.

    Args:
        flags: Option per field, for fields that are not in `FLAGS` or differ from it.
    """
    all_flags = FLAGS | flags
    return lambda verb: _spread(verb, all_flags)


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
    def run(**values: Any) -> None:
        for name, kind in groups.items():
            names = [field.name for field in fields(kind)]
            values[name] = kind(**{name: flags[name].read(values.pop(name)) for name in names})
        verb(**values)

    parameters.sort(key=_position)
    run.__dict__["__signature__"] = Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _position(parameter: Parameter) -> int:
    """Where ``--help`` lists an option: before (negative) or after those that only one verb has."""
    if parameter.name in _FIRST:
        return _FIRST.index(parameter.name) - len(_FIRST)
    return _LAST.index(parameter.name) + 1 if parameter.name in _LAST else 0


def _parameter(field: Field[Any], flag: Flag) -> Parameter:
    words = flag.usage.split()
    names = [word for word in words if word.startswith("-")]
    make: Any = typer.Option if names else typer.Argument
    option = make(*names, metavar=next(iter(words[len(names) :]), None), help=flag.help, **flag.settings)
    annotation = Annotated[flag.kind, option]  # type: ignore[name-defined]  # (a type of runtime)
    default = Parameter.empty if field.default is MISSING else flag.shown(field.default)
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
