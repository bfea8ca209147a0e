"""What each task counts in the mean drop: by precision, all the same, or by docs. Nothing here depends on a drop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from meta_eval.stats.drop import Drop

Weighting = Literal["precision", "equal", "docs"]


def weigh_tasks(drops: Sequence[Drop], weighting: Weighting = "precision") -> list[float]:
    """Weights for `mean_drop`, adding up to 1.

    Args:
        drops: Of each task.
        weighting: ``precision`` as of `precision_weights`; ``equal`` for the same weight for each task; ``docs`` for
            the number of docs, whatever they share.

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
    """Weights for `mean_drop`, adding up to 1: by precision, as it is known before the tasks come out.

    The inverse of the variance that each drop has if docs change equally much in every task: the number of docs (of
    clusters; over subtasks, of docs that they are worth), or for `unpaired_drop` the inverse of its own variance,
    beside that of paired docs. The inverse of the variance that was seen would be sharper, and wrong: each loss raises
    a drop and its variance together, so that a task that lost little by chance would weigh the more, and the mean of a
    true drop come out too small (benchmarks/README.md). So all comparisons over the same tasks have the same weights.

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
