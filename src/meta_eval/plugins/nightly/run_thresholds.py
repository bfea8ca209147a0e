"""A threshold on a score from past runs: an identical model fails it once in so many runs.

The score of the next run differs from the mean of k past runs, because docs flip. Its standard deviation is the larger
of two: that of the past scores, and that which the flips of single docs explain, sqrt(mean of the docs' variances / n),
if docs flip independently. The prediction interval is Student's (Geisser 1993, Predictive Inference, section 2.2):
mean - t sd sqrt(1 + 1/k), with k - 1 degrees of freedom for the first, and as many as docs flipped for the second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from meta_eval.base.thresholds import POWER
from meta_eval.plugins.nightly.run_history import PastRun
from meta_eval.sockets import ConfigError

# Runs that a threshold needs.
FEWEST_RUNS = 5


@dataclass(frozen=True, slots=True)
class RunThreshold:
    """A threshold on the score of a task."""

    task: str
    metric: str
    """As lm-eval names them."""

    runs: int
    """Past runs that it is made of."""

    docs: int
    """Docs that all of them have."""

    mean: float
    """Their mean score, from 0 to 1."""

    floor: float
    """The threshold, from 0 to 1. A lower score fails."""

    visible_drop: float
    """The drop that fails in 80 % of runs, from 0 to 1."""


def find_run_thresholds(runs: Sequence[PastRun], once_in: float) -> list[RunThreshold]:
    """Find a threshold for each task of past runs of one model.

    Args:
        runs: The runs.
        once_in: How many runs of an identical model one fails of; at least 2.

    Raises:
        ConfigError: No task has enough runs, or the runs are of several models.
    """
    models = sorted({run.model for run in runs if run.model})
    if len(models) > 1:
        raise ConfigError(f"the runs are of {len(models)} models, {models[0]} and {models[1]}", hint="Name runs of one")
    tasks = sorted({task for run in runs for task in run.tasks})
    thresholds = [threshold for task in tasks if (threshold := _find(task, runs, once_in)) is not None]
    if not thresholds:
        most = max(sum(task in run.tasks for run in runs) for task in tasks)
        raise ConfigError(
            f"a threshold needs {FEWEST_RUNS} runs of the same docs, and there are {most}",
            hint="Add runs with `meta-eval history add RESULTS`",
        )
    return thresholds


def _find(task: str, runs: Sequence[PastRun], once_in: float) -> RunThreshold | None:
    """The threshold of a task; None with too few runs, or without a doc that all have."""
    verdicts = [run.tasks[task] for run in runs if task in run.tasks]
    verdicts = [one for one in verdicts if one.metric == verdicts[-1].metric]
    names = sorted(set.intersection(*(set(one.docs) for one in verdicts)))
    if len(verdicts) < FEWEST_RUNS or not names:
        return None
    values = np.array([[one.docs[name] for name in names] for one in verdicts])
    count, docs = values.shape
    scores, of_docs = np.mean(values, axis=1), np.var(values, axis=0, ddof=1)
    # Half a flip where none was seen: docs may flip in the next run.
    by_docs = max(float(of_docs.mean()) / docs, 0.5 / docs**2)
    by_runs, flipped = float(np.var(scores, ddof=1)), max(1, int(np.count_nonzero(of_docs)))
    variance, freedom = (by_runs, count - 1.0) if by_runs > by_docs else (by_docs, float(flipped))
    distance = float(stdtrit(freedom, 1 - 1 / once_in)) * math.sqrt(variance * (1 + 1 / count))
    mean = float(scores.mean())
    # A score is a whole number of docs: the lowest that does not fail.
    floor = max(0.0, math.ceil((mean - distance) * docs - 1e-6) / docs)
    seen = mean - floor + float(ndtri(POWER)) * math.sqrt(variance)
    return RunThreshold(task, verdicts[-1].metric, count, docs, mean, floor, seen)


def format_run_thresholds(thresholds: Sequence[RunThreshold], model: str | None) -> str:
    """The text of a YAML file in the form of vLLM's and SGLang's CI. A score fails below ``value * (1 - rtol)``; the
    ``mean`` of the past runs is for `score_thresholds`, and their CI does not read it."""
    import json

    by_task: dict[str, list[RunThreshold]] = {}
    for threshold in thresholds:
        by_task.setdefault(threshold.task, []).append(threshold)
    lines = [f"model_name: {json.dumps(model)}"] if model else []
    lines.append("tasks:")
    for task, of_task in by_task.items():
        lines += [f"- name: {json.dumps(task)}", "  metrics:"]
        for one in of_task:
            lines += [f"  - name: {json.dumps(one.metric)}", f"    value: {one.floor:.6f}", f"    mean: {one.mean:.6f}"]
    return "\n".join([*lines, "rtol: 0.0"])
