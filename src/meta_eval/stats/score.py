"""Computes a score, its interval, and each doc's contribution to a score that is not a plain mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence

from meta_eval.base.thresholds import LEVEL, ROUNDING
from meta_eval.stats.clustered_mean import average_docs
from meta_eval.stats.intervals import Interval, group_values, normal_quantile, t_quantile


def wilson_interval(successes: float, n: float, level: float = LEVEL) -> Interval:
    """Wilson's score interval for a share (Wilson 1927, JASA 22:209), which is valid at 0, at 1 and for few docs.

    Both numbers may be fractions: a mean of scores in [0, 1] varies at most as much as a share of the same value.

    Raises:
        ValueError: No doc, or not 0 <= successes <= n.
    """
    if not 0 <= successes <= n or n <= 0:
        raise ValueError(f"{successes} of {n} is no share")
    return wilson_bounds(successes / n, n, normal_quantile(level))


def wilson_bounds(p: float, n: float, z: float) -> Interval:
    """Wilson's interval of a share ``p`` of ``n`` docs, ``z`` standard errors to each side."""
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # The formula is exact at the ends, but floating-point arithmetic is not.
    lower = 0.0 if p <= 0 else max(0.0, centre - half)
    upper = 1.0 if p >= 1 else min(1.0, centre + half)
    return Interval(lower, upper)


def mean(values: Sequence[float]) -> float:
    """The mean over docs, the micro average."""
    return math.fsum(values) / len(values)


def macro_mean(values: Sequence[float], labels: Sequence[Hashable]) -> float:
    """The mean over subtasks of the mean within each; ``labels`` names the subtask of each value."""
    groups = group_values(values, labels)
    return math.fsum(mean(group) for group in groups.values()) / len(groups)


def score_interval(
    values: Sequence[float],
    labels: Sequence[Hashable] | None = None,
    level: float = LEVEL,
    clusters: Sequence[Hashable] | None = None,
) -> Interval:
    """The interval of a mean over docs, or with ``labels`` of a mean over subtasks; values in [0, 1].

    For yes or no it is Wilson's interval, and over subtasks `stratified_wilson`. For other scores (F1, ROUGE,
    contributions of IFEval docs) it is Wilson's interval with Student's t, for the size of a simple sample of yes or no
    with the variance of the scores (Korn and Graubard 1998, Survey Methodology 24:193, who take Clopper and Pearson's
    interval). Student's own interval is too short on the far side of a score near 0 or 1. Each end reaches at least as
    far as if a doc with the score 0 or 1 can have been missed: t^2 / (n + t^2) of the way, Wilson's bound of 0 of n.

    ``clusters`` names the cluster of each doc (its question or passage). The variance and degrees of freedom are then
    those of `meta_eval.stats.clustered_mean`, and n is the number of clusters.

    Raises:
        ValueError: There is no value, or not a label and a cluster for each.
    """
    if clusters is not None:
        return _clustered(values, labels, level, clusters)
    groups = group_values(values, labels)
    if all(value in (0, 1) for value in values):
        return stratified_wilson([(math.fsum(group), len(group)) for group in groups.values()], level)
    centre = math.fsum(mean(group) for group in groups.values()) / len(groups)
    variance = _variance(groups)
    freedom = len(values) - len(groups)
    if freedom < 1 or variance <= ROUNDING**2:
        size = effective_size(groups)
        return wilson_interval(min(max(centre, 0.0), 1.0) * size, size, level)
    # `_variance` divides by n; t needs n - 1 (over subtasks: docs minus subtasks).
    variance *= len(values) / freedom
    return _bound_score(centre, variance, effective_size(groups), t_quantile(level, freedom))


def _clustered(
    values: Sequence[float], labels: Sequence[Hashable] | None, level: float, clusters: Sequence[Hashable]
) -> Interval:
    average = average_docs(values, labels, clusters)
    if not average.freedom:
        return Interval(0.0, 1.0)
    t, centre = t_quantile(level, average.freedom), min(1.0, max(0.0, average.value))
    if average.variance <= ROUNDING**2:
        return wilson_bounds(centre, 1 / average.grain, t)
    return _bound_score(centre, average.variance, 1 / average.grain, t)


def _bound_score(centre: float, variance: float, n: float, t: float) -> Interval:
    """The interval of a mean of scores with this variance, over ``n`` independent docs or clusters."""
    if not 0 < centre < 1:
        return wilson_bounds(min(1.0, max(0.0, centre)), n, t)
    like_shares = wilson_bounds(centre, centre * (1 - centre) / variance, t)
    missed = t * t / (n + t * t)
    return Interval(
        min(like_shares.lower, centre * (1 - missed)), max(like_shares.upper, centre + (1 - centre) * missed)
    )


def stratified_wilson(strata: Sequence[tuple[float, int]], level: float = LEVEL) -> Interval:
    """Wilson's interval for a mean of shares with equal weights of strata: (successes, docs) of each subtask.

    Yan and Su 2010, Statistics in Biopharmaceutical Research 2:329: the mean of the strata's Wilson limits, each at a
    smaller z so that their mean has the requested level. A single stratum gives Wilson's own interval. Simulated
    coverage lies between 94 and 99 % from 6 strata of 3 docs to 57 of several hundred (tests/stats/test_stats.py).
    Where no stratum varies, the docs count as one sample of the effective size.

    Raises:
        ValueError: No stratum, or one without docs.
    """
    if not strata or any(n < 1 for _, n in strata):
        raise ValueError("every stratum needs a doc")
    shares = [(successes / n, n) for successes, n in strata]
    errors = [math.sqrt(p * (1 - p) / n) for p, n in shares]
    if not any(errors):
        size = effective_size([range(n) for _, n in shares])
        return wilson_interval(math.fsum(p for p, _ in shares) / len(shares) * size, size, level)
    z = normal_quantile(level) * math.sqrt(math.fsum(error * error for error in errors)) / math.fsum(errors)
    limits = [wilson_bounds(p, n, z) for p, n in shares]
    return Interval(
        math.fsum(limit.lower for limit in limits) / len(limits),
        math.fsum(limit.upper for limit in limits) / len(limits),
    )


