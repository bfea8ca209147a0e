"""The configuration: read from YAML, overridden by ``--set``, validated once, immutable."""

from __future__ import annotations

from meta_eval.pack.config.config_errors import ALLOWED, CONFIG_OBJECT, ValuePlace
from meta_eval.pack.config.config_loader import (
    NEW_PACK,
    is_missing_default,
    load_config,
    open_config,
    override_settings,
)  # fmt: skip
from meta_eval.pack.config.schema import Config, name_results_folder

__all__ = [
    "ALLOWED",
    "CONFIG_OBJECT",
    "NEW_PACK",
    "Config",
    "ValuePlace",
    "is_missing_default",
    "load_config",
    "name_results_folder",
    "open_config",
    "override_settings",
]  # fmt: skip
