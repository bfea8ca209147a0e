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


def _of_counts(like: Drop, lost: float, won: float) -> Drop:
    unit = like.grain
    return replace(
        like, lost=lost * unit, won=won * unit, variance=unit * unit * (lost + won), flipped=max(1, round(lost + won))
    )
