"""Computes an average over docs and its variance, where docs may form clusters that share a question or a passage.

The average is over docs, or over subtasks of the average within each. Both are linear combinations of the means of a
regression on subtasks. So the cluster-robust variance of regressions applies, in its bias-reduced form: CR2 of Bell and
McCaffrey 2002, Survey Methodology 28:169. It needs no matrix here. Within a cluster, the docs of a subtask are an
eigenvector of the hat matrix, with their share m/n of the subtask as eigenvalue. So the adjustment multiplies their
residuals by (1 - m/n)^(-1/2). Without clusters this is the textbook variance: s^2 / n, and over subtasks the sum of
these divided by the squared number of subtasks (Cochran 1977, Sampling Techniques, section 5.4).

The degrees of freedom are Satterthwaite's for that variance (Bell and McCaffrey 2002, section 4; Imbens and Kolesar
2016, Review of Economics and Statistics 98:701). They are computed for the worst case, in which all docs of a cluster
move together: the number of clusters minus 1 for equal clusters, fewer for unequal clusters.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Average:
    """An average over docs."""

    value: float
    """The average."""

    variance: float
    """Its variance; nan with fewer than two clusters."""

    freedom: float
    """Its degrees of freedom; 0 without variance."""

    grain: float
    """The sum of the squared cluster weights; 1 divided by the number of clusters if weights are equal."""

    clusters: int
    """Number of clusters, or of docs if docs are not clustered."""

    influence: Floats
    """The contribution of each cluster to the average's error, in the order of ``keys``; the variance is the sum of
    their squares."""

    keys: tuple[Hashable, ...] | None
    """The cluster of each influence; None if docs are not clustered."""

    weights: Floats
    """The weight of each doc in the average; they add up to 1."""


def average_docs(
    values: Sequence[float] | Floats,
    labels: Sequence[Hashable] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> Average:
    """The mean over docs, or with ``labels`` over subtasks of the mean within each.

    Args:
        values: The value of each doc.
        labels: The subtask of each doc, if the average is over subtasks.
        clusters: The cluster of each doc (its question or passage); None if docs are independent. A cluster may span
            subtasks.

    Raises:
        ValueError: No doc, or not a label or a cluster for each.
    """
    import numpy as np

    x = np.asarray(values, dtype=float)
    if not (n := len(x)):
        raise ValueError("there is no doc")
    subtask, subtasks = number_names(labels, n) if labels is not None else (np.zeros(n, dtype=np.intp), [None])
    cluster, keys = number_names(clusters, n) if clusters is not None else (np.arange(n), None)
    count = len(keys) if keys is not None else n
    weights = (1 / (len(subtasks) * np.bincount(subtask)))[subtask]
    value = add_up(weights * x)
    grain = float(np.sum(np.bincount(cluster, weights=weights) ** 2))
    names = None if keys is None else tuple(keys)
    stratum = _with_two_clusters(subtask, cluster, count)
    if stratum is None:
        return Average(value, math.nan, 0.0, grain, count, np.zeros(count), names, weights)
    spread = _simple if keys is None else _cr2
    influence, freedom = spread(x, weights, stratum, cluster, count)
    return Average(value, float(influence @ influence), freedom, grain, count, influence, names, weights)


def add_up(values: Floats) -> float:
    """Their exact sum. Python's own numbers are added up twice as fast as numpy's."""
    return math.fsum(values.tolist())


def number_names(names: Iterable[Hashable], n: int) -> tuple[Ints, list[Any]]:
    """The number of each of n names, and the names in the order of their numbers.

    Raises:
        ValueError: There are not n.
    """
    import numpy as np

    codes_by_name: dict[Hashable, int] = {}
    codes = np.array([codes_by_name.setdefault(name, len(codes_by_name)) for name in names], dtype=np.intp)
    if len(codes) != n:
        raise ValueError(f"{len(codes)} names for {n} docs")
    return codes, list(codes_by_name)


def _with_two_clusters(subtask: Ints, cluster: Ints, count: int) -> Ints | None:
    """The strata for residuals: subtasks, with those of a single cluster merged.

    A subtask of a single cluster has no variance. Collapsed strata (Cochran 1977, section 5A.12) compare it with others
    like it, or else with all, which gives too wide intervals. None with only one cluster in all.
    """
    import numpy as np

    if count < 2:
        return None
    pairs = subtask * count + cluster
    is_single = np.bincount((pairs if count == len(pairs) else np.unique(pairs)) // count) == 1
    if not is_single.any():
        return subtask
    joined = np.where(is_single, 0, 1 + np.cumsum(~is_single))[subtask]
    if len(np.unique(cluster[joined == 0])) < 2:
        return np.zeros_like(subtask)
    return np.unique(joined, return_inverse=True)[1].reshape(-1)


def _simple(x: Floats, weights: Floats, stratum: Ints, cluster: Ints, count: int) -> tuple[Floats, float]:  # noqa: ARG001
    """`_cr2` for independent docs, where both are sums over subtasks."""
    import numpy as np

    sizes = np.bincount(stratum)
    scale = weights * np.sqrt(sizes / (sizes - 1))[stratum]
    free = ((sizes - 1) / sizes)[stratum]
    first, second = float(np.sum(scale**2 * free)), float(np.sum(scale**4 * free))
    return scale * (x - (np.bincount(stratum, weights=x) / sizes)[stratum]), max(1.0, first * first / second)


def _cr2(x: Floats, weights: Floats, stratum: Ints, cluster: Ints, count: int) -> tuple[Floats, float]:
    """Each cluster's contribution to the error, and Satterthwaite's degrees of freedom of the sum of their squares."""
    import numpy as np

    strata = int(stratum.max()) + 1
    sizes = np.bincount(stratum)
    residuals = weights * (x - (np.bincount(stratum, weights=x) / sizes)[stratum])
    pairs, inverse = np.unique(cluster * strata + stratum, return_inverse=True)
    inverse = inverse.reshape(-1)
    of_cluster, of_stratum = pairs // strata, pairs % strata
    share = np.bincount(inverse) / sizes[of_stratum]
    adjusted = 1 / np.sqrt(1 - share)
    errors = adjusted * np.bincount(inverse, weights=residuals)
    influence = np.bincount(of_cluster, weights=errors, minlength=count).astype(np.float64)
    # With docs of one cluster moving as one, influence = (D - P Q') e for independent e: D diagonal, P and Q clusters
    # by strata. Its covariance is D^2 + U S U' with U = [D Q, P] and S = [[0, -1], [-1, Q'Q]].
    weighed = adjusted * np.bincount(inverse, weights=weights)
    diagonal = np.bincount(of_cluster, weights=weighed, minlength=count)
    p, q = np.zeros((count, strata)), np.zeros((count, strata))
    p[of_cluster, of_stratum], q[of_cluster, of_stratum] = weighed, share
    u = np.hstack((diagonal[:, None] * q, p))
    s = np.block([[np.zeros((strata, strata)), -np.eye(strata)], [-np.eye(strata), q.T @ q]])
    product = s @ (u.T @ u)
    first = float(np.sum(diagonal**2) + np.trace(product))
    second = float(
        np.sum(diagonal**4) + 2 * np.trace(s @ (u.T @ (diagonal[:, None] ** 2 * u))) + np.trace(product @ product)
    )
    return influence, max(1.0, first * first / second) if second > 0 else 1.0
