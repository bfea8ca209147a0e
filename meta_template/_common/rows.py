"""Docs from the rows of Meta's evals datasets, and the filters and scores that most tasks share."""

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

# lm-eval's regex filter returns this if nothing matches.
NO_MATCH = "[invalid]"

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


# Docs


def docs_by(make_doc: Callable[[dict], dict]) -> Callable[[datasets.Dataset], datasets.Dataset]:
    """Make a ``process_docs`` from a function that turns a row into a doc.

    The result has the function as its attribute ``make_doc``, with which prepare makes docs in batches.
    """

    def process_docs(dataset: datasets.Dataset) -> datasets.Dataset:
        """Turn each row of the details subset into a doc, in the same order."""
        import datasets

        return datasets.Dataset.from_list([make_doc(row) for row in dataset])

    process_docs.make_doc = make_doc
    return process_docs


def make_doc(row: dict) -> dict:
    """Make the columns that every doc of every task has. A task may add more.

    The ``recorded_*`` columns are the answer of Meta's own model and Meta's verdict on it. Compare your model's answers
    with them sample by sample. ``answers`` are all correct responses, including the gold.
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
    """Return the error to raise for a row without a valid doc. prepare shows it to the user."""
    return ValueError(f"question hash {row['input_question_hash']}: {why}")


def recorded_metrics(row: dict) -> str | None:
    """Return Meta's metrics of the recorded answer as JSON, ``{"em": 0.0, "f1": 0.8}``, or None without metrics."""
    metrics = row.get("output_metrics") or {}
    kept = {name: metrics[name] for name in sorted(metrics) if metrics[name] is not None}
    return json.dumps(kept) if kept else None


def choices(row: dict) -> list[dict] | None:
    """Return the choices as ``[{"key": "A", "text": …}, …]`` without the letters that are null in Meta's struct."""
    listed = row.get("input_choice_list")
    return [{"key": key, "text": listed[key]} for key in sorted(listed) if listed[key] is not None] if listed else None


def doc_to_text(doc: dict) -> str:
    """Return Meta's exact prompt, which includes few-shot examples and chat headers."""
    return doc["prompt"]


# Filters


def each(resps: list[list[str]], docs: list[dict], read: Callable[[str, dict], str | None]) -> list[list[str]]:
    """Apply ``read`` to every output of every doc, as a filter of lm-eval does. No result becomes `NO_MATCH`."""
    return [
        [read(output or "", doc) or NO_MATCH for output in outputs] for outputs, doc in zip(resps, docs, strict=True)
    ]


# Scoring


def process_results(doc: dict, results: list[str]) -> dict:
    """Score the text that a filter extracted from an answer.

    ``exact_match`` ignores case and punctuation. ``exact_match_macro`` is the same verdict with its subtask, for the
    macro average that Meta publishes. ``unextracted`` is 1 if the filter extracted nothing. Such an answer is wrong,
    even for a gold "invalid".
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
    """Remove case and punctuation as lm-eval's exact_match does with ignore_case and ignore_punctuation."""
    return text.lower().translate(_NO_PUNCTUATION)


def macro_average(items: list[tuple[str | None, float]]) -> float:
    """Average the subtasks' means. Each subtask has the same weight, however many docs it has."""
    scores: dict[str | None, list[float]] = {}
    for subtask, score in items:
        scores.setdefault(subtask, []).append(score)
    return math.fsum(math.fsum(group) / len(group) for group in scores.values()) / len(scores)


def mean(items: list[float | None]) -> float:
    """Average over the docs that have the metric. NaN if none has it."""
    scores = [item for item in items if item is not None]
    return math.fsum(scores) / len(scores) if scores else math.nan
