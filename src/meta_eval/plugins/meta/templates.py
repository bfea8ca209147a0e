"""Reads the templates of Meta's tasks: a join that a template names must exist."""

from __future__ import annotations

from pathlib import Path

from meta_eval.plugins.meta.joins import JOINS
from meta_eval.sockets import TemplateError, TemplateFolder, read_templates, suggest_name


def read_meta_templates(root: Path) -> TemplateFolder:
    """Read every template below a folder.

    Raises:
        TemplateError: As in `meta_eval.sockets.read_templates`, or a template names an unknown join.
    """
    folder = read_templates(root)
    for template in folder.tasks.values():
        name = template.spec.join
        if name is not None and name not in JOINS:
            raise TemplateError(
                f"metadata.meta_eval.join: unknown join{suggest_name(name, JOINS)}; joins: {', '.join(JOINS)}",
                where=str(root / template.file),
            )
    return folder
