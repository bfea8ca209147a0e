"""Two scores over the same docs by the MOVER: their difference and their ratio; and tests of single docs.

Two scores over the same docs have an interval each and a correlation; the MOVER ("method of variance estimates
recovery", Zou and Donner 2008, Statistics in Medicine 27:1693) makes intervals for their difference and their ratio out
of these. For a plain share with Wilson's intervals the difference is exactly method 10 of Newcombe 1998, Statistics in
Medicine 17:2635.

These answer a question each, and their answers can contradict each other: an interval of a macro average beside a test
of single docs. Decisions rest on `meta_eval.stats.drop`, where one statistic gives all of them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from meta_eval.stats.basics import ALPHA, LEVEL, POWER, Interval, grouped, normal_quantile
from meta_eval.stats.score import mean, moments, score_interval


@dataclass(frozen=True, slots=True)
class Paired:
    """Two scores over the same docs.

    Attributes:
        before: The first score, the baseline.
        after: The second.
        difference: ``after - before``.
        interval: Of the difference.
        ratio: ``after / before``, the share of the baseline that is recovered; None when the baseline is 0.
        ratio_interval: None also where the baseline is so near 0 that the ratio has no upper end.
    """

    before: float
    after: float
    difference: float
    interval: Interval
    ratio: float | None
    ratio_interval: Interval | None


def paired(
    before: Sequence[float], after: Sequence[float], labels: Sequence[Hashable] | None = None, level: float = LEVEL
) -> Paired:
    """Two scores over the same docs, value by value of the same doc: their difference and ratio with intervals.

    The correlation is lowered by Newcombe's correction (half a doc), never below 0, so that two runs without a single
    flip still have an interval: about 2/n on each side. Simulated coverage is 93 % or more (tests/stats/test_stats.py).

    Raises:
        ValueError: No doc, or not the same number of both.
    """
    first, second = grouped(before, labels), grouped(after, labels)
    a = math.fsum(mean(group) for group in first.values()) / len(first)
    b = math.fsum(mean(group) for group in second.values()) / len(second)
    limits_a, limits_b = score_interval(before, labels, level), score_interval(after, labels, level)
    correlation = _correlation(first, second)
    difference = b - a
    interval = Interval(
        max(-1.0, difference - _joined(b - limits_b.lower, limits_a.upper - a, correlation)),
        min(1.0, difference + _joined(limits_b.upper - b, a - limits_a.lower, correlation)),
    )
    return Paired(
        a, b, difference, interval, b / a if a else None, _ratio_interval(a, limits_a, b, limits_b, correlation)
    )


def mcnemar(lost: int, won: int) -> float:
    """The exact two-sided p value of McNemar's test: are flips one way as likely as flips the other way?"""
    from scipy.special import bdtr

    flips = lost + won
    return min(1.0, 2 * float(bdtr(min(lost, won), flips, 0.5))) if flips else 1.0


def paired_p(before: Sequence[float], after: Sequence[float]) -> float:
    """The two-sided p value of no difference: `mcnemar` for yes or no, else the paired t test."""
    from scipy.special import stdtr

    differences = [b - a for a, b in zip(before, after, strict=True)]
    if all(value in (0, 1) for value in (*before, *after)):
        return mcnemar(sum(d < 0 for d in differences), sum(d > 0 for d in differences))
    n, centre = len(differences), mean(differences)
    squares = math.fsum((d - centre) ** 2 for d in differences)
    if n < 2 or squares == 0:
        return 1.0 if n < 2 or centre == 0 else 0.0
    return float(2 * stdtr(n - 1, -abs(centre) / math.sqrt(squares / (n - 1) / n)))


def detectable_drop(n: int, variance: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """The smallest drop that n docs find with this power, in a two-sided test at this level.

    (z_alpha/2 + z_power) * sqrt(variance / n), with the variance of one doc's difference: of yes or no compared doc by
    doc the share of docs that flip (Miettinen 1968, Biometrics 24:339), against a fixed number p (1 - p). A drop cannot
    be larger than the share of docs that flip, so where it would be, that share is taken to be the drop itself.
    """
    z = normal_quantile(1 - alpha) + NormalDist().inv_cdf(power)
    return min(1.0, max(z * math.sqrt(variance / n), z * z / n))


def flip_variance(flips: int, n: int) -> float:
    """The share of docs that flip, with half a doc added to each way that a pair can be (Agresti and Min 2005)."""
    return (flips + 1) / (n + 2)


def _correlation(first: Mapping[Hashable, Sequence[float]], second: Mapping[Hashable, Sequence[float]]) -> float:
    covariance, correction = moments(first, second)
    scale = math.sqrt(moments(first, first)[0] * moments(second, second)[0])
    if covariance > 0:
        covariance = max(0.0, covariance - correction)
    return min(1.0, max(-1.0, covariance / scale)) if scale else 0.0


def _joined(one: float, other: float, correlation: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * correlation * one * other + other * other))


def _ratio_interval(a: float, of_a: Interval, b: float, of_b: Interval, correlation: float) -> Interval | None:
    """b / a by the MOVER: the ratios r at which 0 is an end of the interval of b - r a (Donner and Zou 2012)."""
    ends = []
    for b_side, a_side, sign in ((b - of_b.lower, of_a.upper - a, -1), (of_b.upper - b, a - of_a.lower, 1)):
        square = a * a - a_side * a_side
        if square <= 0:
            return None
        middle = a * b - correlation * b_side * a_side
        root = math.sqrt(max(0.0, middle * middle - square * (b * b - b_side * b_side)))
        ends.append(max(0.0, (middle + sign * root) / square))
    return Interval(ends[0], ends[1])
