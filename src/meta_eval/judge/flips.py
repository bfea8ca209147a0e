"""How docs flip between two answers of one model, as its runs show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from meta_eval.base.thresholds import SAME_VERDICT
from meta_eval.stats.identical import correlate_changes

if TYPE_CHECKING:
    from meta_eval.harness.doc_results import DocResult
    from meta_eval.harness.lm_eval_run import TaskRun


@dataclass(frozen=True, slots=True)
class TaskFlips:
    """How docs of a task flip between two answers of one model."""

    share: float
    """The share of docs that flip, 0 to 1."""

    alike: float | None = None
    """The correlation of the changes of a cluster's docs, 0 to 1; None where there are too few."""


# The share of docs that flip, 0 to 1, of all tasks; or how those of each task flip.
PlannedFlips = float | Mapping[str, TaskFlips]


def measure_flips(results: Sequence[Path]) -> dict[str, TaskFlips]:
    """How docs flip between two answers of one model, for each task that was answered twice.

    From second answers of a run (`run --rerun`), else from the two newest of several runs. Half a flip is added to what
    was seen, so that none among a few docs is not taken for none at all (Jeffreys).

    Args:
        results: Folders or files of one model's runs.

    Raises:
        UserError: They cannot be read, or no task was answered twice.
    """
    from meta_eval.harness.doc_results import ResultsError, find_cluster_names
    from meta_eval.judge.pair_alarms import pair_second_answers
    from meta_eval.pack.records.record_runs import read_any_run

    run = read_any_run(list(results), repeats=True)
    flips: dict[str, TaskFlips] = {}
    for name, task in run.tasks.items():
        pairs = pair_second_answers(task) or _pair_runs(run.all_runs(name))
        if pairs:
            docs, changes = pairs
            clusters = find_cluster_names(name, docs, frozenset())
            share = (sum(abs(change) > SAME_VERDICT for change in changes) + 0.5) / (len(docs) + 1)
            flips[name] = TaskFlips(share, None if clusters is None else correlate_changes(changes, clusters))
    if not flips:
        raise ResultsError(
            "no task was answered twice", where=str(results[0]), hint="Use `meta-eval run --rerun N`, or several runs"
        )
    return flips


def _pair_runs(runs: Sequence[TaskRun]) -> tuple[list[DocResult], list[float]] | None:
    """The docs of the two newest runs, and the loss of each from one to the other."""
    from meta_eval.harness.scores import compute_scores
    from meta_eval.judge.pair import find_verdict_metric

    metric_key = find_verdict_metric(runs[0], None) if len(runs) > 1 else None
    if metric_key is None:
        return None
    first, second = (compute_scores(run.docs, metric_key, run.lower_is_better) for run in runs[:2])
    if first is None or second is None or first.doc_indices != second.doc_indices:
        return None
    docs = [runs[0].docs[position] for position in first.doc_indices]
    return docs, [a - b for a, b in zip(first.doc_scores, second.doc_scores, strict=True)]
