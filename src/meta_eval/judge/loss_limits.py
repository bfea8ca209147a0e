"""The largest loss that an identical copy explains: for tasks with few docs, and for tasks whose noise was measured.

An identical copy loses as many docs as it wins. Losses and gains are counts, as in `meta_eval.stats.drop`. So gains
tell how many losses to expect: a worse model adds losses, not gains. What is known of the flips of a task:

- its own gains;
- the gains of the other tasks. How far tasks differ in their share of flips is estimated from them too, by the method
  of moments (Gamma-Poisson model; among others Carlin and Louis 2000, Bayes and Empirical Bayes Methods, section 3.3).
  One task in ten is taken as unlike the others, so a task whose gains do not fit them is judged by its own gains; of
  others that differ themselves, more are;
- where a model answered twice, the flips between its two answers. Another engine may flip more docs than the same
  engine twice, so these count in proportion to gains over all such tasks.

The expected losses then have a mixture of two Gamma distributions, and the losses of an identical copy a mixture of two
negative binomial ones. A loss is more likely of a copy that lost ``most`` than of one that lost ``least``, by the
likelihood ratio of two Poisson counts, if it exceeds

    (n (most - least) + h) / log((e + n most) / (e + n least))

with e expected losses of an identical copy in n docs and h = 0 (Neyman and Pearson 1933). h rises, for all tasks
together, until at most the given share of identical copies exceeds any of their limits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from meta_eval.base.thresholds import ALIKE_TASKS, ROUNDING, SAME_FLIPS, UNLIKE_TASKS
from meta_eval.judge.pair import TaskPair
from meta_eval.stats.identical import flip_unit

# The steps of h, and its end: beyond it no loss is excluded.
_STEP, _STEPS = 0.1, 200


@dataclass(frozen=True, slots=True)
class ExpectedLosses:
    """What is known of the number of losses of an identical copy of a task: a mixture of Gamma distributions."""

    docs: float
    """The number of docs, in flips of the size that was seen."""

    parts: tuple[tuple[float, float, float], ...]
    """The weight, shape and rate of each distribution; weights add up to 1."""

    @property
    def mean(self) -> float:
        """The expected number of losses."""
        return math.fsum(weight * shape / rate for weight, shape, rate in self.parts)

    def exceed(self, losses: float) -> float:
        """The chance that an identical copy has more losses than these."""
        from scipy.special import betainc

        if math.isinf(losses):
            return 0.0
        more = math.floor(losses + ROUNDING) + 1
        return math.fsum(weight * float(betainc(more, shape, 1 / (1 + rate))) for weight, shape, rate in self.parts)


def expect_losses(tasks: Sequence[TaskPair], *, use_measured: bool = False) -> list[ExpectedLosses]:
    """What is known of the losses of identical copies of these tasks.

    Args:
        tasks: All tasks of the decision. A task that is compared with a published score tells nothing of the others.
        use_measured: Whether to use the measured flips of tasks that have them.
    """
    units = [flip_unit(task.newest_drop) for task in tasks]
    docs = [1 / unit for unit in units]
    gains = [task.newest_drop.won * n for task, n in zip(tasks, docs, strict=True)]
    ratio = _compare_with_measured(tasks, docs, gains) if use_measured else 1.0
    expected = []
    for place, task in enumerate(tasks):
        flips, exposure = gains[place], 1.0
        if use_measured and task.measured_flips:
            measured = task.measured_flips.docs / task.drop.docs
            flips += task.measured_flips.share * docs[place] * measured
            exposure += 2 * measured / ratio
        others = [
            (gains[other], docs[other])
            for other in range(len(tasks))
            if other != place and tasks[other].drop.paired and task.drop.paired
        ]
        expected.append(ExpectedLosses(docs[place], _update(docs[place], flips, exposure, others)))
    return expected


def _update(
    docs: float, flips: float, exposure: float, others: Sequence[tuple[float, float]]
) -> tuple[tuple[float, float, float], ...]:
    """The distributions after so many flips one way in an exposure; ``others`` are gains and docs of other tasks."""
    if not others:
        return ((1.0, 0.5 + flips, exposure),)
    share, alike = _average_share(others)
    mean = share * docs
    unlike = max(UNLIKE_TASKS, 1 - alike / ALIKE_TASKS)
    priors = [(1 - unlike, alike), (unlike, 1.0)]
    evidence = [
        math.log(weight) + shape * math.log(shape / mean) - math.lgamma(shape)
        + math.lgamma(shape + flips) - (shape + flips) * math.log(shape / mean + exposure)
        for weight, shape in priors
    ]  # fmt: skip
    weights = [math.exp(each - max(evidence)) for each in evidence]
    return tuple(
        (weight / math.fsum(weights), shape + flips, shape / mean + exposure)
        for weight, (_, shape) in zip(weights, priors, strict=True)
    )


def _average_share(others: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The share of gains of other tasks, and how much they tell of a task (`_measure_likeness`).

    The more tasks differ, the more each counts the same, whatever its docs: weights of random effects (DerSimonian and
    Laird 1986, Controlled Clinical Trials 7:177).
    """
    total = math.fsum(n for _, n in others)
    pooled = (math.fsum(won for won, _ in others) + 0.5) / total
    alike = _measure_likeness(others, pooled)
    weights = [1 / (pooled / alike + 1 / n) for _, n in others]
    share = math.fsum(w * won / n for w, (won, n) in zip(weights, others, strict=True)) / math.fsum(weights)
    share += 0.5 / total
    return share, _measure_likeness(others, share)


