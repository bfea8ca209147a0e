"""Computes a mean over tokens with an interval over docs, because the tokens of an answer are not independent.

The mean over all tokens is a ratio of two sums over docs. Its variance is the cluster-robust variance of
`meta_eval.stats.clustered_mean` (CR2 of Bell and McCaffrey 2002, Survey Methodology 28:169, with Satterthwaite's
degrees of freedom), with docs as clusters and a single stratum. It is computed from sums by doc: a doc with n of N
tokens and the sum s adds (s - n m) / N / sqrt(1 - n/N) to the error of the mean m. Docs of a cluster are summed first
and count as a single doc.

`ratio_of_means` divides such means of the same docs by each other, task by task. Its variance is that of the mean of
the residuals (delta method; among others Cochran 1977, Sampling Techniques, section 6.4), so what makes a doc's values
large in both means cancels.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from meta_eval.stats.intervals import Interval, t_quantile

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over tokens."""

    value: float
    """The mean."""

    variance: float
    """Its variance; 0 if all docs are equal, nan for a single doc."""

    freedom: float
    """Degrees of freedom of the variance; 0 for a single doc."""

    docs: int
    """Number of docs with tokens."""

    tokens: int
    """Number of tokens."""

    def interval(self, level: float) -> Interval | None:
        """The two-sided interval by Student's t; None for a single doc."""
        if not self.freedom:
            return None
        reach = t_quantile(level, self.freedom) * math.sqrt(self.variance)
        return Interval(self.value - reach, self.value + reach)

    def positive_interval(self, level: float, unseen: float = 0.0) -> Interval | None:
        """The interval of a mean of nonnegative values, on a log scale.

        It knows the values that were seen only: if all are 0, its upper end is 0.

        Args:
            level: Its level.
            unseen: The least upper end, because of values that may be missing by chance (`bound_unseen`).

        Such values are skewed: a few docs hold most of the sum, and Student's interval would end too low and begin
        below 0. The delta method gives the logarithm the standard error ``sqrt(variance) / value`` (among others Zhou
        and Gao 1997, Statistics in Medicine 16:783).
        """
        if not self.freedom:
            return None
        if self.value <= 0:
            return Interval(0.0, unseen)
        reach = t_quantile(level, self.freedom) * math.sqrt(self.variance) / self.value
        # Beyond this nothing is known but that the mean is above 0.
        factor = math.exp(min(reach, 700.0))
        return Interval(self.value / factor, max(self.value * factor, unseen))

    def p_value(self, at: float = 0.0) -> float:
        """The two-sided p value of a true mean of ``at``, of the same statistic as `interval`."""
        from scipy.special import stdtr

        distance = abs(self.value - at)
        if not self.freedom or distance == 0:
            return 1.0
        return 0.0 if self.variance == 0 else float(2 * stdtr(self.freedom, -distance / math.sqrt(self.variance)))

    def positive_p_value(self, at: float) -> float:
        """The one-sided p value of a true mean of at most ``at``, above 0, on the scale of `positive_interval`."""
        from scipy.special import stdtr

        if not self.freedom or self.value <= 0:
            return 1.0
        if self.variance == 0:
            return 0.0 if self.value > at else 1.0
        return float(stdtr(self.freedom, -math.log(self.value / at) * self.value / math.sqrt(self.variance)))


def bound_unseen(draws: float, alpha: float) -> float:
    """The largest share that a kind may have of which none of so many independent draws is.

    With a larger share, none would be drawn with a probability below alpha. With alpha at 5 % it is about 3 / draws
    (rule of three; Hanley and Lippman-Hand 1983, JAMA 249:1743).
    """
    return -math.expm1(math.log(alpha) / draws) if draws > 0 else 1.0


def count_for_unseen(share: float, alpha: float) -> int:
    """The least number of independent draws with which `bound_unseen` is below a share."""
    return math.floor(math.log(alpha) / math.log1p(-share)) + 1 if share < 1 else 1


