"""The errors that meta-eval raises, for import by other programs."""

from __future__ import annotations

from meta_eval.base.errors import (
    ConfigError,
    DataError,
    JoinError,
    PackError,
    SourceError,
    TemplateError,
    UserError,
)

__all__ = ["ConfigError", "DataError", "JoinError", "PackError", "SourceError", "TemplateError", "UserError"]
