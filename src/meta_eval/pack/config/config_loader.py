"""Builds a configuration from a YAML file and ``key=value`` overrides."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from meta_eval.base.display import quoted
from meta_eval.base.errors import ConfigError, locating
from meta_eval.base.logs import log
from meta_eval.base.yaml_files import NotYamlError, parse_yaml, read_yaml
from meta_eval.harness.settings import RunSettings, Settings, find_default_backend, parse_args
from meta_eval.pack.backends.registry import find_backend
from meta_eval.pack.config.config_errors import CONFIG_OBJECT, ValuePlace, describe_errors
from meta_eval.pack.config.schema import Config
from meta_eval.pack.pack_options import DEFAULT_CONFIG

# The longest key has three parts, as originals.math.revision of a plug-in; the rest is room for mistakes.
_MOST_PARTS = 8

# What to do where an override needs another pack than the named one.
NEW_PACK = "Leave PACK out, and a pack of other settings is prepared"

# Arguments of ``model_args`` with one meaning on every engine that has them.
_OF_ALL = frozenset(("revision", "trust_remote_code"))


def load_config(path: Path | None, overrides: Sequence[str] = ()) -> Config:
    """Read, override and check a configuration.

    Args:
        path: The YAML file. None means that everything comes from ``overrides``. The default file may be missing if
            there are overrides.
        overrides: ``key=value`` each, the value in YAML. ``model_args.enforce_eager=true`` reaches into a mapping.

    Raises:
        ConfigError: The file cannot be read, is not YAML, or has an invalid value.
    """
    return _load(path, overrides)[0]


def open_config(config: Config | Path | str, overrides: Sequence[str] = ()) -> tuple[Config, ValuePlace]:
    """Load a configuration or its file, with overrides. Also return where its values were written, for messages.

    Raises:
        ConfigError: As in `load_config`.
    """
    if not isinstance(config, Config):
        return _load(Path(config), overrides)
    if not overrides:
        return config, CONFIG_OBJECT
    set_values = {name: getattr(config, name) for name in config.model_fields_set}
    return _override_all(set_values, overrides, CONFIG_OBJECT.file)


def override_settings(settings: RunSettings, overrides: Sequence[str]) -> RunSettings:
    """Override settings of a pack, as `load_config` does for a file.

    Raises:
        ConfigError: An override names an unknown setting or has an invalid value.
    """
    data: dict[str, Any] = {name: getattr(settings, name) for name in Settings.model_fields}
    before = dict(data)
    places: dict[tuple[str, ...], str] = {}
    for override in overrides:
        path = _override(data, override)
        if path[0] in Config.model_fields and path[0] not in Settings.model_fields:
            what = "cannot change: the pack was made with it"
            raise ConfigError(what, where=f"--set {override:.200}", hint=NEW_PACK)
        places[path] = override
    _leave_tuning(before, data, places)
    is_elsewhere = ("base_url",) in places and not {*_listed(data["base_url"])} <= {*settings.base_url}
    if is_elsewhere and settings.base_url and os.environ.get(settings.api_key_env) and ("api_key_env",) not in places:
        what = f"is another server, and the key in {settings.api_key_env} is that of the pack's"
        raise ConfigError(
            what, where="--set base_url", hint="Add --set api_key_env=NAME of its own key, or of the same one"
        )
    whole = {**data, "tasks": settings.tasks, "evals_dataset": "lm-eval"}
    config = _validate(whole, ValuePlace("the manifest", {}, places))
    if config.other_models:
        raise ConfigError("names several models, and a pack is run with one", where="model_name", hint=NEW_PACK)
    return settings.model_copy(update={name: getattr(config, name) for name in Settings.model_fields})


def _listed(value: Any) -> list[str]:
    """Addresses as they are given: in one text with commas, or in a list."""
    return (
        [part.strip() for part in value.split(",")] if isinstance(value, str) else [str(part) for part in value or ()]
    )


def _load(path: Path | None, overrides: Sequence[str]) -> tuple[Config, ValuePlace]:
    source = "--set" if path is None else str(path)
    if overrides and path is not None and is_missing_default(path):
        path, source = None, f"--set (there is no {DEFAULT_CONFIG} here)"
    data: dict[str, Any]
    data, lines = _read_yaml(path) if path is not None else ({}, {})
    return _override_all(data, overrides, source, lines)


def _override_all(
    data: dict[str, Any],
    overrides: Sequence[str],
    source: str,
    lines: Mapping[tuple[str | int, ...], int] = MappingProxyType({}),
) -> tuple[Config, ValuePlace]:
    """Build a configuration from a mapping with overrides. ``source`` and ``lines`` tell where it was written."""
    places: dict[tuple[str, ...], str] = {}
    before = dict(data)
    for override in overrides:
        places[_override(data, override)] = override
    _leave_tuning(before, data, places)
    place = ValuePlace(source, lines, places)
    return _validate(data, place), place


def _leave_tuning(before: Mapping[str, Any], data: dict[str, Any], places: Mapping[tuple[str, ...], str]) -> None:
    """Where an override names another engine, leave out the ``model_args`` of the former that set its speed and memory.

    Args:
        before: The values without overrides.
        data: The values with them; changed here.
        places: The overrides, by what they set.

    Raises:
        ConfigError: Another of these arguments may change answers, and the new engine may not have it.
    """
    if ("backend",) not in places or ("model_args",) in places:
        return
    try:
        written = parse_args(before.get("model_args"))
        old, new = (find_backend(of.get("backend", find_default_backend())) for of in (before, data))
    except (ValueError, TypeError):  # what is wrong is said when the whole is checked
        return
    if not isinstance(written, dict) or (old.args_of or old.name) == (new.args_of or new.name):
        return
    kept = {*_OF_ALL, *new.tuning, *(path[1] for path in places if len(path) > 1 and path[0] == "model_args")}
    others = [str(name) for name in written if name not in kept]
    where = f"--set {places['backend',]:.200}"
    if unclear := [name for name in others if name not in old.tuning]:
        raise ConfigError(
            f"model_args.{unclear[0]} is for backend {old.name}, and may change answers",
            where=where, hint="Set model_args for this backend, too: --set model_args={} for none",
        )  # fmt: skip
    if others:
        data["model_args"] = {
            name: value for name, value in _mapping("model_args", data["model_args"]).items() if name not in others
        }
        log.warning(
            f"{where}: without model_args {', '.join(others)}, which {'sets' if len(others) == 1 else 'set'} the speed "
            f"and memory of backend {old.name} alone"
        )


def _validate(data: dict[str, Any], place: ValuePlace) -> Config:
    try:
        return Config.model_validate(data)
    except ConfigError as error:
        if isinstance(error.__context__, ValidationError):
            raise describe_errors(error.__context__, place, Config) from None
        raise


def is_missing_default(path: Path) -> bool:
    """Whether a path is the default configuration file and does not exist."""
    return path == Path(DEFAULT_CONFIG) and not path.exists()


def _read_yaml(path: Path) -> tuple[dict[str, Any], Mapping[tuple[str | int, ...], int]]:
    hint = "Run `meta-eval init` for one to start from, or name yours with --config"
    if (path / DEFAULT_CONFIG).is_file():
        raise ConfigError("is a folder", where=str(path), hint=f"Name the file in it: --config {path / DEFAULT_CONFIG}")
    document = read_yaml(path, error=ConfigError, hint=None if path.exists() else hint)
    if not isinstance(document.tree, dict):
        raise ConfigError("must be a mapping of keys to values, such as `model_name: …`", where=str(path))
    return document.tree, document.lines


def _mapping(key: str, value: object) -> dict[str, Any]:
    """The value of a key, as a mapping that an override can change."""
    try:
        arguments = parse_args(value) if key == "model_args" else value
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None
    if arguments is not None and not isinstance(arguments, dict):
        raise ConfigError(f"{key}: {quoted(arguments)} is not a mapping, so it has no keys to set")
    return dict(arguments or {})


def _override(data: dict[str, Any], override: str) -> tuple[str, ...]:
    key, equals, text = override.partition("=")
    path = tuple(key.strip().split("."))
    if not equals or not all(path) or len(path) > _MOST_PARTS:
        hint = "Write it as in --set tasks=meta_ifeval"
        raise ConfigError("is not of the form key=value", where=f"--set {override:.200}", hint=hint)
    try:
        value = parse_yaml(text, where=f"--set {override:.200}", lines_in_where=False).tree
    except NotYamlError:
        value = text
    node = data
    for part in path[:-1]:
        with locating(f"--set {override:.200}"):
            node[part] = _mapping(part, node.get(part))
        node = node[part]
    node[path[-1]] = value
    return path
