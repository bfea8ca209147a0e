"""Scores of sampled answers: several answers to each doc, or one answer that was drawn at a temperature.

pass@k and maj@k replace the score of a doc. Average, interval and paired drop are then those of every metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from meta_eval import stats
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.provenance import Provenance
from meta_eval.harness.scores import ScoredRun
from meta_eval.harness.several_answers import replace_verdict
from meta_eval.judge.decision import DropEstimate, SampledScore, Sampling, TaskDecision
from meta_eval.judge.pair import Clusters, RunPair, measure_drop

# The score of a doc, by the verdict on each answer and the number of the most frequent one; None if it has none.
_Combine = Callable[[Sequence[float], int | None], float | None]

# Nothing else can be run again; recorded answers are what they are.
_RUN = "run A"


def describe_sampling(
    candidate: ScoredRun, baseline: ScoredRun | None, metric_key: str, provenance: Provenance, clusters: Clusters
) -> Sampling | None:
    """Describe sampled answers in the metric of the drop; None for a single greedy answer to each doc.

    Args:
        candidate: The run in question.
        baseline: What it is compared with; None for a published score.
        metric_key: The ``metric,filter``.
        provenance: The settings of the run.
        clusters: What docs share with others.
    """
    answers = count_answers(candidate, metric_key)
    is_sampled = "temperature" in provenance.decoding or "do_sample" in provenance.decoding
    baseline_count = count_answers(baseline, metric_key) if baseline else None
    if answers == 1 and (baseline_count or 1) == 1 and not is_sampled:
        return None
    scores: list[SampledScore | None] = []
    if metric_key.partition(",")[0] not in candidate.lower_is_better:
        powers = [2**power for power in range(1, int(math.log2(answers)) + 1)]
        ways = [(f"pass@{k}", _pass_at(k), answers / k) for k in dict.fromkeys([*powers, answers]) if k > 1]
        ways.append((f"maj@{answers}", _majority_of(answers), 1))
        scores = [_measure(name, candidate, baseline, metric_key, clusters, way, size) for name, way, size in ways]
    return Sampling(answers, baseline_count, is_sampled, tuple(score for score in scores if score))


def count_answers(scored: ScoredRun, metric_key: str) -> int:
    """Count the graded answers to each doc, the fewest of any doc."""
    metric, _, name = metric_key.partition(",")
    counts = [
        len(doc.filter_results[name].verdict_of_each.get(metric, (0,)))
        for doc in scored.docs
        if name in doc.filter_results
    ]
    return min(counts, default=1)


def count_needed(task: TaskDecision) -> int | None:
    """Count the answers to each doc that would show an identical copy within the task's margin; None if none would."""
    sampling = task.sampling
    if sampling is None or not task.is_decided:
        return None
    shares = 1 / sampling.answers + 1 / (sampling.baseline_answers or 1)
    fixed = None if task.baseline_label == _RUN else sampling.baseline_answers or 1
    return stats.count_needed_answers(
        task.drop.seen_variance / shares, task.margin, baseline_answers=fixed
    )  # fmt: skip


def _measure(
    name: str,
    candidate: ScoredRun,
    baseline: ScoredRun | None,
    metric_key: str,
    clusters: Clusters,
    combine: _Combine,
    answers: float,
) -> SampledScore | None:
    """A score that combines the answers to each doc, and its drop, which is paired like any other."""
    combined = _combine_answers(candidate, metric_key, combine)
    scores = combined.scores(metric_key) if combined else None
    if combined is None or scores is None:
        return None
    baseline_scores = _combine_answers(baseline, metric_key, combine) if baseline else None
    drop = measure_drop(RunPair(baseline_scores, combined), metric_key, clusters) if baseline_scores else None
    interval = stats.sampled_interval(scores.contributions, answers, scores.labels, scores.clusters)
    return SampledScore(
        name, scores.value, interval, drop.baseline if drop else None,
        DropEstimate(drop.value, drop.interval()) if drop else None,
    )  # fmt: skip


def _combine_answers(scored: ScoredRun, metric_key: str, combine: _Combine) -> ScoredRun | None:
    """The same with another score of each doc; None if a doc has none."""
    metric, _, name = metric_key.partition(",")
    runs: list[list[DocResult]] = [[] for _ in scored.runs]
    for docs, combined in zip(scored.runs, runs, strict=True):
        for doc in docs:
            result = doc.filter_results.get(name)
            share = combine(result.verdict_of_each.get(metric, ()), result.majority) if result else None
            if result is None or share is None:
                return None
            metrics = {**result.metrics, metric: replace_verdict(result.metrics[metric], share)}
            combined.append(replace(doc, filter_results={name: replace(result, metrics=metrics)}))
    return ScoredRun(runs, scored.lower_is_better)


def _pass_at(k: int) -> _Combine:
    """pass@k of a doc; None if a verdict is neither right nor wrong, or it has fewer answers."""

    def combine(verdicts: Sequence[float], _: int | None) -> float | None:
        sure = len(verdicts) >= k and all(verdict in (0, 1) for verdict in verdicts)
        return stats.pass_at_k(sum(verdicts), len(verdicts), k) if sure else None

    return combine


def _majority_of(answers: int) -> _Combine:
    """The verdict on the most frequent of so many answers; None if it is unknown."""

    def combine(verdicts: Sequence[float], majority: int | None) -> float | None:
        return verdicts[majority] if majority is not None and majority < len(verdicts) == answers else None

    return combine