def pooled_contributions(docs: Sequence[tuple[float, float]]) -> list[float]:
    """Each doc's contribution to a ratio of sums, such as the share of all instructions that were followed.

    Docs come as (instructions followed, instructions). The delta method for a ratio of means, with the doc as the unit:
    a doc with y of m contributes R + (y - R m) / mean(m), whose mean is exactly R and whose variance over docs is that
    of R (Cochran 1977, Sampling Techniques, section 6.4). So `score_interval` takes these like any scores.

    Raises:
        ValueError: There is no instruction.
    """
    total = math.fsum(m for _, m in docs)
    if not total:
        raise ValueError("there is no instruction")
    ratio = math.fsum(y for y, _ in docs) / total
    average = total / len(docs)
    return [ratio + (y - ratio * m) / average for y, m in docs]


def mean_of_four_contributions(docs: Sequence[tuple[Sequence[bool], Sequence[bool]]]) -> list[float]:
    """Each doc's contribution to the mean of IFEval's four accuracies; docs as (strict, loose) verdicts.

    The mean of its contributions to the four: whether all its instructions were followed, and `pooled_contributions`,
    each strictly and loosely. The four are measured on the same docs, so a variance must be taken after adding them up.
    """
    return _mean_of_four(docs, pooled_contributions)


def _mean_of_four(
    docs: Sequence[tuple[Sequence[bool], Sequence[bool]]],
    instructions: Callable[[Sequence[tuple[float, float]]], list[float]],
) -> list[float]:
    parts: list[list[float]] = []
    for way in (0, 1):
        verdicts = [doc[way] for doc in docs]
        parts.append([float(all(doc)) for doc in verdicts])
        parts.append(instructions([(sum(doc), len(doc)) for doc in verdicts]))
    return [math.fsum(doc) / len(parts) for doc in zip(*parts, strict=True)]


def instruction_shares(docs: Sequence[tuple[float, float]]) -> list[float]:
    """Each doc's part in a ratio of sums, for comparing two runs over the same docs; docs as in `pooled_contributions`.

    A doc with y of m adds y / mean(m), whose mean is the ratio. In a difference of two runs the instructions cancel, so
    a doc with the same answers in both runs has difference 0. For the interval of a single run it would be wrong: see
    `pooled_contributions`.

    Raises:
        ValueError: There is no instruction.
    """
    total = math.fsum(m for _, m in docs)
    if not total:
        raise ValueError("there is no instruction")
    return [y * len(docs) / total for y, _ in docs]


def ratio_losses(baseline: Sequence[tuple[float, float]], candidate: Sequence[tuple[float, float]]) -> list[float]:
    """Each doc's part in the difference of two ratios of sums over the same docs; docs as in `pooled_contributions`.

    Unlike in `instruction_shares`, a doc may have another denominator in each run, as in a precision. With the ratios R
    and S of the runs, a doc with y of m and z of k adds (y - z - (R + S)/2 (m - k)) / ((mean(m) + mean(k))/2). The mean
    of these is exactly R - S, a doc with the same counts in both adds 0, and the variance is that of the delta method
    (as of `pooled_contributions`) where the ratios and denominators are close.

    Raises:
        ValueError: A denominator is 0 over all docs.
    """
    pairs = list(zip(baseline, candidate, strict=True))
    of_baseline, of_candidate = (math.fsum(m for _, m in side) for side in (baseline, candidate))
    if not of_baseline or not of_candidate:
        raise ValueError("there is nothing to divide by")
    ratios = [
        math.fsum(y for y, _ in side) / total for side, total in ((baseline, of_baseline), (candidate, of_candidate))
    ]
    middle, average = math.fsum(ratios) / 2, (of_baseline + of_candidate) / 2 / len(pairs)
    return [(y - z - middle * (m - k)) / average for (y, m), (z, k) in pairs]


def mean_of_four_shares(docs: Sequence[tuple[Sequence[bool], Sequence[bool]]]) -> list[float]:
    """Each doc's part in the mean of IFEval's four accuracies, for comparing two runs over the same docs.

    As `mean_of_four_contributions`, with `instruction_shares` for the two that count instructions.
    """
    return _mean_of_four(docs, instruction_shares)


def effective_size(groups: Mapping[Hashable, Sequence[object]] | Sequence[Sequence[object]]) -> float:
    """The size of a simple sample with the same variance of the mean as these groups (Kish)."""
    members = list(groups.values()) if isinstance(groups, Mapping) else list(groups)
    return len(members) ** 2 / math.fsum(1 / len(group) for group in members)


def _variance(groups: Mapping[Hashable, Sequence[float]]) -> float:
    """The variance of a mean over subtasks: the variance over the docs of each, divided by n. A subtask of a single doc
    gets the average variance of the others' docs.
    """
    centred = [(group, mean(group)) for group in groups.values()]
    within = [(math.fsum((x - centre) ** 2 for x in group), len(group)) for group, centre in centred]
    several = [(moment, n) for moment, n in within if n > 1]
    shared = math.fsum(m for m, _ in several) / sum(n for _, n in several) if several else 0.0
    return math.fsum((moment / n if n > 1 else shared) / n for moment, n in within) / len(within) ** 2
