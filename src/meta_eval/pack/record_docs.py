"""Matches the docs of lm-eval's own task with the pack of a recorded run of the same task."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from meta_eval.base.inputs import read_table
from meta_eval.harness.doc_results import DocResult
from meta_eval.pack.manifest import ReferenceScoreEntry, TaskEntry

_HASHES = ("input_question_hash", "input_final_prompts_hash")
_COLUMNS = (*_HASHES, "gold", "subtask_name", "cluster", "recorded_is_correct", "recorded_metrics")

# Percentage points by which a record's own score may differ from the mean of its docs: files may round it.
_SAME_SCORE = 0.006


def match_record_docs(docs: Sequence[DocResult], pack: Path, entry: TaskEntry) -> tuple[tuple[DocResult, ...], int]:
    """Match docs with those of a pack by the hashes of doc and prompt, and add the pack's facts.

    Args:
        docs: The docs of a run that was not made with the pack.
        pack: The folder of the pack.
        entry: The task of a record.

    Returns:
        These docs in the pack's order and numbering, and the number of unmatched docs.
    """
    waiting: dict[tuple[str, tuple[str, ...]], list[DocResult]] = {}
    for doc in reversed(docs):
        waiting.setdefault((doc.question_hash, doc.prompt_hashes), []).append(doc)
    matched = []
    for number, row in enumerate(_rows(pack, entry)):
        same = waiting.get((row["input_question_hash"], tuple(row["input_final_prompts_hash"])))
        if same:
            matched.append(_as_row(same.pop(), number, row))
    return tuple(matched), len(docs) - len(matched)


def score_recorded_docs(
    pack: Path, entry: TaskEntry, score: ReferenceScoreEntry, docs: Collection[int]
) -> float | None:
    """The score of a record on some docs only.

    Args:
        pack: The folder of the pack.
        entry: The task of a record.
        score: The record's score of all docs.
        docs: The docs.

    Returns:
        Percent; None where the record does not have the metric of each doc, or its score is not their mean.
    """
    if entry.record is None or not docs:
        return None
    values = [_metric(row.get("recorded_metrics"), score.metric) for row in _rows(pack, entry)]
    chosen = [values[doc] for doc in docs if doc < len(values)]
    known, known_chosen = ([value for value in some if value is not None] for some in (values, chosen))
    if len(known) < len(values) or len(known_chosen) < len(docs) or abs(100 * fmean(known) - score.value) > _SAME_SCORE:
        return None
    return 100 * fmean(known_chosen)


def _metric(text: str | None, metric: str) -> float | None:
    try:
        value = json.loads(text or "{}").get(metric)
    except (ValueError, AttributeError, RecursionError):
        return None
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _rows(pack: Path, entry: TaskEntry) -> list[dict[str, Any]]:
    path = None if entry.docs_file is None else pack / entry.docs_file
    if path is None or not path.is_file() or not set(_HASHES) <= set(entry.columns):
        return []
    rows: list[dict[str, Any]] = read_table(
        path, columns=[column for column in _COLUMNS if column in entry.columns]
    ).to_pylist()
    return rows


def _as_row(doc: DocResult, number: int, row: dict[str, Any]) -> DocResult:
    return replace(
        doc,
        doc_id=number,
        prompt_matches=True,
        subtask=row.get("subtask_name"),
        cluster=row.get("cluster"),
        gold=row.get("gold") or doc.gold,
        recorded_is_correct=row.get("recorded_is_correct"),
        recorded_metrics=row.get("recorded_metrics"),
    )
