"""The configuration: read from YAML, overridden by ``--set``, validated once, immutable."""

from __future__ import annotations

from meta_eval.config.config_errors import ALLOWED
from meta_eval.config.config_loader import (
    find_config_place,
    is_missing_default,
    load_config,
    open_config,
    override_settings,
)  # fmt: skip
from meta_eval.config.schema import Config, Originals

__all__ = [
    "ALLOWED", "Config", "Originals", "find_config_place", "is_missing_default", "load_config", "open_config",
    "override_settings",
]  # fmt: skip
