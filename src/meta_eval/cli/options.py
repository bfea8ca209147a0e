"""Arguments that several commands share, and the fields of options objects as arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from meta_eval.base.errors import ConfigError, UserError
from meta_eval.base.logs import log
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import NAMED
from meta_eval.base.verb_options import Flag
from meta_eval.pack.pack_options import DEFAULT_CONFIG, OVERRIDE


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
OVERRIDES: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help=OVERRIDE)
VIEWS: list[str] = typer.Option(
    [], "--view", metavar="NAME=FILE", help="Write another view: {views}. Some show a comparison alone."
)
# Those of `meta_eval.reports.views`, which is slow to import.
_SHIPPED_VIEWS = ("eval-results", "flips", "html", "json", "markdown", "text")

AS_JSON: bool = typer.Option(False, "--json", help="Print one JSON object on stdout.")
SHARES_AS_JSON: bool = typer.Option(False, "--json", help="Print one JSON object on stdout. Scores are from 0 to 1.")


def complete_help(parameter: Any) -> None:
    """Name the views that are installed in the help of an option, when help is shown: to find them takes time."""
    from meta_eval.base.extensions import find_extensions

    names = sorted({*_SHIPPED_VIEWS, *find_extensions("meta_eval.views")})
    parameter.help = parameter.help.replace("{views}", ", ".join(names))


def pack_folder(pack: Path | None, config: Path, *, hint: str = "Name its folder") -> Path:
    """The pack that was named, else the configuration's work_dir, else the default work_dir.

    Of a pack that was not named a note says which of its local files have changed: nobody prepares it again.

    Args:
        pack: The pack.
        config: The configuration.
        hint: How to name the pack.

    Raises:
        ConfigError: There is none of these, or the configuration is wrong.
    """
    if pack is not None:
        if config != Path(DEFAULT_CONFIG) and not config.is_file():
            raise ConfigError(f"there is no file {config}", where="--config", hint="Leave it out: a pack is named")
        return pack
    from meta_eval.pack.config import Config, is_missing_default, load_config

    default = Path(Config.model_fields["work_dir"].default)
    if is_missing_default(config):
        if default.is_dir():
            _note_changed_sources(default)
            return default
        raise ConfigError(
            f"no pack is named, and neither {DEFAULT_CONFIG} nor {default} is in this folder",
            hint=f"{hint}, or make one: `meta-eval init`, then `meta-eval prepare`",
        )
    folder = Path(load_config(config).work_dir)
    _note_changed_sources(folder)
    return folder


def _note_changed_sources(pack: Path) -> None:
    from meta_eval.pack.manifest import read_manifest
    from meta_eval.pack.source_files import find_changed_sources

    with suppress(UserError):  # who works with the pack says what is wrong with it
        if changed := find_changed_sources(read_manifest(pack)):
            log.warning(
                f"{join_names(changed, NAMED)} changed since {pack} was prepared: `meta-eval prepare` makes it again"
            )


# The order in which a user needs them.
_FIRST = ("pack", "config", "overrides", "tasks", "to", "baseline", "margin", "max_drop", "cap", "gate")
_LAST = ("view", "same_deployment", "allow_code", "edited", "as_json")


def spread_options(**helps: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn each field of a verb's options object into an option. Typer does not support such objects.

    Args:
        helps: By field the help of a verb that says more than the option itself.
    """
    return lambda verb: _spread(verb, helps)


def _spread(verb: Callable[..., None], helps: Mapping[str, str]) -> Callable[..., None]:
    parameters, groups = [], {}
    hints = get_type_hints(verb)
    for parameter in signature(verb).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = kind
            parameters += [_parameter(field, helps.get(field.name)) for field in fields(kind)]
        else:
            parameters.append(parameter.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY))

    @wraps(verb)
    def run(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(
                **{field.name: field.metadata["flag"].read(values.pop(field.name)) for field in fields(kind)}
            )
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


def _parameter(field: Field[Any], text: str | None) -> Parameter:
    flag: Flag = field.metadata["flag"]
    words = flag.usage.split()
    names = [word for word in words if word.startswith("-")]
    make: Any = typer.Option if names else typer.Argument
    option = make(*names, metavar=next(iter(words[len(names) :]), None), help=text or flag.help, **flag.settings)
    annotation = Annotated[flag.kind, option]  # type: ignore[name-defined]  # (a type of runtime)
    default = Parameter.empty if field.default is MISSING else flag.shown(field.default)
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
