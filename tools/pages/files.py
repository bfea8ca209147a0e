"""docs/reference/files.md: the fields of a manifest from its model, and hand-written text."""

from __future__ import annotations

import re
import types
import typing
from typing import Any

from pydantic import BaseModel

from meta_eval.pack import manifest

_WORDS = {str: "text", int: "number", float: "number", bool: "true or false", types.NoneType: "null"}


def values() -> dict[str, Any]:
    """Values for files.md.j2."""
    entries = [
        manifest.Manifest,
        manifest.TaskEntry,
        manifest.RecordEntry,
        manifest.BaselineEntry,
        manifest.ReferenceScoreEntry,
        manifest.SharedTextEntry,
    ]
    return {
        "schema_version": manifest.SCHEMA_VERSION,
        "entries": [{"name": entry.__name__, "fields": _fields(entry), "text": _text(entry)} for entry in entries],
    }


def _text(model: type[BaseModel]) -> str:
    return re.sub(r"``(.+?)``", r"`\1`", " ".join((model.__doc__ or "").partition("Attributes:")[0].split()))


def _fields(model: type[BaseModel]) -> list[tuple[str, str]]:
    return [(name, _kind(field.annotation)) for name, field in model.model_fields.items()]


def _kind(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " or ".join(f"`{argument}`" for argument in arguments)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(map(_kind, arguments))
    if origin is tuple:
        return f"list of {_kind(arguments[0])}"
    if origin is dict:
        return f"mapping to {_kind(arguments[1])}"
    if origin is typing.Annotated:
        return _kind(arguments[0])
    return _WORDS.get(annotation) or getattr(annotation, "__name__", str(annotation))
