"""A control chart of the scores of past runs: an alarm on a drop, with a rate of false alarms that is named before.

Each run is compared with the runs before it. With n runs so far, mean m and standard deviation s of the first n - 1,

    T = (x - m) / s * sqrt((n - 1) / n)

has Student's distribution with n - 2 degrees of freedom, if the scores are normal and nothing changed. Turned into
normal scores, the T of all runs are independent (Quesenberry 1991, Journal of Quality Technology 23:213). So the rate
holds from the third run on, without a phase of calibration. Two rules watch the normal scores:

- a **sudden drop**: the score of one run is below ``-limit``;
- a **slow drift**: a CUSUM with the allowance 0.5 exceeds ``decision`` (Hawkins 1987, The Statistician 36:423).

Both limits together give the wanted average number of runs between false alarms. It is computed by a Markov chain of
the CUSUM (Brook and Evans 1972, Biometrika 59:539). A third of the false alarms are of sudden drops.

After an alarm, runs are compared with those before the change. The alarm ends when the runs since then are like those
before again. The changed runs never become part of the reference.

Scores are multiples of one doc's weight, and the runs of a deterministic engine may be equal. So s is at least one
doc. This makes alarms rarer, never more frequent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

# The allowance of the CUSUM: best for a drift of one standard deviation.
ALLOWANCE = 0.5

# Share of the false alarms that sudden drops may raise.
SUDDEN_SHARE = 1 / 3

# Fewest earlier runs that a run is compared with.
MIN_EARLIER = 2

# States of the Markov chain. The average run length changes by less than 1 % with twice as many.
_STATES = 100

State = Literal["ok", "sudden drop", "drift", "lasting"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the two rules.

    Attributes:
        limit: Of a single normal score.
        decision: Of the CUSUM.
    """

    limit: float
    decision: float


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """A run on the chart.

    Attributes:
        score: Its score.
        normal: Its normal score; None with too few earlier runs.
        cusum: The CUSUM after it; 0 during an alarm.
        state: ``ok``; the rule that raises an alarm with this run; or ``lasting`` for a later run of an alarm.
        mean: The mean of the runs that it was compared with; None with too few.
        change: For a run that raises an alarm: the indices of the first and the last run that may be the first changed
            one.
    """

    score: float
    normal: float | None
    cusum: float
    state: State
    mean: float | None
    change: tuple[int, int] | None = None


def draw_chart(scores: Sequence[float], runs_per_alarm: float, unit: float) -> list[ChartPoint]:
    """Judge each run by those before it, oldest first.

    Args:
        scores: From 0 to 1; higher is better.
        runs_per_alarm: The average number of runs from one false alarm to the next.
        unit: The smallest standard deviation: the weight of a doc.
    """
    limits = find_limits(runs_per_alarm)
    reference: list[int] = []
    points: list[ChartPoint] = []
    cusum, alarm = 0.0, None
    for index, score in enumerate(scores):
        earlier = [scores[run] for run in reference]
        normal = normal_score(score, earlier, unit)
        mean = math.fsum(earlier) / len(earlier) if len(earlier) >= MIN_EARLIER else None
        if alarm is not None:
            alarm.add(index, score)
            points.append(ChartPoint(score, normal, 0.0, "lasting", mean))
            if alarm.evidence > math.log(runs_per_alarm):
                reference += alarm.recovered
                alarm = None
            continue
        cusum = max(0.0, cusum - (normal or 0.0) - ALLOWANCE)
        reference.append(index)
        if normal is None or (normal >= -limits.limit and cusum <= limits.decision):
            points.append(ChartPoint(score, normal, cusum, "ok", mean))
            continue
        state: State = "sudden drop" if normal < -limits.limit else "drift"
        first, last = find_change([scores[run] for run in reference], unit)
        change = (reference[first], reference[last])
        points.append(ChartPoint(score, normal, cusum, state, mean, change))
        changed = [scores[run] for run in reference if run >= change[0]]
        reference = [run for run in reference if run < change[0]]
        alarm, cusum = _Alarm([scores[run] for run in reference], changed, unit), 0.0
    return points


