"""lm-eval's averages of groups: whether docs or tasks have equal weights, which no results file says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from meta_eval import stats
from meta_eval.base.thresholds import SAME_VALUE
from meta_eval.harness.lm_eval_run import Run
from meta_eval.harness.results_file import Aggregate, GroupTotal
from meta_eval.harness.task_run import TaskRun


def weighs_docs(parts: Sequence[TaskRun], metric_key: str, value: float) -> bool | None:
    """Whether lm-eval's average of a group is over docs (True) or tasks (False); None if neither.

    Args:
        parts: The tasks of the group.
        metric_key: The ``metric,filter``.
        value: The average.
    """
    if any(metric_key not in part.aggregates for part in parts):
        return None
    if math.isclose(_average(parts, metric_key, by_docs=True), value, abs_tol=SAME_VALUE):
        return True
    return False if math.isclose(_average(parts, metric_key, by_docs=False), value, abs_tol=SAME_VALUE) else None


def average_groups_again(run: Run, tasks: Mapping[str, TaskRun]) -> dict[str, GroupTotal]:
    """The groups of a run over other scores of its tasks, averaged as before. Groups that lack a task are left out."""
    groups = {}
    for name, group in run.groups.items():
        if not set(group.tasks) <= tasks.keys():
            continue
        old, new = ([of[task] for task in group.tasks] for of in (run.tasks, tasks))
        aggregates = {}
        for metric_key, aggregate in group.aggregates.items():
            by_docs = weighs_docs(old, metric_key, aggregate.value)
            if by_docs is not None and all(metric_key in part.aggregates for part in new):
                value = _average(new, metric_key, by_docs=by_docs)
                aggregates[metric_key] = Aggregate(value, None, aggregate.is_fraction)
        if aggregates:
            groups[name] = replace(group, aggregates=aggregates)
    return groups


def _average(parts: Sequence[TaskRun], metric_key: str, *, by_docs: bool) -> float:
    values = [part.aggregates[metric_key].value for part in parts]
    if not by_docs:
        return stats.mean(values)
    sizes = [len(part.docs) or part.provenance.docs_run or 0 for part in parts]
    return math.fsum(size * score for size, score in zip(sizes, values, strict=True)) / (sum(sizes) or 1)
