"""Drift: whether what was asked late is lost more often than what was asked early.

Two tests, each exact whatever the docs are like. Both take units: a doc on its own, or the docs of one cluster added
up.

- **The same docs twice.** Without drift the first and the second answer to a doc can change places, so that a unit
  which changed went down as likely as up: the sign test (Dixon and Mood 1946, JASA 41:557).
- **Docs in a random order.** Without drift any order of the losses is as likely as the one that was drawn. The
  statistic is the largest distance between the losses up to a tenth of the run and those that an even spread would put
  there, over nine tenths, so that the time of a change need not be known (a CUSUM with a permutation test: among others
  Antoch and Huskova 2001, Statistics & Probability Letters 53:37). The p value is that of a permutation test with drawn
  orders (Phipson and Smyth 2010, SAGMB 9:39: it never is 0). Places are drawn with replacement, and strata that are
  spread evenly keep losses apart: both only make it more careful.

A run that does not drift raises an alarm in at most `DRIFT_ALPHA` of cases, both tests together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from meta_eval.thresholds import DRIFT_ALPHA, ROUNDING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

# Orders that are drawn at once, and how often.
_DRAWN, _TIMES = 500, 8
_TENTHS = tuple(number / 10 for number in range(1, 10))


def repeat_p_value(losses: Sequence[float]) -> float:
    """The two-sided p value of no drift between two answers to the same docs.

    Args:
        losses: Of each unit what the second answer lost on the first.
    """
    from scipy.stats import binomtest

    lost, won = sum(loss > ROUNDING for loss in losses), sum(loss < -ROUNDING for loss in losses)
    return float(binomtest(lost, lost + won).pvalue) if lost + won else 1.0


def order_p_value(losses: Sequence[float]) -> float:
    """The p value of no drift in a run whose docs were asked in a random order.

    Args:
        losses: Of each unit what was lost on its baseline, in the order in which it was asked.
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
    """Whether the tests of one run, taken together, show a drift (Bonferroni)."""
    return any(p < DRIFT_ALPHA / len(p_values) for p in p_values)
