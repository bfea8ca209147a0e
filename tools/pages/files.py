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
        "formats": _list_formats(),
        "schema_version": manifest.SCHEMA_VERSION,
        "entries": [{"name": entry.__name__, "fields": _fields(entry), "text": _text(entry)} for entry in entries],
    }


def _list_formats() -> list[tuple[str, str, str]]:
    """File, the place of its version, and the version."""
    from meta_eval.ask.answer_files import VERSION
    from meta_eval.cli.verify import VERIFY_SCHEMA as OF_VERIFY
    from meta_eval.judge import token_table
    from meta_eval.pack import manifest
    from meta_eval.reports import candidates, report_data, texts_report

    return [
        ("`manifest.json` of a pack", "`schema_version`", f"{manifest.SCHEMA_VERSION}"),
        ("requests and answers", "`version` of the first line", f"{VERSION}"),
        ("`verify --json`", "`schema_version`", f"{OF_VERIFY}"),
        ("`report --json`, `compare --json`", "`schema_version`", f"{report_data.REPORT_SCHEMA}"),
        ("`compare A B C --json`", "`schema_version`", f"{candidates.CANDIDATES_SCHEMA}"),
        ("`compare --texts --json`", "`schema_version`", f"{texts_report.TEXTS_SCHEMA}"),
        ("tables of token log-probabilities", "`schema_version`", f"{token_table.TABLE_SCHEMA}"),
    ]


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
