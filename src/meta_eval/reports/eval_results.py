"""The hub's ``.eval_results/*.yaml``: scores that appear on a model's page and on a benchmark's leaderboard.

Format: https://huggingface.co/docs/hub/eval-results, and ``EvalResultEntry`` of huggingface_hub. It takes only datasets
that are registered as benchmarks, with the task ids of their own ``eval.yaml``; most of Meta's subsets have none. What
has none is left out, and the file says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from meta_eval.base.display import visible
from meta_eval.base.thresholds import LEVEL_TEXT
from meta_eval.base.version import __version__
from meta_eval.judge.decision import Score, TaskDecision
from meta_eval.reports.document import Document
from meta_eval.reports.text import format_interval, format_percent


@dataclass(frozen=True, slots=True)
class _Benchmark:
    dataset_id: str
    task_id: str
    docs: int


# By details subset: the registered benchmark that the subset covers completely, and its number of docs.
_BENCHMARKS = {
    "mmlu_pro": _Benchmark("TIGER-Lab/MMLU-Pro", "mmlu_pro", 12032),
    "gpqa_diamond": _Benchmark("Idavidrein/gpqa", "gpqa_diamond", 198),
    "gsm8k": _Benchmark("openai/gsm8k", "gsm8k", 1319),
}

# How each file begins.
FIRST_LINE = "# Put this file into .eval_results/ of the model's repository."

_SOURCE = "https://github.com/EleutherAI/lm-evaluation-harness"


def render(document: Document) -> str:
    """The file's text: entries in YAML, and a comment for each task that it cannot hold; values in percent."""
    entries: list[dict[str, Any]] = []
    comments = [FIRST_LINE]
    for task in document.tasks:
        reason = _left_out(task)
        if reason is None:
            entries.append(_entry(document, task, _chosen(task)))
        else:
            comments.append(f"# {_line(task.name)} is left out: {reason}")
    text = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=100) if entries else "[]\n"
    return "\n".join(comments) + "\n" + text


def _left_out(task: TaskDecision) -> str | None:
    benchmark = _BENCHMARKS.get(task.subset or "")
    if benchmark is None:
        return "its dataset is not registered as a benchmark on the hub"
    if not task.scores:
        return "it has no score"
    if task.docs != benchmark.docs:
        return f"{task.docs:,} docs were scored, and the benchmark has {benchmark.docs:,}"
    return None


def _chosen(task: TaskDecision) -> Score:
    """The micro average if there is one, because leaderboards average over docs."""
    return next((score for score in task.scores if score.averaging == "micro"), task.scores[0])


def _entry(document: Document, task: TaskDecision, score: Score) -> dict[str, Any]:
    benchmark = _BENCHMARKS[task.subset or ""]
    facts = dict(document.runs[0].provenance)
    changed = sum(
        affected.count or 0
        for alarm in document.alarms
        for affected in alarm.tasks
        if alarm.kind == "changed prompts" and affected.task == task.name
    )
    prompts = f"{changed} of {task.docs} prompts are not the recorded ones" if changed else "the recorded prompts"
    notes = [f"{task.name}: {prompts}", f"{score.averaging} average"]
    if score.reference and score.reference.shots is not None:
        notes.insert(1, f"{score.reference.shots}-shot")
    if score.interval is not None:
        notes.append(f"{LEVEL_TEXT} interval {format_interval(score.interval)}")
    notes += [f"lm-eval {facts['lm-eval']}"] if "lm-eval" in facts else []
    notes.append(f"meta-eval {__version__}")
    entry: dict[str, Any] = {
        "dataset": {"id": benchmark.dataset_id, "task_id": benchmark.task_id},
        "value": float(format_percent(score.value, 2)),
    }
    if "date" in facts:
        entry["date"] = facts["date"][:10]
    entry["source"] = {"url": _SOURCE, "name": "lm-evaluation-harness"}
    entry["notes"] = _line("; ".join(notes))
    return entry


def _line(text: str) -> str:
    return visible(" ".join(text.split()))
