"""Turns pydantic's errors about a configuration into messages with a place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from meta_eval.base import assets
from meta_eval.base.display import quoted
from meta_eval.base.errors import ConfigError, describe_wrong_value, join_errors, suggest_name
from meta_eval.base.pack_names import join_names
from meta_eval.harness.config_keys import list_allowed
from meta_eval.harness.settings import list_default_backends
from meta_eval.pack.backends.registry import list_backends

# Allowed values where pydantic's message is unclear. Keep docs/reference/configuration.md the same.
ALLOWED = {
    "model_name": "a model id of the hub or the path of a local folder; or a list of several, for `meta-eval run`",
    "tokenizer": "null, or a model id of the hub or the path of a local folder that holds tokenizer.json",
    "other_models": "a list of model ids or folders, none twice",
    "evals_dataset": "a local folder of recorded runs, a dataset of them on the hub, or `lm-eval`",
    "tasks": "a comma list or a YAML list of tasks and groups, such as meta_instruct",
    "baseline": "null, a folder, a file or a pattern such as runs/base_*, or a list of these",
    "batch_size": "`auto`, `auto:N` or a whole number from 1",
    "limit": "null for all docs, a whole number of docs from 1, or a fraction between 0 and 1",
    "model_args": "a mapping such as {enforce_eager: true}, or text such as enforce_eager=True,quantization=fp8",
    "base_url": "an address such as http://localhost:8000/v1, or a list of several",
    "request_timeout": "a number of seconds above 0",
    "price_per_hour": "null, or a number above 0",
    "price_per_million_tokens": "null, or a mapping such as {prompt: 0.15, completion: 0.6, cached: 0.075}",
    "requests_per_minute": "null, or a number above 0",
    "tokens_per_minute": "null, or a number above 0",
    "gpu_memory_utilization": "a number above 0 and up to 1",
    "margin": "a number of points above 0 and below 100, or a mapping such as {mean: 1, meta_gpqa: 3}",
    "cluster": "a mapping of tasks to fields of their docs, such as {drop: section_id}",
    **list_allowed(),  # a plug-in may say more of a key
}

# The page that explains every key, and the number of keys up to which a message lists them instead.
_ALL_KEYS = f"All keys: {assets.asset_path('docs/reference/configuration.md')}"
_MOST_LISTED = 12


# Where users write the key itself by mistake.
_NAME_OF_SECRET = ("api_key_env",)


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """Where a value was written: a line of a file, or ``--set``."""

    file: str
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)
    overrides: Mapping[tuple[str, ...], str] = field(default_factory=dict)

    def name_key(self, key: str) -> str:
        """The place of a key of the first level, and the key, for messages."""
        return f"{self.of((key,))}: {key}"

    def of(self, key: tuple[str, ...]) -> str:
        """The place of a key. What was set is repeated, unless it may be a key of an API by mistake."""
        if key == _NAME_OF_SECRET and key in self.overrides:
            return "--set api_key_env"
        for end in range(len(key), 0, -1):
            if key[:end] in self.overrides:
                return f"--set {self.overrides[key[:end]]}"
        inside = [text for path, text in self.overrides.items() if path[: len(key)] == key]
        if inside:
            return f"--set {inside[-1]}"
        for end in range(len(key), 0, -1):
            if key[:end] in self.lines:
                return f"{self.file}:{self.lines[key[:end]]}"
        return self.of(("model_name",)) if key[:1] == ("other_models",) else self.file  # a list there sets both


# The place of a configuration that is a Python object.
CONFIG_OBJECT = ValuePlace("the configuration")


def describe_errors(error: ValidationError, place: ValuePlace, model: type[BaseModel]) -> ConfigError:
    """All errors that pydantic found, a key each, as a single message."""
    of_keys: dict[tuple[int | str, ...], ErrorDetails] = {}
    for item in error.errors(include_url=False):
        at = item["loc"] if item["type"] == "extra_forbidden" else item["loc"][:1]
        of_keys.setdefault(at, item)  # a value that may be of several types has an error of each
    # A misspelt key also counts as missing. Report the misspelling, first.
    items = sorted(of_keys.values(), key=lambda item: item["type"] != "extra_forbidden")
    found: list[ConfigError] = []
    for item in items:
        if item["type"] != "missing" or not any(repr(item["loc"][-1]) in each.what for each in found):
            found.append(_describe(item, place, model))
    return join_errors(found)


def _describe(first: ErrorDetails, place: ValuePlace, model: type[BaseModel]) -> ConfigError:
    key = tuple(
        str(part)
        for part in first["loc"]
        if isinstance(part, str) and not part.startswith(("function-", "constrained-"))
    )
    keys = _keys_at(model, key[:-1])
    if first["type"] == "extra_forbidden":
        what = f"{'.'.join(key)}: there is no such key{suggest_name(key[-1], keys)}"
        hint = _ALL_KEYS if len(keys) > _MOST_LISTED else f"Known keys: {', '.join(sorted(keys))}"
        return ConfigError(what, where=place.of(key), hint=hint)
    key = tuple(
        part
        for number, part in enumerate(key)
        if number == 0 or part in _keys_at(model, key[:number]) or (key[0] == "model_args" and number == 1)
    )
    if first["type"] == "missing" or (key == ("backend",) and first["input"] is None):  # nothing is the default
        several = list_default_backends() if key == ("backend",) else []
        more = f", and {' and '.join(several)} are each the default of a package" if several else ""
        return ConfigError(f"{'.'.join(key)}: is not set{more}", where=place.of(key), hint=describe_allowed(*key))
    allowed = describe_allowed(*key)
    if first["type"] == "value_error":
        what = describe_wrong_value(first["msg"])
    elif first["input"] is None:
        what = "has no value"
        allowed = allowed or f"Give one: {describe_wrong_value(first['msg'])}. {_ALL_KEYS}"
    elif allowed:
        what = f"{quoted(first['input'])} is not allowed"
    else:
        what = f"{quoted(first['input'])} is not allowed: {describe_wrong_value(first['msg'], first['input'])}"
    name = f"{'.'.join(key)}: " if key else ""
    return ConfigError(f"{name}{what}", where=place.of(key), hint=allowed or _ALL_KEYS)


def describe_allowed(*key: str) -> str | None:
    """The allowed values of a key, as a hint. None if its error says them."""
    if key == ("backend",):
        return f"Allowed: {join_names(list_backends(), _MOST_LISTED)}"
    return f"Allowed: {ALLOWED[key[0]]}" if key and key[0] in ALLOWED else None


def _keys_at(model: type[BaseModel], path: Iterable[str]) -> set[str]:
    """The keys that a model has at a path."""
    section: type[BaseModel] | None = model
    for part in path:
        annotation = section.model_fields[part].annotation if section and part in section.model_fields else None
        types = (annotation, *get_args(annotation))  # such as TokenPrices | None
        section = next((some for some in types if isinstance(some, type) and issubclass(some, BaseModel)), None)
    return set(section.model_fields) if section else set()
