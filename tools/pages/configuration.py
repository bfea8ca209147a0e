"""docs/configuration.md, from the configuration's own model and from the registry of joins."""

from __future__ import annotations

import types
import typing

from pydantic.fields import FieldInfo

from meta_eval.config import ALLOWED, Config
from meta_eval.engines.settings import Settings
from meta_eval.joins import JOINS

HEAD = """# eval_config.yaml, key by key

<!-- Written by `python tools/write_pages.py` from the descriptions in config.py and engines/settings.py. -->

`meta-eval init` writes a file to start from. `meta-eval prepare --config other.yaml` (also `-c`, `--config_path`)
reads another; `--set tasks=meta_ifeval` overrides one key and may be repeated; `--set model_args.enforce_eager=true`
reaches into a mapping. A file that was written for Meta's `meta_eval` recipe works unchanged. A misspelt key is
refused, with the key that it is like.

Paths count from the working directory and stand in the command as you wrote them: a folder that holds `work_dir/` can
be moved with it, and the command still works from there. `HF_TOKEN`, `HF_HOME`, `HF_HUB_OFFLINE` and `HF_ENDPOINT` are
honoured.
"""

ORIGINALS = """
## originals

Where each join finds the ground truth, or Gorilla its databases of APIs, such as `originals: {math: {id: my/copy}}`. An
id is a hub id or a local path; `revision` pins it; a `fallback` is tried, and said aloud, where the id cannot be had.

| join | default | fallback | split |
|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    own = {name: field for name, field in Config.model_fields.items() if name not in Settings.model_fields}
    needed = [name for name, field in Config.model_fields.items() if field.is_required()]
    lines = [HEAD, *_table("What is needed", {name: Config.model_fields[name] for name in needed})]
    shared = {name: field for name, field in Settings.model_fields.items() if name not in needed}
    lines += _table("How it is run", shared)
    lines += _table("Folders and data", {name: field for name, field in own.items() if name not in needed})
    lines.append(ORIGINALS.strip("\n"))
    for name, join in JOINS.items():
        fallback = f"`{join.original.fallback}`" if join.original.fallback else ""
        lines.append(f"| {name} | `{join.original.id}` | {fallback} | {join.split} |")
    return "\n".join(lines) + "\n"


def _table(title: str, fields: typing.Mapping[str, FieldInfo]) -> list[str]:
    lines = [f"## {title}", "", "| key | default | allowed | meaning |", "|---|---|---|---|"]
    for name, field in fields.items():
        cells = (f"`{name}`", _default(name, field), _allowed(name, field), field.description or "")
        if not field.description:
            raise ValueError(f"{name} has no description")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return [*lines, ""]


def _default(name: str, field: FieldInfo) -> str:
    if field.is_required():
        return "(needed)"
    if name == "originals":
        return "below"
    value = field.get_default(call_default_factory=True)
    return "`null`" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _allowed(name: str, field: FieldInfo) -> str:
    """In words where a message has words for it, else by the annotation."""
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