class _Alarm:
    """The runs since an alarm: whether they are like those before the change again, or like the changed ones.

    The log-likelihood ratio of both levels is summed from its lowest point on (a CUSUM). If the drop lasts, it exceeds
    log(n) at most once in n runs on average (Lorden 1971, Annals of Mathematical Statistics 42:1897).
    """

    def __init__(self, earlier: Sequence[float], changed: Sequence[float], unit: float) -> None:
        before, after = (math.fsum(values) / len(values) for values in (earlier, changed))
        spread = max(math.sqrt(_squares(earlier) / max(1, len(earlier) - 1)), unit)
        self._middle, self._slope = (before + after) / 2, (before - after) / spread**2
        self.evidence = 0.0
        self.recovered: list[int] = []

    def add(self, index: int, score: float) -> None:
        self.evidence += (score - self._middle) * self._slope
        self.recovered.append(index)
        if self.evidence <= 0:
            self.evidence, self.recovered = 0.0, []


def normal_score(score: float, earlier: Sequence[float], unit: float) -> float | None:
    """The normal score of a run among earlier runs; None with fewer than `MIN_EARLIER`."""
    from scipy.stats import norm, t

    count = len(earlier)
    if count < MIN_EARLIER:
        return None
    mean = math.fsum(earlier) / count
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in earlier) / (count - 1))
    statistic = (score - mean) / max(spread, unit) * math.sqrt(count / (count + 1))
    tail = float(norm.isf(t.sf(abs(statistic), count - 1)))
    return math.copysign(min(tail, 8.0), statistic)


def find_change(scores: Sequence[float], unit: float) -> tuple[int, int]:
    """The indices of the first and the last run that may be the first changed one; the last run belongs to the change.

    For each possible first changed run, the likelihood of two levels with one variance is computed. Those within
    `_NEAR` of the best are possible (a profile likelihood set).
    """
    count = len(scores)
    losses = []
    for first in range(1, count):
        squares = sum(_squares(part) for part in (scores[:first], scores[first:]))
        losses.append(count / 2 * math.log(max(squares, unit**2)))
    best = min(losses)
    possible = [first for first, loss in enumerate(losses, 1) if loss <= best + _NEAR]
    return possible[0], possible[-1]


# Log-likelihood below the best at which a change point is still possible.
_NEAR = 2.0


def _squares(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


@lru_cache(maxsize=64)
def find_limits(runs_per_alarm: float) -> Limits:
    """The limits with which false alarms are on average so many runs apart.

    Raises:
        ValueError: Not between 10 and 1,000,000 runs.
    """
    from scipy.optimize import brentq
    from scipy.stats import norm

    if not 10 <= runs_per_alarm <= 1e6:
        raise ValueError(f"{runs_per_alarm:g} runs for each false alarm is not between 10 and 1,000,000")
    limit = float(norm.isf(SUDDEN_SHARE / runs_per_alarm))
    decision = brentq(
        lambda decision: math.log(average_run_length(Limits(limit, decision)) / runs_per_alarm), 0.01, 20.0, xtol=1e-4
    )
    return Limits(limit, float(decision))


def average_run_length(limits: Limits, shift: float = 0.0) -> float:
    """The average number of runs until an alarm.

    Args:
        limits: The limits.
        shift: How far the scores have dropped, in standard deviations.
    """
    import numpy as np
    from scipy.stats import norm

    width = limits.decision / (_STATES - 0.5)  # the first state, 0, has half the width of the others
    centres = np.arange(_STATES) * width
    # From each state, the CUSUM rises by u = -normal - ALLOWANCE. A sudden drop has u > limit - ALLOWANCE.
    most = limits.limit - ALLOWANCE
    upper = np.minimum(centres[None, :] + width / 2 - centres[:, None], most)
    lower = np.minimum(
        np.where(np.arange(_STATES) == 0, -np.inf, centres - width / 2)[None, :] - centres[:, None], most
    )
    moves = norm.cdf(upper + ALLOWANCE - shift) - norm.cdf(lower + ALLOWANCE - shift)
    return float(np.linalg.solve(np.eye(_STATES) - moves, np.ones(_STATES))[0])
