"""What an identical copy of a model gives: flips that go both ways alike, and the drops that chance makes of them.

Docs that flip are rare, so that what is lost and what is won behave like two independent Poisson counts, each with half
of the flips as its mean (as in `meta_eval.stats.drop`), and their difference has Skellam's distribution. So nothing has
to be run to know what a comparison of so many docs can show.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from meta_eval.stats.clustered_mean import average_docs
from meta_eval.stats.drop import Drop
from meta_eval.stats.intervals import t_quantile
from meta_eval.thresholds import LEVEL, SURE

if TYPE_CHECKING:
    from meta_eval.stats.clustered_mean import Floats

# Standard deviations of a Poisson count beyond which less than one in ten million lies.
_REACH = 5.5


def expect_copy(
    docs: int, flips: float, labels: Sequence[Hashable] | None = None, clusters: Sequence[Hashable] | None = None
) -> Drop:
    """The drop to be expected of an identical copy before anything is asked: none, with flips both ways.

    Each doc flips on its own, also where docs share a question: which answers of one model change with its engine does
    not depend on what the question is. What is measured later counts clusters all the same.

    Args:
        docs: How many.
        flips: The share of docs that flip, 0 to 1.
        labels: The subtask of each doc, where the metric is an average over subtasks.
        clusters: What each doc shares with others; None for docs on their own.

    Raises:
        ValueError: No doc, or not a label or a cluster for each.
    """
    average = average_docs([0.0] * docs, labels, clusters)
    like = Drop(
        0.0, 0.0, 0.0, 0.0, 0.0, average.freedom, average.grain, 0, docs, average.clusters, paired=True
    )  # fmt: skip
    unit = math.fsum(average.weights**2)
    return of_counts(like, flips / unit / 2, flips / unit / 2, unit)


def narrow_drop(expected: Drop, share: float) -> Drop:
    """An expected drop with this share of its variance: what is left where several runs are averaged.

    As many docs differ, each by less, as the size of the differences goes with the root of their variance.
    """
    root = math.sqrt(share)
    return replace(
        expected, lost=expected.lost * root, won=expected.won * root, variance=expected.variance * share
    )  # fmt: skip


def of_counts(like: Drop, lost: float, won: float, unit: float) -> Drop:
    """The drop over the docs of another in which so many flips of this size were lost and won."""
    flipped = min(like.clusters, round(lost + won))
    return replace(like, lost=lost * unit, won=won * unit, variance=unit * unit * (lost + won), flipped=flipped)


def flip_unit(expected: Drop) -> float:
    """The size of one flip of an expected drop."""
    changed = expected.lost + expected.won
    return expected.variance / changed if changed > 0 and expected.variance > 0 else expected.grain


def chance_within(expected: Drop, margin: float) -> float:
    """The chance that a run of which this drop is expected is within the margin: its whole interval is below it.

    Exact for counts of flips that are Poisson: a sum over what may be lost and won.

    Args:
        expected: `expect_copy` of an identical copy; a loss on top of it stands in ``lost``.
        margin: The largest drop that is allowed, 0 to 1.
    """
    ends, chances = _worse_ends(expected)
    return float(chances[ends < margin].sum())


def margin_within(expected: Drop, chance: float = SURE) -> float:
    """The smallest margin that a run of which this drop is expected is within, with this chance; at most 1."""
    import numpy as np

    ends, chances = _worse_ends(expected)
    order = np.argsort(ends, kind="stable")
    place = int(np.searchsorted(np.cumsum(chances[order]), chance))
    return float(ends[order[min(place, len(order) - 1)]])


def worst_end(drop: Drop, flips: float, chance: float, level: float = LEVEL) -> float:
    """The worse end of the interval of an identical copy over the same docs, which few identical copies exceed.

    Args:
        drop: Its docs: their weights and clusters.
        flips: The share of docs that flip, 0 to 1.
        chance: The share of identical copies that lose more than this one, by chance.
        level: Of the interval.

    Returns:
        The end, as a drop from -1 to 1.
    """
    half = max(0.5, flips / drop.grain / 2)
    more = skellam_quantile(1 - chance, half)
    won = max(0.0, half - more / 2)
    return of_counts(drop, won + more, won, drop.grain).interval(level).upper


@lru_cache(maxsize=4096)
def skellam_quantile(chance: float, mean: float) -> int:
    """The smallest difference of two Poisson counts of this mean that this share of differences does not exceed.

    By the noncentral chi-squared distribution (Johnson 1959, Journal of the Royal Statistical Society B 21:396).
    """
    from scipy.special import chndtr

    def below(difference: int) -> float:
        if difference < 0:
            return float(chndtr(2 * mean, -2 * difference, 2 * mean))
        return 1 - float(chndtr(2 * mean, 2 * (difference + 1), 2 * mean))

    lower, upper = -1, 1
    while below(upper) < chance:
        lower, upper = upper, 2 * upper
    while below(lower) >= chance:
        lower, upper = 2 * lower, lower
    while upper - lower > 1:
        middle = (lower + upper) // 2
        lower, upper = (middle, upper) if below(middle) < chance else (lower, middle)
    return upper


def _worse_ends(expected: Drop) -> tuple[Floats, Floats]:
    """The worse end of the interval by what is lost and won, and how likely each is."""
    import numpy as np

    if not expected.freedom:
        return np.ones(1), np.ones(1)
    unit = flip_unit(expected)
    lost, of_lost = _poisson(expected.lost / unit)
    won, of_won = _poisson(expected.won / unit)
    chances = of_lost[:, None] * of_won
    counts = lost[:, None] + won
    # The size of a flip as `Drop.flip_size` has it.
    size = np.maximum(np.where(counts > 0, unit, 0.0), expected.grain / (1 + np.minimum(counts, expected.clusters)))
    t = t_quantile(LEVEL, expected.freedom)
    above = t * np.sqrt(lost[:, None] * unit / size + t * t / 4) + t * t / 2
    below = t * np.sqrt(won * unit / size + t * t / 4) - t * t / 2
    ends = (lost[:, None] - won) * unit + size * np.sqrt(above**2 + below**2)
    return np.minimum(1.0, ends).ravel(), (chances / chances.sum()).ravel()


def _poisson(mean: float) -> tuple[Floats, Floats]:
    """The counts that matter, and how likely each is."""
    import numpy as np

    reach = _REACH * math.sqrt(mean + 1)
    counts = np.arange(max(0, math.floor(mean - reach)), math.ceil(mean + reach + 2), dtype=float)
    if mean <= 0:
        return np.zeros(1), np.ones(1)
    logs = np.cumsum(np.log(mean / np.maximum(counts, 1)))
    weights = np.exp(logs - logs.max())
    return counts, weights / weights.sum()
