"""docs/plugins/meta/tasks.md: every task by variant, with the published scores of every model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from meta_eval.pack.templates import read_templates
from meta_eval.plugins.meta.listing import TaskLine, list_tasks

ROOT = Path(__file__).resolve().parents[2]
TITLES = {"instruct": "Instruct models", "pretrain": "Base models"}


def values() -> dict[str, Any]:
    """Values for tasks.md.j2."""
    folder = read_templates(ROOT / "meta_template")
    return {"titles": TITLES, "lines": list_tasks(folder, None), "groups": folder.groups}


def numbers(line: TaskLine) -> str:
    """The published scores of a task by model."""
    words: dict[str, list[str]] = {}
    for model, value, averaging, same in line.published:
        number = f"{value:g}{f' {averaging}' if averaging else ''}"
        words.setdefault(model.removeprefix("Llama-"), []).append(number if same else f"({number})")
    return "; ".join(f"{model} {', '.join(numbers)}" for model, numbers in words.items()) or "-"
