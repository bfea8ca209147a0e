"""Describes an identical copy of a model: flips in both directions equally, and the resulting drops by chance.

Flips are rare, so losses and gains behave like two independent Poisson counts, each with half the flips as its mean (as
in `meta_eval.stats.drop`). Their difference has Skellam's distribution. So the power of a comparison is known without a
run.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

from meta_eval.base.thresholds import LEVEL, ROUNDING, SURE, WHOLE_CHANGE
from meta_eval.stats.clustered_mean import average_docs, number_names
from meta_eval.stats.drop import Drop
from meta_eval.stats.intervals import t_quantile

if TYPE_CHECKING:
    from meta_eval.stats.clustered_mean import Floats

# Pairs of docs of a cluster from which a correlation is known to about 0.05, and changed docs among them.
_FEWEST_PAIRS, _FEWEST_CHANGES = 400, 10

# Values that stand for a normal distribution.
_NODES = 21

# Standard deviations of a Poisson count beyond which less than one in ten million lies; and less than one in
# a trillion.
_REACH, _FAR_REACH = 5.5, 9.0


def expect_copy(
    docs: int,
    flips: float,
    labels: Sequence[Hashable] | None = None,
    clusters: Sequence[Hashable] | None = None,
    alike: float = 0.0,
) -> Drop:
    """The expected drop of an identical copy before any run: 0, with flips in both directions.

    With the intra-class correlation r of what changes, its variance lies between that of independent docs and that of
    whole clusters: (1 - r) sum of w^2 + r sum over clusters of (sum of w)^2, for docs of weight w and one flip each
    (Kish 1965, Survey Sampling, section 5.4). A doc does what its cluster does with the chance s = sqrt(r), and else
    flips on its own: two kinds of flips, of clusters with the share s of their docs, and of single docs.

    Args:
        docs: Number of docs.
        flips: The share of docs that flip, 0 to 1.
        labels: The subtask of each doc, if the metric is an average over subtasks.
        clusters: The cluster of each doc; None if docs are independent.
        alike: The correlation r of the changes of two docs of a cluster, 0 to 1.

    Raises:
        ValueError: No doc, or not a label or a cluster for each.
    """
    average = average_docs([0.0] * docs, labels, clusters)
    like = Drop(
        0.0, 0.0, 0.0, 0.0, 0.0, average.freedom, average.grain, 0, docs, average.clusters, paired=True
    )  # fmt: skip
    together, doc = math.sqrt(alike), math.fsum(average.weights**2)
    shares = ((together, together * average.grain + (1 - together) * doc), (1 - together, doc))
    kinds = [(share * flips / unit / 2, unit) for share, unit in shares if share]
    return of_kinds(like, [FlipKind(count, count, unit) for count, unit in kinds])


def correlate_changes(changes: Sequence[float], clusters: Sequence[Hashable]) -> float | None:
    """The intra-class correlation of the changes of docs of a cluster, 0 to 1; None where there are too few.

    It is the mean product of two changes in a cluster, as a share of the mean square of a change; for an identical copy
    changes have the mean 0. Over k pairs of independent docs its standard error is about 1 / sqrt(k).

    Args:
        changes: Of each doc, from -1 to 1.
        clusters: The cluster of each doc.
    """
    import numpy as np

    x = np.asarray(changes, dtype=float)
    cluster, _ = number_names(clusters, len(x))
    sizes = np.bincount(cluster)
    pairs = float((sizes * (sizes - 1)).sum()) / 2
    if pairs < _FEWEST_PAIRS or int((x[sizes[cluster] > 1] != 0).sum()) < _FEWEST_CHANGES:
        return None
    sums = np.bincount(cluster, weights=x)
    products = float((sums @ sums) - (x @ x)) / 2
    return min(1.0, max(0.0, products / pairs * len(x) / float(x @ x)))


def narrow_drop(expected: Drop, share: float) -> Drop:
    """Reduce an expected drop to a share of its variance, as by averaging several runs. The number of different docs
    stays; the size of differences shrinks with the root of the variance.
    """
    root = math.sqrt(share)
    return of_kinds(expected, [kind._replace(unit=kind.unit * root) for kind in list_flip_kinds(expected)])


class FlipKind(NamedTuple):
    """How many flips of one size there are each way."""

    lost: float
    won: float
    unit: float


def of_counts(like: Drop, lost: float, won: float, unit: float) -> Drop:
    """Make a drop over the same docs, with so many lost and won flips of this size."""
    return of_kinds(like, [FlipKind(lost, won, unit)])


def of_kinds(like: Drop, kinds: Sequence[FlipKind]) -> Drop:
    """Make a drop over the same docs, with flips of these kinds."""
    # Of smaller flips the changes of clusters are small: see `meta_eval.stats.drop`.
    least = (WHOLE_CHANGE - ROUNDING) * like.grain
    small = [kind for kind in kinds if kind.unit < least]

    def lost(of: Sequence[FlipKind]) -> float:
        return math.fsum(kind.lost * kind.unit for kind in of)

    def won(of: Sequence[FlipKind]) -> float:
        return math.fsum(kind.won * kind.unit for kind in of)

    def variance(of: Sequence[FlipKind]) -> float:
        return math.fsum(kind.unit**2 * (kind.lost + kind.won) for kind in of)

    whole = math.fsum(kind.lost + kind.won for kind in kinds if kind.unit >= least)
    return replace(
        like, lost=lost(kinds), won=won(kinds), variance=variance(kinds), flipped=min(like.clusters, round(whole)),
        small_lost=lost(small), small_won=won(small), small_variance=variance(small),
    )  # fmt: skip


def list_flip_kinds(expected: Drop) -> list[FlipKind]:
    """The kinds of flips in an expected drop: whole changes and small ones, as far as there are any."""
    whole = expected.lost - expected.small_lost, expected.won - expected.small_won
    parts = [
        (*whole, expected.variance - expected.small_variance),
        (expected.small_lost, expected.small_won, expected.small_variance),
    ]
    kinds = [(lost, won, variance / (lost + won)) for lost, won, variance in parts if lost + won > 0 and variance > 0]
    return [FlipKind(lost / unit, won / unit, unit) for lost, won, unit in kinds]


def flip_unit(expected: Drop) -> float:
    """The size of the flips in a drop, whole and small changes together."""
    changed = expected.lost + expected.won
    return expected.variance / changed if changed > 0 and expected.variance > 0 else expected.grain


def chance_within(expected: Drop, margin: float) -> float:
    """The chance that a run with this expected drop is within the margin: its whole interval is below the margin. It is
    exact for Poisson counts of flips: a sum over possible losses and gains.

    Args:
        expected: `expect_copy` of an identical copy; a further loss is added to ``lost``.
        margin: The largest allowed drop, 0 to 1.
    """
    ends, chances = _worse_ends(expected)
    return float(chances[ends < margin].sum())


def margin_within(expected: Drop, chance: float = SURE) -> float:
    """The smallest margin that a run with this expected drop is within, with this chance; at most 1."""
    import numpy as np

    ends, chances = _worse_ends(expected)
    order = np.argsort(ends, kind="stable")
    place = int(np.searchsorted(np.cumsum(chances[order]), chance))
    return float(ends[order[min(place, len(order) - 1)]])


def chance_of_change(docs: int, lost: float, won: float, below: int) -> float:
    """The chance that fewer docs are won than lost, by so many: won - lost < ``below``.

    Exact: of independent docs, the lost ones have a binomial count, and so have the won ones among the others.

    Args:
        docs: Number of docs.
        lost, won: The chance of a doc to be lost, and to be won; together at most 1.
        below: A whole number of docs.
    """
    import numpy as np
    from scipy.stats import binom

    reach = _REACH * math.sqrt(docs * lost * (1 - lost) + 1)
    counts = np.arange(max(0, math.floor(docs * lost - reach)), min(docs, math.ceil(docs * lost + reach)) + 1)
    rest = min(1.0, won / (1 - lost)) if lost < 1 else 0.0
    chances = binom.pmf(counts, docs, lost)
    return float(chances @ binom.cdf(counts + below - 1, docs - counts, rest) / chances.sum())


def worst_end(drop: Drop, flips: float, chance: float, level: float = LEVEL) -> float:
    """The worse end of the interval that few identical copies over the same docs exceed.

    Args:
        drop: Gives docs, weights and clusters.
        flips: The share of docs that flip, 0 to 1.
        chance: The share of identical copies that exceed it by chance.
        level: The level of the interval.

    Returns:
        The end, as a drop from -1 to 1.
    """
    half = max(0.5, flips / drop.grain / 2)
    more = skellam_quantile(1 - chance, half)
    won = max(0.0, half - more / 2)
    return of_counts(drop, won + more, won, drop.grain).interval(level).upper


@lru_cache(maxsize=4096)
def skellam_quantile(chance: float, mean: float) -> int:
    """The smallest difference of two Poisson counts of this mean that a share of differences does not exceed."""
    import numpy as np

    counts, chances = _poisson(mean, _FAR_REACH)
    return int(np.searchsorted(np.cumsum(np.convolve(chances, chances[::-1])), chance)) - len(counts) + 1


def _worse_ends(expected: Drop) -> tuple[Floats, Floats]:
    """The worse end of the interval by losses and gains, and their probabilities."""
    import numpy as np

    if not expected.freedom:
        return np.ones(1), np.ones(1)
    t = t_quantile(LEVEL, expected.freedom)
    kinds = list_flip_kinds(expected)
    is_small = len(kinds) == 1 and expected.small_variance > 0
    lost_count, won_count, unit = kinds[0] if kinds else FlipKind(0.0, 0.0, expected.grain)
    lost, of_lost = _poisson(lost_count)
    won, of_won = _poisson(won_count)
    counts = lost[:, None] + won
    # The size of a flip as `Drop.flip_size` has it, and what no whole change leaves open.
    size = np.maximum(np.where(counts > 0, unit, 0.0), expected.grain / (1 + np.minimum(counts, expected.clusters)))
    size, unseen = (np.full_like(size, unit), t * t * expected.grain) if is_small else (size, 0.0)
    above, below = _above(lost[:, None] * unit / size, t), _below(won * unit / size, t)
    values, reach = (lost[:, None] - won) * unit, size**2 * (above**2 + below**2) + unseen**2
    chances = of_lost[:, None] * of_won
    if len(kinds) > 1:
        # Small flips beside whole ones are many: their sum is about normal, and their reach about the expected.
        small = kinds[1]
        reach = reach + small.unit**2 * (_above(small.lost, t) ** 2 + _below(small.won, t) ** 2)
        deviations = np.array([NormalDist().inv_cdf((step + 0.5) / _NODES) for step in range(_NODES)])
        sums = small.unit * ((small.lost - small.won) + deviations * math.sqrt(small.lost + small.won))
        values, reach, chances = (
            values[..., None] + sums,
            reach[..., None],
            np.repeat(chances[..., None], _NODES, axis=2),
        )
    ends = np.minimum(1.0, values + np.sqrt(reach))
    return ends.ravel(), (chances / chances.sum()).ravel()


def _above(count: Any, t: float) -> Any:
    """How far above a Poisson count the score interval of its mean reaches, as in `meta_eval.stats.drop`."""
    return t * (count + t * t / 4) ** 0.5 + t * t / 2


def _below(count: Any, t: float) -> Any:
    return t * (count + t * t / 4) ** 0.5 - t * t / 2


def _poisson(mean: float, deviations: float = _REACH) -> tuple[Floats, Floats]:
    """The counts within so many standard deviations, and their probabilities."""
    import numpy as np

    reach = deviations * math.sqrt(mean + 1)
    counts = np.arange(max(0, math.floor(mean - reach)), math.ceil(mean + reach + 2), dtype=float)
    if mean <= 0:
        return np.zeros(1), np.ones(1)
    logs = np.cumsum(np.log(mean / np.maximum(counts, 1)))
    weights = np.exp(logs - logs.max())
    return counts, weights / weights.sum()
