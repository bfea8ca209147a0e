"""The socket for keys of the configuration: a plug-in declares its own.

A package adds keys by an entry point of the group ``meta_eval.config_keys`` that names a subclass of `ConfigKeys`. Each
of its fields becomes a key. Without the plug-in the key is unknown, as any other. Keys of the group
``meta_eval.run_keys`` are settings of each run, which a pack keeps with the others; no answer may depend on them. Their
module imports `ConfigKeys` alone of meta-eval.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from meta_eval.base.display import one_line, quoted
from meta_eval.base.errors import UserError
from meta_eval.base.extensions import find_extensions, load_extension
from meta_eval.base.logs import log
from meta_eval.base.secrets import holds_secret, redact_secrets

CONFIG_KEYS_GROUP = "meta_eval.config_keys"
RUN_KEYS = "meta_eval.run_keys"

INSTEAD = "take it out, and set it in the environment of lm_eval (HF_TOKEN, or `hf auth login`)"


class ConfigKeys(BaseModel):
    """Keys of a plug-in. Each field has a default and a description, and its type says what is allowed."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    allowed: ClassVar[Mapping[str, str]] = {}
    """By key, also of the core, the allowed values in words: for messages and the page of all keys."""


@cache
def list_config_keys(group: str = CONFIG_KEYS_GROUP) -> tuple[type[ConfigKeys], ...]:
    """The keys of every plug-in in a group, sorted by its name. One that cannot be loaded is left out with a
    warning."""
    keys: list[type[ConfigKeys]] = []
    for extension in find_extensions(group).values():
        try:
            keys.append(type(load_extension(extension, ConfigKeys)))
        except UserError as error:
            log.warning(f"keys of the configuration are unknown: {error}")
    return tuple(keys)


def list_key_fields(own: Mapping[str, Any], group: str = CONFIG_KEYS_GROUP) -> dict[str, Any]:
    """The fields of all plug-ins' keys, as `pydantic.create_model` takes them.

    A key that meta-eval has, or another plug-in, is left out with a warning.

    Args:
        own: The keys that meta-eval has.
        group: The group of entry points.
    """
    fields: dict[str, Any] = {}
    for keys in list_config_keys(group):
        for name, field in keys.model_fields.items():
            if name in own or name in fields:
                log.warning(
                    f"the key {name} of {keys.__module__} is not used: the configuration has a key of this name"
                )
            else:
                fields[name] = (field.annotation, field)
    return fields


def list_allowed() -> dict[str, str]:
    """By key of a plug-in the allowed values in words."""
    groups = (CONFIG_KEYS_GROUP, RUN_KEYS)
    return {name: text for group in groups for keys in list_config_keys(group) for name, text in keys.allowed.items()}


def list_run_keys() -> frozenset[str]:
    """The keys of plug-ins that are settings of each run."""
    return frozenset(name for keys in list_config_keys(RUN_KEYS) for name in keys.model_fields)


# Where the key of a server belongs.
OF_SERVER = "take it out; for a key, name the environment variable that holds it with api_key_env"


def refuse_secret(text: object, instead: str = INSTEAD) -> None:
    """Refuse a value that holds a credential.

    Args:
        text: The value.
        instead: Where it belongs.

    Raises:
        ValueError: It does.
    """
    if isinstance(text, str) and holds_secret(text):
        raise ValueError(f"holds a credential, which would be saved in the pack: {instead}")


def make_visible(text: str) -> str:
    """Check a text of the printed command, which people read and paste.

    Raises:
        ValueError: It contains control characters or hidden characters.
    """
    if one_line(text) != redact_secrets(text):  # a text may name a setting that is no credential
        raise ValueError(f"{quoted(text)} holds an invisible character")
    return text
