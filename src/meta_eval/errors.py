"""The errors that meta-eval raises, under the name by which other programs import them."""

from __future__ import annotations

from meta_eval.messages.errors import (
    ConfigError,
    DataError,
    JoinError,
    PackError,
    SourceError,
    TemplateError,
    UserError,
)

__all__ = ["ConfigError", "DataError", "JoinError", "PackError", "SourceError", "TemplateError", "UserError"]