def mean_of_tokens(
    sums: npt.NDArray[Any], tokens: npt.NDArray[Any], clusters: Sequence[Hashable] | None = None
) -> Mean:
    """The mean over tokens from each doc's sum and number of tokens; docs without a token count for nothing.

    Args:
        sums: Of each doc.
        tokens: Of each doc.
        clusters: What each shares with others: docs of one cluster count as one doc. None for docs on their own.

    Raises:
        ValueError: There is no token.
    """
    import numpy as np

    if clusters is not None:
        codes_by_cluster: dict[Hashable, int] = {}
        codes = [codes_by_cluster.setdefault(cluster, len(codes_by_cluster)) for cluster in clusters]
        sums, tokens = np.bincount(codes, weights=sums), np.bincount(codes, weights=tokens)
    has_tokens = tokens > 0
    s, n = np.asarray(sums, float)[has_tokens], np.asarray(tokens, float)[has_tokens]
    docs, total = len(n), float(n.sum())
    if not docs:
        raise ValueError("there is no token")
    value = math.fsum(s) / total
    if docs < 2:
        return Mean(value, math.nan, 0.0, docs, int(total))
    share = n / total
    influence = (s - n * value) / total / np.sqrt(1 - share)
    # The variance of the sum of squares, for docs whose tokens move as one: the covariance of the influences is
    # (D - p q') (D - p q')' with D = diag(p), p = share / sqrt(1 - share), q = share.
    p = share / np.sqrt(1 - share)
    pp = float(p @ p)
    qq = float(share @ share)
    # C = D^2 - p(q*p)' - (q*p)p' + qq p p'
    a = p * share
    trace = pp - 2 * float(p @ a) + qq * pp
    d2 = p * p
    squares = (
        float(d2 @ d2)
        - 4 * float((d2 * p) @ a)
        + 2 * qq * float(d2 @ d2)
        + 2 * (pp * float(a @ a) + float(p @ a) ** 2)
        - 4 * qq * pp * float(p @ a)
        + (qq * pp) ** 2
    )
    freedom = max(1.0, trace * trace / squares) if squares > 0 else 1.0
    return Mean(value, float(influence @ influence), freedom, docs, int(total))


def ratio_of_means(
    values: npt.NDArray[Any],
    reference: npt.NDArray[Any],
    weights: npt.NDArray[Any],
    strata: Sequence[Hashable],
    clusters: Sequence[Hashable] | None = None,
    floor: float = 0.0,
) -> Mean:
    """The weighted mean over strata of the ratio of two means.

    A stratum with large values in both counts no more than others: only its weight does.

    Args:
        values: Of each doc, at least 0.
        reference: Of each doc, at least 0; its mean in a stratum is the stratum's divisor.
        weights: Of each doc, above 0.
        strata: Of each doc.
        clusters: As in `mean_of_tokens`.
        floor: The smallest divisor; a reference of 0 needs one.

    Returns:
        The ratio, with the variance and the degrees of freedom for `Mean.positive_interval`; ``tokens`` is the sum of
        the weights.

    Raises:
        ValueError: There is no doc, or a divisor of 0.
    """
    from dataclasses import replace

    import numpy as np

    total = float(weights.sum())
    ratio, residuals = 0.0, np.zeros(len(values))
    codes: dict[Hashable, int] = {}
    code = np.array([codes.setdefault(stratum, len(codes)) for stratum in strata])
    for stratum in codes.values():
        rows = code == stratum
        w, x, y = weights[rows], values[rows], reference[rows]
        divisor = float(w @ y) / float(w.sum())
        is_floor = divisor <= floor
        if max(divisor, floor) <= 0:
            raise ValueError("the reference is 0, and there is no floor")
        part = float(w @ x) / float(w.sum()) / max(divisor, floor)
        ratio += part * float(w.sum()) / total
        centre = part * max(divisor, floor) if is_floor else part * y
        residuals[rows] = w * (x - centre) / max(divisor, floor)
    return replace(mean_of_tokens(residuals, weights, clusters), value=ratio)
