"""A control chart of the scores of past runs: an alarm on a drop, with a rate of false alarms that is named before.

Nightly runs resemble their neighbours: one machine, one cache, one weekend. A chart for independent runs then raises
several times the false alarms that it promises (Alwan and Roberts 1988, Journal of Business & Economic Statistics
6:87). So each run is predicted from the runs before it by an autoregression of order 1: a level, a standard deviation,
and a correlation of neighbours r. All three are estimated from the runs. For a given r, the whitened scores
(x_i - r x_(i-1)) / sqrt(1 - r^2) are independent, and the next one has Student's distribution. It is averaged over
`CORRELATIONS`, each weighed by its prior and its marginal likelihood. The probability of a run under this prediction,
as a normal score, is independent of those before it (Rosenblatt 1952, Annals of Mathematical Statistics 23:470; for
r = 0 this is the chart of Quesenberry 1991, Journal of Quality Technology 23:213). The prior is the shrinkage: with few
runs the correlation is a guess, and the normal scores allow for it.

Two rules watch the normal scores:

- a **slow drift**: a CUSUM exceeds ``decision`` (Hawkins 1987, The Statistician 36:423). A normal score counts at most
  `MOST` (winsorised; Hawkins and Olwell 1998, Cumulative Sum Charts, section 3.7), so heavy tails raise no alarm. Its
  allowance is half of the shift that a lasting drop of 0.8 standard deviations leaves, for independent runs. A
  correlated run repeats a part of the drop before it, so that less is left, and the allowance is smaller.
- a **sudden drop**: one run is more than `SUDDEN` standard deviations below the prediction. Noise with the tails of
  Student's t with three degrees of freedom has such a run once in three years. With few runs Student's distribution
  makes even this likely, so the normal score must be below -`_FEW_SUDDEN` as well.

The decision limit gives the wanted average number of runs between false alarms. It is computed by a Markov chain of the
CUSUM (Brook and Evans 1972, Biometrika 59:539), and corrected by `CALIBRATION`.

After an alarm, runs are compared with those before the change. The alarm ends when the runs since then are like those
before again. If it ends, the runs that raised it count again, unless they stand out by themselves: to leave out low
runs after each false alarm would raise the level, and hide the correlation. Other changed runs never become part of
the reference.

Scores are multiples of one doc's weight, and the runs of a deterministic engine may be equal. So the standard deviation
is at least one doc. This makes alarms rarer, never more frequent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy.typing as npt

# Correlations of neighbouring runs that are tried, and the prior probability of the first; the others share the rest.
# From 0.9 on, a drop after few runs looks like a walk. With less for 0, alarms of independent runs are rarer than
# promised, and drops are seen later.
CORRELATIONS = tuple(step / 10 for step in range(9))
INDEPENDENT = 0.35

# The allowance of the CUSUM for independent runs, and the power of (1 - r) / (1 + r) by which it is smaller for others.
ALLOWANCE = 0.4
_SHRINKS = 0.25
# The most that a normal score counts in the CUSUM.
MOST = 2.5
# The standard deviations of a sudden drop, and the normal score that it has at least.
SUDDEN = 6.2
_FEW_SUDDEN = 3.5
# Normal scores of runs that never count again after an alarm.
_STANDS_OUT = 4.0

# The limits are for this share of the wanted runs, because predictions that allow for unknown noise raise fewer alarms
# than the chain expects. benchmarks/history.py draws years of independent, correlated and heavy-tailed runs.
CALIBRATION = 0.7

# Fewest earlier runs that a run is compared with.
MIN_EARLIER = 2
# Runs from which on drops of usual size raise an alarm. With fewer, Student's tails are so wide that only a gross drop
# does: below six degrees of freedom a run must be four standard deviations lower to count `MOST`, and three such runs
# raise an alarm.
ENOUGH_RUNS = 10

# States of the Markov chain. The average run length changes by less than 1 % with twice as many.
_STATES = 100
# A longer run length is not computed.
_LONGEST = 1e14

ChartState = Literal["ok", "sudden drop", "drift", "lasting"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the CUSUM."""

    allowance: float
    """What is subtracted for each run."""

    decision: float
    """An alarm is raised above it."""


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """A run on the chart."""

    score: float
    """Its score."""

    normal: float | None
    """Its normal score; None with too few earlier runs."""

    cusum: float
    """The CUSUM after it; 0 during an alarm."""

    state: ChartState
    """``ok``; the rule that raises an alarm with this run; or ``lasting`` for a later run of an alarm."""

    mean: float | None
    """The mean of the runs that it was compared with; None with too few."""

    correlation: float
    """Of neighbouring runs before it, from 0 to 0.8; 0 with too few."""

    change: tuple[int, int] | None = None
    """For a run that raises an alarm: the indices of the first and the last run that may be the first changed one."""


