"""Rows of Meta's evals datasets made into docs, what filters take and return, and the scores of most tasks."""

from __future__ import annotations

import json
import math
import string
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import datasets

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

families = load.module(".._common.families")

# What lm-eval's regex filter hands on when nothing matched.
NO_MATCH = "[invalid]"


# Docs


def docs_by(make_doc: Callable[[dict], dict]) -> Callable[[datasets.Dataset], datasets.Dataset]:
    """A ``process_docs`` of a function that makes a doc of a row.

    It has that function as ``make_doc``, so that prepare can make the docs of some rows at a time.
    """

    def process_docs(dataset: datasets.Dataset) -> datasets.Dataset:
        """Rows of the details subset in, docs out: one a row, in the same order."""
        import datasets

        return datasets.Dataset.from_list([make_doc(row) for row in dataset])

    process_docs.make_doc = make_doc
    return process_docs


def make_doc(row: dict) -> dict:
    """The columns that every doc of every task has; a task may add to them.

    The ``recorded_*`` columns are what Meta's own model answered and whether Meta counted it as right: what your
    model's answers can be compared with, sample by sample. ``answers`` are all correct responses, with the gold.
    """
    return {
        "question": row["input_question"],
        "prompt": families.without_bos(row["input_final_prompts"][0]),
        # Several subsets wrap the letter in quotation marks.
        "gold": row["input_correct_responses"][0].strip('"'),
        "subtask_name": row.get("subtask_name"),
        "choices": choices(row),
        "input_question_hash": row["input_question_hash"],
        "input_final_prompts_hash": row["input_final_prompts_hash"],
        "recorded_output": (row.get("output_prediction_text") or [None])[0],
        "recorded_is_correct": row.get("is_correct"),
        "recorded_metrics": recorded_metrics(row),
        "answers": list(row["input_correct_responses"]),
    }


process_docs = docs_by(make_doc)


def refused(row: dict, why: str) -> ValueError:
    """What to raise of a row of which no doc can be made; prepare shows it to the user."""
    return ValueError(f"question hash {row['input_question_hash']}: {why}")


def recorded_metrics(row: dict) -> str | None:
    """What Meta's metrics gave its answer, as JSON text: ``{"em": 0.0, "f1": 0.8}``, or None when it recorded none."""
    metrics = row.get("output_metrics") or {}
    kept = {name: metrics[name] for name in sorted(metrics) if metrics[name] is not None}
    return json.dumps(kept) if kept else None


def choices(row: dict) -> list[dict] | None:
    """The answer choices as ``[{"key": "A", "text": …}, …]``; Meta's struct holds a null for each letter not used."""
    listed = row.get("input_choice_list")
    return [{"key": key, "text": listed[key]} for key in sorted(listed) if listed[key] is not None] if listed else None


def doc_to_text(doc: dict) -> str:
    """The prompt, exactly as Meta gave it to its model: few-shot examples and chat headers are in it."""
    return doc["prompt"]


# Filters


def each(resps: list[list[str]], docs: list[dict], read: Callable[[str, dict], str | None]) -> list[list[str]]:
    """What a filter takes and returns: of each doc's outputs what ``read`` finds in them, or the word for no match."""
    return [
        [read(output or "", doc) or NO_MATCH for output in outputs] for outputs, doc in zip(resps, docs, strict=True)
    ]


# Scoring


def process_results(doc: dict, results: list[str]) -> dict:
    """Score one answer, of which the filter has left what it extracted.

    ``exact_match`` compares without case and punctuation. ``exact_match_macro`` is the same verdict with its subtask,
    for the macro average that Meta publishes. ``unextracted`` counts answers that the filter found nothing in: they are
    wrong whatever the gold, also where it reads "invalid".
    """
    extracted = results[0]
    is_extracted = extracted not in ("", NO_MATCH)
    right = float(is_extracted and plain(extracted) == plain(doc["gold"]))
    return {
        "exact_match": right,
        "exact_match_macro": (doc["subtask_name"], right),
        "unextracted": float(not is_extracted),
    }


def plain(text: str) -> str:
    """As lm-eval's exact_match compares with ignore_case and ignore_punctuation."""
    return text.lower().translate(str.maketrans("", "", string.punctuation))


def macro_average(items: list[tuple[str | None, float]]) -> float:
    """The mean over subtasks of the mean within each: every subtask counts the same, however many docs it has."""
    scores: dict[str | None, list[float]] = {}
    for subtask, score in items:
        scores.setdefault(subtask, []).append(score)
    return math.fsum(math.fsum(group) / len(group) for group in scores.values()) / len(scores)


def mean(items: list[float | None]) -> float:
    """The mean over the docs that have the metric; no number when none has."""
    scores = [item for item in items if item is not None]
    return math.fsum(scores) / len(scores) if scores else math.nan
