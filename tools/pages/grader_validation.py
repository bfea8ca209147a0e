"""docs/plugins/meta/grader_validation.md, generated from the comparisons in the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from meta_eval.pack.templates.spec import Template
from meta_eval.pack.templates.template_folder import read_templates
from meta_eval.plugins.meta import catalog, thresholds
from meta_eval.plugins.meta.catalog import grader_validation
from meta_eval.plugins.meta.catalog.grader_validation import Comparison

ROOT = Path(__file__).resolve().parents[2]
TITLES = {"instruct": "Instruct models", "pretrain": "Base models"}


def values() -> dict[str, Any]:
    """Values for grader_validation.md.j2."""
    return {
        "titles": TITLES,
        "rows": rows,
        "checks": grader_validation.list_comparisons(),
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
    formats = ("verified", "documented", "assumed")

    def rank(row: dict[str, Any]) -> tuple[int, int, int, str]:
        answers = row["check"].evidence.answers if row["check"] else 0
        return row["level"], formats.index(row["format"]), -answers, row["task"]

    return sorted(ranked, key=rank)


def rank_check(check: Comparison, task: Template) -> tuple[int, int]:
    """Lower for a comparison that says more."""
    return 0 if check.proves(task.primary_metric) else 2 if check.real else 3, -check.evidence.answers


def rows(variant: str) -> list[dict[str, Any]]:
    """The comparisons of each subset."""
    templates = tuple(read_templates(ROOT / "meta_template").tasks.values())
    words = grader_validation.describe_grading
    result = []
    for subset in sorted(
        {subset for family in ("3.1", "3.2", "3.3") for subset in catalog.list_subsets(family, variant)}
    ):  # type: ignore[arg-type]
        here = [t for t in templates if t.spec.subset == subset and variant in t.spec.variants]
        tasks = sorted(task.name for task in here)
        checks = [check for check in grader_validation.list_comparisons() if subset in check.subsets.get(variant, ())]  # type: ignore[call-overload]
        result.append({
            "subset": subset,
            "tasks": tasks,
            "format": " / ".join(sorted(set(map(grader_validation.find_format_status, tasks)))),
            "formats": [check for check in checks if check.aspect == "format"],
            "grading": " / ".join(sorted({words(task.name, task.primary_metric) for task in here})),
            "gradings": [check for check in checks if check.aspect == "grading"],
        })  # fmt: skip
    return result


def short(check: Comparison) -> str:
    """A comparison in a cell."""
    what = f"[{check.compared_with}](#{check.id})"
    if check.answers is None or check.agreement is None:
        return what
    kind = "real answers" if check.real else "cases made up"
    scores = "" if check.ours is None or check.theirs is None else f"; score {check.ours:g}, theirs {check.theirs:g}"
    part = check.held_out
    held = (
        "" if part is None else f"; held out {part.agreed:,} of {part.answers:,}" if part.answers else "; none held out"
    )
    by = f", by `{check.metric}`" if check.metric else ""
    return f"{what}: {check.agreement * 100:.2f} % of {check.answers:,} {kind}{by}{held}{scores}"
