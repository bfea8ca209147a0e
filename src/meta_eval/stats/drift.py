"""Tests for drift: whether docs asked late are lost more often than docs asked early.

There are two exact tests. Both use units: an independent doc, or the sum over a cluster.

- **The same docs twice.** Without drift the first and second answer to a doc are exchangeable, so a changed unit goes
  down as likely as up: the sign test (Dixon and Mood 1946, JASA 41:557).
- **Docs in a random order.** Without drift any order of the losses is equally likely. The statistic compares the
  cumulative losses after each tenth of the run with an even spread, and takes the largest distance. So the time of a
  change need not be known (a CUSUM with a permutation test: among others Antoch and Huskova 2001, Statistics &
  Probability Letters 53:37). The p value is that of a permutation test with drawn orders (Phipson and Smyth 2010, SAGMB
  9:39), which is never 0. Places are drawn with replacement, and evenly spread strata keep losses apart; both make the
  test more conservative.

A run without drift raises an alarm in at most `DRIFT_ALPHA` of cases, for both tests together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from meta_eval.base.thresholds import DRIFT_ALPHA, ROUNDING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

# Orders per batch, and number of batches.
_DRAWN, _TIMES = 500, 8
_TENTHS = tuple(number / 10 for number in range(1, 10))


def repeat_p_value(losses: Sequence[float]) -> float:
    """The two-sided p value of no drift between two answers to the same docs.

    Both tails of a fair coin are alike, so it is twice the smaller one. `scipy.stats` has the test, but importing it
    takes longer than a comparison.

    Args:
        losses: The loss of each unit's second answer against the first.
    """
    from scipy.special import bdtr

    lost, won = sum(loss > ROUNDING for loss in losses), sum(loss < -ROUNDING for loss in losses)
    return min(1.0, 2 * float(bdtr(min(lost, won), lost + won, 0.5))) if lost + won else 1.0


def order_p_value(losses: Sequence[float]) -> float:
    """The p value of no drift in a run with a random order of docs.

    Args:
        losses: The loss of each unit against its baseline, in the order of the run.
    """
    import numpy as np

    values = np.asarray(losses, dtype=float)
    changed = np.flatnonzero(np.abs(values) > ROUNDING)
    if len(changed) < 2:
        return 1.0
    tenths = np.asarray(_TENTHS)
    changes, scale = values[changed], np.sqrt(tenths * (1 - tenths))

    def furthest(places: Floats) -> Floats:
        early = np.stack([(places < tenth) @ changes for tenth in tenths], axis=-1)
        return np.asarray(np.max(np.abs(early - tenths * changes.sum()) / scale, axis=-1))

    seen = furthest((changed[None, :] + 0.5) / len(values))[0] - ROUNDING
    rng = np.random.default_rng(0)  # the same p value each time
    more = sum(np.count_nonzero(furthest(rng.random((_DRAWN, len(changes)))) >= seen) for _ in range(_TIMES))
    return float((1 + more) / (1 + _DRAWN * _TIMES))


def is_drift(p_values: Sequence[float]) -> bool:
    """Whether the tests of a run together show drift (Bonferroni)."""
    return any(p < DRIFT_ALPHA / len(p_values) for p in p_values)