def draw_chart(scores: Sequence[float], runs_per_alarm: float, unit: float) -> list[ChartPoint]:
    """Judge each run by those before it, oldest first.

    Args:
        scores: From 0 to 1; higher is better.
        runs_per_alarm: The average number of runs from one false alarm to the next.
        unit: The smallest standard deviation: the weight of a doc.
    """
    reference = _Reference(scores, unit)
    points: list[ChartPoint] = []
    cusum, alarm = 0.0, None
    for index, score in enumerate(scores):
        mean = reference.mean
        normal, correlation = reference.predict(index)
        if alarm is not None:
            alarm.add(index, score)
            points.append(ChartPoint(score, normal, 0.0, "lasting", mean, correlation))
            if alarm.evidence > math.log(runs_per_alarm):
                again = (run for run in alarm.changed if abs(points[run].normal or 0.0) < _STANDS_OUT)
                reference = _Reference(scores, unit, sorted((*reference.runs, *again, *alarm.recovered)))
                alarm = None
            continue
        limits = find_limits(runs_per_alarm, correlation)
        cusum = max(0.0, cusum + min(max(-(normal or 0.0), -MOST), MOST) - limits.allowance)
        reference.add(index)
        is_sudden = normal is not None and normal < -_find_sudden(len(reference.runs) - 2)
        if not is_sudden and cusum <= limits.decision:
            points.append(ChartPoint(score, normal, cusum, "ok", mean, correlation))
            continue
        state: ChartState = "sudden drop" if is_sudden else "drift"
        kept = [scores[run] for run in reference.runs]
        first, best, last = find_change(kept, unit, correlation)
        change = (reference.runs[first], reference.runs[last])
        points.append(ChartPoint(score, normal, cusum, state, mean, correlation, change))
        alarm, cusum = _Alarm(kept[:best], kept[best:], unit, correlation, reference.runs[best:]), 0.0
        reference = _Reference(scores, unit, reference.runs[:best])
    return points


@lru_cache(maxsize=1024)
def _find_sudden(freedom: int) -> float:
    """The limit of the normal score of a sudden drop, for the degrees of freedom of its prediction."""
    from scipy.special import ndtri, stdtr

    return max(_FEW_SUDDEN, -float(ndtri(stdtr(freedom, -SUDDEN))))


