"""What an identical copy of a model gives: flips that go both ways alike, and the drops that chance makes of them.

Docs that flip are rare, so that what is lost and what is won behave like two independent Poisson counts, each with half
of the flips as its mean (as in `meta_eval.stats.drop`), and their difference has Skellam's distribution. So nothing has
to be run to know what a comparison of so many docs can show.
"""

from __future__ import annotations

from dataclasses import replace

from meta_eval.stats.drop import Drop
from meta_eval.thresholds import LEVEL


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
    from scipy.stats import skellam

    half = max(0.5, flips / drop.grain / 2)
    more = float(skellam.ppf(1 - chance, half, half))
    won = max(0.0, half - more / 2)
    return _of_counts(drop, won + more, won).interval(level).upper


def chance_within(docs: int, flips: float, margin: float, level: float = LEVEL) -> float:
    """The chance that an identical copy is shown to be within a margin, over independent docs that weigh the same.

    Args:
        docs: How many.
        flips: The share of docs that flip, 0 to 1.
        margin: The largest drop that is allowed, 0 to 1.
        level: Of the interval.

    Returns:
        From 0 to 1, summed over all counts of lost and won docs.
    """
    import numpy as np
    from scipy.stats import poisson

    half = max(flips * docs / 2, 1e-9)
    most = int(poisson.ppf(1 - 1e-9, half)) + 1
    counts = range(most + 1)
    chances = poisson.pmf(np.arange(most + 1), half)
    like = drop_of_counts(docs, 0, 0)
    # The worse end rises with what is lost: for each number of docs won, find how many may be lost.
    total, lost = 0.0, -1
    below = np.cumsum(chances)
    for won in counts:
        while lost < most and _of_counts(like, lost + 1, won).interval(level).upper < margin:
            lost += 1
        if lost >= 0:
            total += float(chances[won] * below[lost])
    return min(1.0, total)


def margin_within(docs: int, flips: float, chance: float = LEVEL) -> float:
    """The smallest margin, 0 to 1, that an identical copy is shown to be within at this chance."""
    lower, upper = 0.0, 1.0
    while upper - lower > 1e-4:
        middle = (lower + upper) / 2
        lower, upper = (middle, upper) if chance_within(docs, flips, middle) < chance else (lower, middle)
    return upper


def drop_of_counts(docs: int, lost: int, won: int) -> Drop:
    """The drop of so many independent docs, of which some are lost and some won."""
    like = Drop(0.0, 0.0, 0.0, 0.0, 0.0, float(docs - 1), 1 / docs, 0, docs, docs, paired=True)
    return _of_counts(like, lost, won)


def _of_counts(like: Drop, lost: float, won: float) -> Drop:
    unit = like.grain
    return replace(
        like, lost=lost * unit, won=won * unit, variance=unit * unit * (lost + won), flipped=max(1, round(lost + won))
    )
