"""Bounds of a drop by betting on it, valid at every look.

Docs come in rounds. X is the contribution of a unit (a doc, or a cluster of docs) to its round's sum. It is scaled so
that the sum has mean t d, with d the true drop and t the number of units of a round. A gambler bets that less is lost,
with a stake l that is chosen before each round. Each unit multiplies the wealth by 1 - l X. Units are independent, so a
round multiplies the wealth on average by the product of 1 - l E(X). That is at most exp(-l t d), however the units
differ. So the wealth times exp(l t d) does not grow on average, and it ever reaches 1/a with probability at most a
(Ville 1939). The upper bound is the least d at which it would have reached 1/a. For the lower bound the gambler bets
that more is lost. A mixture of stakes is again a gambler (Robbins 1970, Annals of Mathematical Statistics 41:1397).
Sources: for means by betting with stakes by observed variance, Waudby-Smith and Ramdas 2024, JRSS B 86:1; for bounds of
a mean of unlike units, Howard, Ramdas, McAuliffe and Sekhon 2021, Annals of Statistics 49:1055.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meta_eval.base.thresholds import LEVEL
from meta_eval.stats.intervals import Interval

Doc = tuple[str, int | str]

# Stakes on a loss below the margin, as shares of the best stake for a copy without loss, and the share of wealth for
# each. Half the stake is best if half the margin is lost.
_HOLDING = ((1.0, 0.5), (0.5, 0.5))
# Stakes on a loss: for some ten points (about half the best stake, with which fewer runs are late), and for a few
# points.
_LOSING = ((0.33, 0.7), (0.08, 0.3))
# No stake may lose everything on a single unit.
_MOST = 0.95
# The prior: the share of docs that flip, and its weight in units. It affects the width of the bounds, not their
# validity.
_FLIPS, _WORTH = 0.05, 200


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a drop so far, as shares, positive for worse.

    Attributes:
        drop: The estimate: the mean over complete rounds; 0 before the first.
        interval: At `LEVEL`, valid at any look: the intersection of all so far.
    """

    drop: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Target:
    """An average to bound.

    Attributes:
        scales: A doc's contribution to its round's sum per lost point; docs without weight are left out.
        time: Mean number of units of a round.
        most: The largest contribution of a unit.
        variance: The mean square of possible contributions.
    """

    scales: Mapping[Doc, float]
    time: float
    most: float
    variance: float


class Wealth:
    """The wealth of both gamblers on an average; the module's docstring has the method."""

    def __init__(self, target: Target, margin: float) -> None:
        self.target, self.margin = target, margin
        self.lower, self.upper = -math.inf, math.inf
        # The largest log wealth so far against no drop, and against a drop equal to the margin.
        self.below = self.beyond = 0.0
        self._sum = self._rounds = 0.0
        self._squares = _FLIPS * _WORTH * target.variance
        self._holding = [[math.log(share), 0.0] for _, share in _HOLDING]
        self._losing = [[math.log(share), 0.0] for _, share in _LOSING]

    @property
    def bounds(self) -> Bounds:
        drop = self._sum / (self._rounds * self.target.time) if self._rounds else 0.0
        return Bounds(drop, Interval(max(-1.0, self.lower), min(1.0, self.upper)))

    def add_round(self, units: Sequence[Sequence[tuple[Doc, float]]]) -> None:
        """Add a complete round: for each changed unit, its docs and their losses."""
        target = self.target
        scales = target.scales
        changes = [math.fsum(scales.get(doc, 0.0) * loss for doc, loss in unit) for unit in units]
        changes = [change for change in changes if change]
        variance = self._squares / (self._rounds * target.time + _WORTH)
        cap = _MOST / target.most
        for (share, _), state in zip(_HOLDING, self._holding, strict=True):
            stake = min(cap, share * self.margin / variance)
            state[0] += math.fsum(math.log1p(-stake * change) for change in changes)
            state[1] += stake * target.time
        for (size, _), state in zip(_LOSING, self._losing, strict=True):
            stake = min(cap, size)
            state[0] += math.fsum(math.log1p(stake * change) for change in changes)
            state[1] -= stake * target.time
        self._sum += math.fsum(changes)
        self._squares += math.fsum(change * change for change in changes)
        self._rounds += 1
        # If bounds would cross, because the truth is outside, the first bound stays.
        self.upper = max(self.lower, _least(self._holding, self.upper))
        self.lower = min(self.upper, -_least([[won, -slope] for won, slope in self._losing], -self.lower))
        self.below = max(self.below, _log_wealth(self._losing, 0.0))
        self.beyond = max(self.beyond, _log_wealth(self._losing, self.margin))


def _log_wealth(mixture: Sequence[Sequence[float]], drop: float) -> float:
    terms = [won + slope * drop for won, slope in mixture]
    top = max(terms)
    return top + math.log(math.fsum(math.exp(term - top) for term in terms))


def _least(mixture: Sequence[Sequence[float]], mean_of_all: float) -> float:
    """The least drop at which the wealth has reached a side's level, or ``mean_of_all`` if that is less.

    The log wealth is convex and rises with the drop, so Newton's method converges from above.
    """
    needed = math.log(2 / (1 - LEVEL))
    at = min(mean_of_all, *((needed - won) / slope if slope else math.inf for won, slope in mixture))
    for _ in range(50):
        if at == math.inf:
            break
        terms = [won + slope * at for won, slope in mixture]
        top = max(terms)
        parts = [math.exp(term - top) for term in terms]
        total = math.fsum(parts)
        beyond = top + math.log(total) - needed
        if beyond <= 1e-12:
            break
        at -= beyond * total / math.fsum(part * slope for part, (_, slope) in zip(parts, mixture, strict=True))
    return at
