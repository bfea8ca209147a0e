"""Compares the regraded answers of a recorded run with the recorded metrics of every doc.

Pure: lm-eval's samples of the replay in, counts and disagreements out. A doc agrees if every recorded value is the same
today: numbers within a millionth, sets in any order, everything else exactly. Newer metrics are ignored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from meta_eval.base.errors import PackError
from meta_eval.base.thresholds import SAME_VALUE
from meta_eval.harness.doc_results import to_plain_number
from meta_eval.harness.results_file import format_as_lm_eval
from meta_eval.harness.sample_parser import list_metrics, read_extraction
from meta_eval.pack.manifest import TaskEntry
from meta_eval.pack.verify.tallies import (
    Explanations,
    SamplesByFilter,
    Tallies,
    Tally,
    group_by_doc,
    is_unread,
    make_line,
)


def tally_record(
    entry: TaskEntry,
    samples: Sequence[Mapping[str, Any]],
    context: Explanations,
    of_run: Mapping[int, str | None] | None = None,
) -> Tallies:
    """Compare today's metrics of each recorded answer with the recorded metrics.

    Args:
        entry: The task.
        samples: The samples of the replay, for each doc and filter.
        context: Why graders failed, by doc.
        of_run: The recorded metrics by doc, as JSON text; None if the docs hold them.
    """
    result = Tallies(entry.primary_metric, Tally(), {}, [], "recorded metrics")
    for number, rows in group_by_doc(samples):
        doc = next(iter(rows.values()))["doc"]
        today = {f"{metric},{name}": row[metric] for name, row in rows.items() for metric in list_metrics(row)}
        recorded = _recorded(doc["recorded_metrics"] if of_run is None else of_run[number], number)
        graded, reference = _number(today.get(entry.primary_metric)), _number(recorded.get(entry.primary_metric))
        differing = [name for name in recorded if not _same(today.get(name), recorded[name])]
        row = rows.get(entry.primary_metric.partition(",")[2])
        unread = is_unread(row) if row else None
        for tally in result.of(doc.get("subtask_name")):
            tally.add(
                graded, reference, reference, agrees=not differing if recorded else None,
                is_like_meta=bool(recorded) and not differing, unread=unread,
            )  # fmt: skip
        if differing:
            result.disagreements.append(_line(number, rows, entry, differing, today, recorded, context))
    result.subtasks = dict(sorted(result.subtasks.items()))
    return result


def _recorded(text: object, number: int) -> Mapping[str, Any]:
    """Read the recorded metrics of a doc of a pack.

    Raises:
        PackError: They are invalid: the pack was edited.
    """
    try:
        metrics = json.loads(text or "{}") if isinstance(text, str) or text is None else None
    except (ValueError, RecursionError):
        metrics = None
    if not isinstance(metrics, dict):
        raise PackError(
            "recorded_metrics is not a JSON object", where=f"doc {number}", hint="Run `meta-eval prepare` again"
        )
    return metrics


def _line(
    number: int,
    by_filter: SamplesByFilter,
    entry: TaskEntry,
    differing: Sequence[str],
    today: Mapping[str, Any],
    recorded: Mapping[str, Any],
    context: Explanations,
) -> dict[str, Any]:
    """One line of ``<task>.jsonl``."""
    row = by_filter.get(entry.primary_metric.partition(",")[2]) or next(iter(by_filter.values()))
    differences = [f"{name} is {_in_file(today.get(name))} here and was {recorded[name]}" for name in differing]
    verdicts = {
        "ours": _number(today.get(entry.primary_metric)), "recorded": _number(recorded.get(entry.primary_metric)),
    }  # fmt: skip
    why = "graded otherwise" if all(name in today for name in differing) else "no such metric today"
    detail = context.failures.get(number) or "; ".join(differences)
    metrics = {name: _in_file(value) for name, value in today.items()}
    return make_line(number, row, read_extraction(row), str(row.get("target")), verdicts, why, detail, metrics)


def _in_file(value: Any) -> Any:
    """Convert a value as lm-eval does for values that JSON cannot hold."""
    return json.loads(format_as_lm_eval(to_plain_number(value)))


def _same(today: Any, recorded: Any) -> bool:
    """Whether a value equals the recorded value. Files store a set as a list in any order."""
    today, recorded = to_plain_number(today), to_plain_number(recorded)
    if isinstance(today, (list, tuple, set, frozenset)) and isinstance(recorded, list):
        if isinstance(today, (set, frozenset)):
            today, recorded = (sorted(map(_in_file, values), key=str) for values in (today, recorded))
        return len(today) == len(recorded) and all(map(_same, today, recorded))
    if isinstance(today, (int, float)) and isinstance(recorded, (int, float)):
        both_nan = math.isnan(today) and math.isnan(recorded)
        return both_nan or today == recorded or math.isclose(today, recorded, rel_tol=SAME_VALUE, abs_tol=SAME_VALUE)
    today = _in_file(today)
    return type(today) is type(recorded) and today == recorded


def _number(value: Any) -> float | None:
    """A verdict as a number; None for values that only their own aggregation can use."""
    value = to_plain_number(value)
    return float(value) if isinstance(value, (bool, int, float)) and math.isfinite(value) else None
