"""Statistics of several sampled answers per doc: mean, pass@k, their intervals, and the effect of sampling on a drop.

The answers to a doc form a cluster, because they share its difficulty. So a doc counts once, with the mean of its
answers, and every variance is over docs (`meta_eval.stats.clustered_mean`). The drop of sampled runs is
`stats.paired_drop` of these means, for any number of answers on either side.

If answers to a doc are right with probability p, the mean of k answers has the variance p (1 - p) / k. Two single
answers of a model differ with probability 2 p (1 - p), the share of docs that flip. So runs with k1 and k2 answers per
doc vary like single answers with a share of flips of `flips (1/k1 + 1/k2) / 2`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist

from meta_eval.base.thresholds import LEVEL, MAX_PLANNED_ANSWERS, SURE
from meta_eval.stats.clustered_mean import average_docs
from meta_eval.stats.intervals import Interval, normal_quantile, t_quantile
from meta_eval.stats.score import score_interval, wilson_bounds

# Differing docs needed for a further answer to count fully. With few of them the observed variance is too small.
_DOCS_PER_ANSWER = 3


def pass_at_k(right: float, answers: int, k: int) -> float:
    """The chance that at least one of k answers is right, estimated from n answers: 1 - C(n - c, k) / C(n, k).

    The unbiased estimator of Chen et al. 2021 (arXiv:2107.03374, section 2.1).

    Args:
        right: Number of right answers, c.
        answers: Number of answers, n.
        k: Number of attempts.

    Raises:
        ValueError: There are fewer than k answers, or not 0 <= right <= answers.
    """
    if not 0 <= right <= answers or not 1 <= k <= answers:
        raise ValueError(f"{right} of {answers} answers give no pass@{k}")
    if answers - right < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / number for number in range(round(answers - right) + 1, answers + 1))


def sampled_interval(
    values: Sequence[float],
    answers: float,
    labels: Sequence[Hashable] | None = None,
    clusters: Sequence[Hashable] | None = None,
    level: float = LEVEL,
) -> Interval:
    """The interval of a mean over docs with several answers each; docs are the sampling unit.

    It is Wilson's interval for a sample with the variance over docs (as `stats.score_interval` of clusters). The sample
    is at most all answers together. If few docs differ from the others, the observed variance is too small, so the
    sample is at most ``docs (1 + d / 3)`` with d differing docs. Simulated coverage is 93.9 to 99 % from 10 docs on
    (benchmarks/README.md).

    Args:
        values: The mean of each doc's answers, or its pass@k; 0 to 1.
        answers: Independent answers of each doc; for pass@k, the number of answers divided by k.
        labels: The subtask of each doc, if the mean is over subtasks.
        clusters: The cluster of each doc.
        level: The level of the interval.

    Raises:
        ValueError: No doc, or not a label and a cluster for each.
    """
    if answers <= 1 and all(value in (0, 1) for value in values):
        return score_interval(values, labels, level, clusters)
    average = average_docs(values, labels, clusters)
    if not average.freedom:
        return Interval(0.0, 1.0)
    centre = min(1.0, max(0.0, average.value))
    if centre in (0, 1):
        return wilson_bounds(centre, 1 / average.grain, normal_quantile(level))
    most = min(max(1.0, answers), 1 + _differing(values, clusters, centre) / _DOCS_PER_ANSWER) / average.grain
    # The size of a simple sample with the same variance as this mean.
    size = most if average.variance <= 0 else min(most, centre * (1 - centre) / average.variance)
    return wilson_bounds(centre, size, t_quantile(level, average.freedom))


def sampled_flips(flips: float, baseline_answers: int, answers: int) -> float:
    """The equivalent share of flips of single answers for runs with several answers.

    Args:
        flips: The share of docs that flip between two single answers of one model, 0 to 1.
        baseline_answers: Answers per doc of the baseline.
        answers: Answers per doc of the run.

    Raises:
        ValueError: No answer.
    """
    if baseline_answers < 1 or answers < 1:
        raise ValueError("a run has an answer to each doc")
    return flips * (1 / baseline_answers + 1 / answers) / 2


def count_needed_answers(
    variance: float, margin: float, *, baseline_answers: int | None = None, chance: float = SURE
) -> int | None:
    """The number of answers per doc that show an identical model to be within the margin.

    Args:
        variance: The variance of a score from sampling with a single answer per doc: half the share of docs that flip
            between two such runs, divided by the number of docs.
        margin: The largest allowed drop, 0 to 1.
        baseline_answers: Answers per doc of a baseline that cannot be repeated; None if it gets as many as the run.
        chance: The required chance that an identical model is within the margin.

    Returns:
        The least number; None where `MAX_PLANNED_ANSWERS` are too few.
    """
    reach = normal_quantile(LEVEL) + NormalDist().inv_cdf(chance)
    for answers in range(1, MAX_PLANNED_ANSWERS + 1):
        if reach * math.sqrt(variance * (1 / (baseline_answers or answers) + 1 / answers)) < margin:
            return answers
    return None


def _differing(values: Sequence[float], clusters: Sequence[Hashable] | None, centre: float) -> int:
    """The docs (clusters) that are not all right, or where most answers are wrong not all wrong."""
    names = range(len(values)) if clusters is None else clusters
    return len({name for name, value in zip(names, values, strict=True) if (value < 1 if centre > 0.5 else value > 0)})
