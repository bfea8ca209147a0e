"""The user's configuration: read from YAML, overridden by ``--set``, checked once, frozen."""

from __future__ import annotations

from meta_eval.config.load import load_config, overridden
from meta_eval.config.messages import ALLOWED
from meta_eval.config.model import Config, Originals

__all__ = ["ALLOWED", "Config", "Originals", "load_config", "overridden"]
