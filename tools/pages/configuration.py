"""docs/reference/configuration.md, generated from the configuration's model and the registry of joins."""

from __future__ import annotations

import json
import types
import typing

from pydantic.fields import FieldInfo

from meta_eval.harness.settings import Settings
from meta_eval.pack.backends.registry import list_backends
from meta_eval.pack.config import ALLOWED, Config


def values() -> dict[str, typing.Any]:
    """Values for configuration.md.j2."""
    needed = {name: field for name, field in Config.model_fields.items() if field.is_required()}
    shared = {name: field for name, field in Settings.model_fields.items() if name not in needed}
    own = {name: field for name, field in Config.model_fields.items() if name not in {**needed, **shared}}
    if undescribed := [name for name, field in Config.model_fields.items() if not field.description]:
        raise ValueError(f"{', '.join(undescribed)}: no description")
    tables = {"What is needed": needed, "How it is run": shared, "Folders and data": own}
    return {"tables": tables, "joins": _list_joins() if "originals" in own else {}}


def _list_joins() -> dict[str, typing.Any]:
    from meta_eval.plugins.meta.joins import JOINS

    return dict(JOINS)


def default_of(name: str, field: FieldInfo) -> str:
    """The default of a key in YAML."""
    if field.is_required():
        return "(needed)"
    if name == "originals":
        return "below"
    value = field.get_default(call_default_factory=True)
    if name == "backend" and value is None:
        return "(needed)"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def allowed(name: str, field: FieldInfo) -> str:
    """Allowed values: the words of messages if there are any, else the annotation."""
    if name == "backend":
        return ", ".join(list_backends())
    if name in ALLOWED:
        return ALLOWED[name]
    union = typing.get_origin(field.annotation) in (types.UnionType, typing.Union)
    kinds = typing.get_args(field.annotation) if union else (field.annotation,)
    return ", ".join(_kind(kind, field) for kind in kinds)


def _kind(kind: object, field: FieldInfo) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(f"`{value}`" for value in typing.get_args(kind))
    least = next((bound.ge for bound in field.metadata if hasattr(bound, "ge")), None)
    if kind is int:
        return "a whole number" + (f" from {least}" if least is not None else "")
    words = {bool: "`true`, `false`", str: "text", types.NoneType: "`null`"}
    return words[kind]  # type: ignore[index]