class _Reference:
    """The runs that others are compared with, and what they say of the next one for each of `CORRELATIONS`.

    With a flat prior of the level and of the logarithm of the standard deviation, sums of the whitened scores y and of
    the whitened constant c are sufficient (among others Box and Tiao 1973, Bayesian Inference in Statistical Analysis,
    section 2.7). A gap of n runs between neighbours has the correlation r^n.
    """

    def __init__(self, scores: Sequence[float], unit: float, runs: Iterable[int] = ()) -> None:
        import numpy as np

        self._scores, self._unit = scores, unit
        self._tried = np.array(CORRELATIONS)
        prior = np.where(self._tried == 0, INDEPENDENT, (1 - INDEPENDENT) / (len(self._tried) - 1))
        # Of each correlation: the sums of c^2, c y and y^2, and the logarithm of prior and Jacobian.
        self._sums: npt.NDArray[Any] = np.zeros((3, len(prior)))
        self._log: npt.NDArray[Any] = np.log(prior)
        self.runs: list[int] = []
        for run in runs:
            self.add(run)

    @property
    def mean(self) -> float | None:
        """The mean of the runs; None with too few."""
        if len(self.runs) < MIN_EARLIER:
            return None
        return math.fsum(self._scores[run] for run in self.runs) / len(self.runs)

    def add(self, run: int) -> None:
        """Add a run, which is newer than the others."""
        import numpy as np

        y, c, scale = self._whiten(run)
        self._sums += np.stack([c * c, c * y, y * y])
        self._log = self._log - np.log(scale)
        self.runs.append(run)

    def _whiten(self, run: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        import numpy as np

        at = self._scores[run] - self._scores[0]
        if not self.runs:
            ones = np.ones(len(self._tried))
            return at * ones, ones, ones
        last = self.runs[-1]
        shared = self._tried ** (run - last)
        scale = np.sqrt(1 - shared**2)
        return (at - shared * (self._scores[last] - self._scores[0])) / scale, (1 - shared) / scale, scale

    def predict(self, run: int) -> tuple[float | None, float]:
        """The normal score of a newer run, and the correlation of the runs; None and 0 with too few runs."""
        import numpy as np
        from scipy.special import ndtri, stdtr

        if len(self.runs) < MIN_EARLIER:
            return None, 0.0
        freedom = len(self.runs) - 1
        cc, cy, yy = self._sums
        squares = np.maximum(yy - cy**2 / cc, self._unit**2 * freedom)
        log = self._log - np.log(cc) / 2 - freedom / 2 * np.log(squares)
        weights = np.exp(log - log.max())
        weights /= weights.sum()
        y, c, _ = self._whiten(run)
        statistic = (y - cy / cc * c) / np.sqrt(squares / freedom * (1 + c * c / cc))
        lower, upper = (float(weights @ stdtr(freedom, side * statistic)) for side in (1, -1))
        normal = float(ndtri(lower)) if lower < upper else -float(ndtri(upper))
        return min(max(normal, -8.0), 8.0), float(weights @ self._tried)


class _Alarm:
    """The runs since an alarm: whether they are like those before the change again, or like the changed ones.

    The log-likelihood ratio of both levels is summed from its lowest point on (a CUSUM). If the drop lasts, it exceeds
    log(n) at most once in n runs on average (Lorden 1971, Annals of Mathematical Statistics 42:1897). Correlated runs
    say less of a level, by (1 - r) / (1 + r).
    """

    def __init__(
        self, earlier: Sequence[float], later: Sequence[float], unit: float, correlation: float, changed: Sequence[int]
    ) -> None:
        before, after = (math.fsum(values) / len(values) for values in (earlier, later))
        spread = max(math.sqrt(_squares(earlier) / max(1, len(earlier) - 1)), unit)
        self._middle, self._slope = (before + after) / 2, (before - after) / spread**2 / _inflation(correlation)
        self.evidence = 0.0
        self.changed = tuple(changed)
        self.recovered: list[int] = []

    def add(self, index: int, score: float) -> None:
        self.evidence += (score - self._middle) * self._slope
        self.recovered.append(index)
        if self.evidence <= 0:
            self.evidence, self.recovered = 0.0, []


def _inflation(correlation: float) -> float:
    """How many times the variance of a mean of runs is that of independent ones."""
    return (1 + correlation) / (1 - correlation)


def find_change(scores: Sequence[float], unit: float, correlation: float = 0.0) -> tuple[int, int, int]:
    """The indices of the first, the likeliest and the last run that may be the first changed one.

    The last run belongs to the change. For each possible first changed run, the likelihood of two levels with one
    variance is computed. Those within `_NEAR` of the best are possible (a profile likelihood set).
    """
    count = len(scores)
    losses = []
    for first in range(1, count):
        squares = sum(_squares(part) for part in (scores[:first], scores[first:]))
        losses.append(count / 2 * math.log(max(squares, unit**2)))
    best = min(losses)
    near = _NEAR * _inflation(correlation)
    possible = [first for first, loss in enumerate(losses, 1) if loss <= best + near]
    return possible[0], losses.index(best) + 1, possible[-1]


# Log-likelihood below the best at which a change point is still possible, for independent runs.
_NEAR = 2.0


def _squares(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


def find_limits(runs_per_alarm: float, correlation: float = 0.0) -> Limits:
    """The limits with which false alarms are on average so many runs apart.

    Raises:
        ValueError: Not between 10 and 10,000,000,000 runs.
    """
    if not 10 <= runs_per_alarm <= 1e10:
        raise ValueError(f"{runs_per_alarm:g} runs for each false alarm is not between 10 and 10,000,000,000")
    return _find_limits(CALIBRATION * runs_per_alarm, round(ALLOWANCE / _inflation(correlation) ** _SHRINKS, 2))


@lru_cache(maxsize=256)
def _find_limits(runs: float, allowance: float) -> Limits:
    from scipy.optimize import brentq

    decision = brentq(
        lambda decision: math.log(average_run_length(Limits(allowance, decision)) / runs), 0.01, 100.0, xtol=1e-4
    )
    return Limits(allowance, float(decision))


def average_run_length(limits: Limits, shift: float = 0.0) -> float:
    """The average number of runs until an alarm.

    Args:
        limits: The limits.
        shift: How far the scores have dropped, in standard deviations.
    """
    import numpy as np
    from scipy.special import ndtr

    width = limits.decision / (_STATES - 0.5)  # the first state, 0, has half the width of the others
    centres = np.arange(_STATES) * width
    # From each state, the CUSUM rises by u = -normal - allowance, where a normal score below -MOST counts as -MOST.
    most = MOST - limits.allowance
    upper = np.minimum(centres[None, :] + width / 2 - centres[:, None], most)
    lower = np.minimum(
        np.where(np.arange(_STATES) == 0, -np.inf, centres - width / 2)[None, :] - centres[:, None], most
    )
    moves = ndtr(upper + limits.allowance - shift) - ndtr(lower + limits.allowance - shift)
    reached = np.floor((centres + most) / width + 0.5).astype(int)
    inside = np.flatnonzero(reached < _STATES)
    moves[inside, reached[inside]] += ndtr(shift - MOST)
    try:
        length = float(np.linalg.solve(np.eye(_STATES) - moves, np.ones(_STATES))[0])
    except np.linalg.LinAlgError:
        length = _LONGEST
    return length if 0 < length < _LONGEST else _LONGEST  # as far as float64 can tell
