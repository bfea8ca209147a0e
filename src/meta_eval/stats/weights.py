"""Weights of tasks in the mean drop: by precision, equal, or by docs. They never depend on a drop."""

from __future__ import annotations

import math
from collections.abc import Sequence

from meta_eval.base.thresholds import Weighting
from meta_eval.stats.drop import Drop


def weigh_tasks(drops: Sequence[Drop], weighting: Weighting = "precision") -> list[float]:
    """Weights for `mean_drop`, adding up to 1.

    Args:
        drops: The drop of each task.
        weighting: ``precision`` as of `precision_weights`; ``equal`` for equal weights; ``docs`` for the number of
            docs, ignoring clusters.

    Raises:
        ValueError: There is no drop.
    """
    if weighting == "precision":
        return precision_weights(drops)
    if not drops:
        raise ValueError("there is no drop")
    counts = [drop.docs if weighting == "docs" else 1 for drop in drops]
    return [count / sum(counts) for count in counts]


def precision_weights(drops: Sequence[Drop]) -> list[float]:
    """Weights for `mean_drop`, adding up to 1: by the precision that is known before the results.

    A weight is the inverse variance of a drop if docs change equally in every task. That is the number of docs or
    clusters, over subtasks their effective number. For `unpaired_drop` it is the inverse of its own variance, relative
    to that of paired docs. The inverse of the observed variance would be biased: a loss raises a drop and its variance
    together, so a task that lost little by chance would get more weight, and the mean drop would be too small
    (benchmarks/README.md). So all comparisons over the same tasks have the same weights.

    Raises:
        ValueError: There is no drop.
    """
    if not drops:
        raise ValueError("there is no drop")
    measured = [drop for drop in drops if drop.freedom]
    paired = [drop for drop in measured if drop.paired]
    doc = math.fsum(drop.seen_variance for drop in paired) / math.fsum(drop.grain for drop in paired) if paired else 0.0
    precisions = [
        0.0 if not drop.freedom else 1 / (doc * drop.grain if drop.paired else drop.seen_variance) for drop in drops
    ]
    total = math.fsum(precisions)
    return [precision / total for precision in precisions] if total > 0 else [1 / len(drops)] * len(drops)
