"""Subtasks of a task: the score of each, and the drop doc by doc where a baseline is known."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from meta_eval import stats
from meta_eval.base.thresholds import ALPHA
from meta_eval.harness.scores import ScoredRun
from meta_eval.judge.decision import Subtask
from meta_eval.judge.pair import RunPair, pair_scores
from meta_eval.stats import Drop


@dataclass(frozen=True, slots=True)
class _Docs:
    """The docs of one subtask: the candidate's values, the baseline's where there are any, and what docs share."""

    values: list[float]
    baseline_values: list[float | None]
    clusters: list[Hashable]


def compute_subtask_drops(candidate: ScoredRun, metric_key: str, pair: RunPair | None) -> dict[str, Drop]:
    """The drop of each subtask all of whose docs are paired; empty where a task has not two subtasks.

    Args:
        candidate: The run.
        metric_key: ``metric,filter`` of single verdicts.
        pair: The baseline and the candidate over the same docs; None where there is no baseline.
    """
    scores = candidate.scores(metric_key)
    drops = {}
    for name, docs in _grouped(candidate, metric_key, pair).items():
        baseline = [value for value in docs.baseline_values if value is not None]
        if scores and len(baseline) == len(docs.values):
            clusters = docs.clusters if scores.clusters else None
            drop = stats.paired_drop(baseline, docs.values, clusters=clusters)
            drops[name] = drop.invert() if scores.lower_is_better else drop
    return drops


def describe_subtasks(candidate: ScoredRun, metric_key: str, pair: RunPair | None) -> tuple[Subtask, ...]:
    """List the subtasks by name, each with its score and the baseline's; arguments as of `compute_subtask_drops`."""
    drops = compute_subtask_drops(candidate, metric_key, pair)
    corrected = stats.correct_by_holm([drop.p_value() for drop in drops.values()])
    clear = {name: p < ALPHA for name, p in zip(drops, corrected, strict=True)}
    return tuple(
        Subtask(
            name,
            len(docs.values),
            stats.mean(docs.values),
            drops[name].baseline if name in drops else None,
            clear.get(name, False),
        )
        for name, docs in sorted(_grouped(candidate, metric_key, pair).items())
    )


def _grouped(candidate: ScoredRun, metric_key: str, pair: RunPair | None) -> dict[str, _Docs]:
    scores = candidate.scores(metric_key)
    if scores is None:
        return {}
    baseline: dict[Hashable, float] = {}
    paired = pair_scores(pair, metric_key) if pair else None
    if pair and paired:
        docs = pair.candidate.docs
        values = zip(paired.baseline.doc_indices, paired.baseline.doc_scores, strict=True)
        baseline = {docs[at].doc_id: value for at, value in values}
    groups: dict[str, _Docs] = {}
    names = scores.clusters or scores.doc_indices
    for position, value, cluster in zip(scores.doc_indices, scores.doc_scores, names, strict=True):
        doc = candidate.docs[position]
        if doc.subtask is not None:
            group = groups.setdefault(doc.subtask, _Docs([], [], []))
            group.values.append(value)
            group.baseline_values.append(baseline.get(doc.doc_id))
            group.clusters.append(cluster)
    return groups if len(groups) > 1 else {}
