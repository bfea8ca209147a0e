"""Former names of keys in users' files. They work for one more release, and a note says the new name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meta_eval.messages.errors import ConfigError
from meta_eval.messages.logs import log

# `metadata.meta_eval` of a template, also in results files of lm_eval.
OF_TEMPLATES = {"format": "row_format", "reading": "is_correct_metric", "verdict": "primary_metric"}


def replace_former_names(tree: Mapping[str, Any], names: Mapping[str, str], used: dict[str, str]) -> dict[str, Any]:
    """Replace the former names of keys.

    Args:
        tree: The keys with their values.
        names: The new name of each former one.
        used: Receives the former names that were there, with the new ones.

    Raises:
        ConfigError: A key has both names.
    """
    for old in names.keys() & tree.keys():
        if names[old] in tree:
            raise ConfigError(f"{old} is the former name of {names[old]}; leave {old} out")
        used[old] = names[old]
    return {used.get(key, key): value for key, value in tree.items()}


def say_new_names(used: Mapping[str, str], where: object) -> None:
    """Say the new name of each former one in a note."""
    if used:
        log.warning(f"{where}: {', '.join(f'{old} is now {new}' for old, new in sorted(used.items()))}")