def _measure_likeness(others: Sequence[tuple[float, float]], share: float) -> float:
    """How much other tasks tell of a task: the shape of the Gamma distribution of their shares of gains.

    Args:
        others: Gains and docs of each.
        share: Their mean share of gains.
    """
    means = [share * n for _, n in others]
    weights = [1 / (1 + mean) for mean in means]
    excess = math.fsum(w * ((won - m) ** 2 - m) for w, (won, _), m in zip(weights, others, means, strict=True))
    squares = math.fsum(w * m * m for w, m in zip(weights, means, strict=True))
    return 1 / max(excess / squares, 1 / SAME_FLIPS)


def _compare_with_measured(tasks: Sequence[TaskPair], docs: Sequence[float], gains: Sequence[float]) -> float:
    """Gains as a multiple of those that the measured flips of the same tasks let expect; at least 1."""
    seen = expected = 1.0
    for task, n, won in zip(tasks, docs, gains, strict=True):
        if task.measured_flips:
            seen += won
            expected += task.measured_flips.share * n / 2
    return max(1.0, seen / expected)


def limit_losses(
    expected: Sequence[ExpectedLosses], least: Sequence[float], most: Sequence[float], chance: float
) -> list[float]:
    """The largest number of losses of each task that is more likely of an identical copy than of a worse one.

    Args:
        expected: What is known of the losses of identical copies.
        least: The true drop of each task that is allowed, 0 to 1.
        most: The true drop of each task that is to be found. If it is not above ``least``, the limit is infinite.
        chance: The share of identical copies that may exceed any of these limits.
    """
    limits: list[float] = []
    for step in range(_STEPS):
        limits = [
            _find_likelier(each.mean, each.docs * low, each.docs * high, _STEP * step)
            for each, low, high in zip(expected, least, most, strict=True)
        ]
        if math.fsum(each.exceed(limit) for each, limit in zip(expected, limits, strict=True)) <= chance:
            break
    return limits


def _find_likelier(mean: float, low: float, high: float, h: float) -> float:
    """The largest count that is no likelier by the factor exp(h) beside ``high`` further losses than beside ``low``."""
    if high <= low:
        return math.inf
    return math.floor((high - low + h) / math.log((mean + high) / (mean + low)))
