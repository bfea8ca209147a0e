"""The arguments that several commands share, each described once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import Any, get_type_hints

import typer

from meta_eval.config.config_loader import DEFAULT_CONFIG


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
EDITED = typer.Option(
    False, "--edited", help="Run a pack that was edited since prepare wrote it; everything that follows says so."
)
ALLOW_CODE = typer.Option(False, "--allow-code", help="Also grade tasks whose scoring runs code that a model wrote.")
CANARY = typer.Option(
    True, "--canary/--no-canary", help="Compare the first 32 answers with the recorded, stop if they are far off."
)
OVERRIDES = typer.Option([], "--set", metavar="KEY=VALUE", help="Override a key, as of prepare.")
TASKS = typer.Option(
    [], "--tasks", metavar="NAMES", help="Tasks and groups of the pack, with commas; -NAME leaves one out."
)
SHARD = typer.Option("0/1", "--shard", metavar="I/N", help="Ask each N-th request from the I-th on (0 to N-1).")
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


def spread_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Make each field of a dataclass among the parameters of ``verb`` an option of its own; Typer knows no objects."""
    parameters, groups = [], {}
    hints = get_type_hints(verb)
    for parameter in signature(verb).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind) and isinstance(kind, type):
            types = get_type_hints(kind)
            groups[parameter.name] = kind
            parameters += [
                parameter.replace(name=f.name, default=f.default, annotation=types[f.name]) for f in fields(kind)
            ]
        else:
            parameters.append(parameter.replace(annotation=kind))

    @wraps(verb)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        verb(**given)

    run.__dict__["__signature__"] = Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
