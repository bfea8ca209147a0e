"""docs/plugins/meta/grader_validation.md and .json, generated from the comparisons in the catalog."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from meta_eval.pack.templates.spec import Template
from meta_eval.pack.templates.template_folder import read_templates
from meta_eval.plugins.meta import thresholds
from meta_eval.plugins.meta.catalog import grader_validation
from meta_eval.plugins.meta.catalog.grader_validation import Comparison

ROOT = Path(__file__).resolve().parents[2]


def values() -> dict[str, Any]:
    """Values for grader_validation.md.j2 and grader_validation.json.j2."""
    comparisons = [check.model_dump(mode="json", exclude_none=True) for check in grader_validation.list_comparisons()]
    return {
        "data": json.dumps(comparisons, ensure_ascii=False, indent=2),
        "proven": thresholds.MIN_VALIDATED_AGREEMENT,
        "many": thresholds.MIN_VALIDATED_ROWS,
        "ranked": rank_tasks(),
    }


WORDS = (
    "verified on real answers", "the verified grader of {}", "compared on real answers", "compared on made-up cases",
    "the compared grader of {}", "nothing to compare with",
)  # fmt: skip


def rank_tasks() -> list[dict[str, Any]]:
    """All tasks, those whose verdicts are proven on most answers first.

    A task whose verdicts were compared with nothing may have exactly the grader of one whose verdicts were.
    """
    ranked = []
    for name, task in read_templates(ROOT / "meta_template").tasks.items():
        check, shared = grader_validation.find_grading(name, task.primary_metric), None
        if check is None and (shared := grader_validation.find_same_grader(name)):
            check = grader_validation.find_grading(shared, task.primary_metric)
        level = 5 if check is None else rank_check(check, task)[0]
        if check is not None and shared:
            level = 1 if level == 0 else 4
        ranked.append({
            "task": name, "level": level, "words": WORDS[level].format(f"`{shared}`"), "check": check,
            "format": grader_validation.find_format_status(name),
        })  # fmt: skip
    formats = ("seen", "documented", "assumed")

    def rank(row: dict[str, Any]) -> tuple[int, int, int, str]:
        answers = row["check"].evidence.answers if row["check"] else 0
        return row["level"], formats.index(row["format"]), -answers, row["task"]

    return sorted(ranked, key=rank)


def rank_check(check: Comparison, task: Template) -> tuple[int, int]:
    """Lower for a comparison that says more."""
    return 0 if check.proves(task.primary_metric) else 2 if check.real else 3, -check.evidence.answers
