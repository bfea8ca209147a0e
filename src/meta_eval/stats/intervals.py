"""Shared statistics: intervals, quantiles, and the correction for multiple tests."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

# From so many degrees of freedom on, four terms of a series give Student's quantiles.
_FREEDOM_OF_SERIES = 150


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, ends included."""

    lower: float
    upper: float

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def scale(self, factor: float, shift: float = 0.0) -> Interval:
        """Multiply every point by ``factor`` and add ``shift``; a negative factor swaps the ends."""
        ends = sorted((self.lower * factor + shift, self.upper * factor + shift))
        return Interval(ends[0], ends[1])


def correct_by_holm(p_values: Sequence[float]) -> list[float]:
    """The p values of several tests, corrected so that any false alarm among them has the level (Holm 1979)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, p_values[index] * (len(p_values) - rank)))
        corrected[index] = largest
    return corrected


def normal_quantile(level: float) -> float:
    """The half-width of an interval of this level, in standard errors (normal distribution)."""
    return NormalDist().inv_cdf((1 + level) / 2)


def t_quantile(level: float, freedom: float) -> float:
    """The half-width of an interval of this level, in standard errors (Student's t).

    With many degrees of freedom by the series of Abramowitz and Stegun 1964, 26.7.5, to eleven digits at 95 %. That
    spares the import of scipy, which takes 0.15 s.
    """
    if freedom < _FREEDOM_OF_SERIES:
        from scipy.special import stdtrit

        return float(stdtrit(freedom, (1 + level) / 2))
    x = normal_quantile(level)
    s = x * x
    terms = (
        (s + 1) / 4,
        ((5 * s + 16) * s + 3) / 96,
        (((3 * s + 19) * s + 17) * s - 15) / 384,
        ((((79 * s + 776) * s + 1482) * s - 1920) * s - 945) / 92160,
    )
    return x * (1 + sum(term / freedom**power for power, term in enumerate(terms, 1)))


def tail_p_value(count: int, of: int, share: float) -> float:
    """The probability of so many or more of ``of`` independent events, each of probability ``share`` (binomial).

    As an incomplete beta function: Abramowitz and Stegun 1964, 26.5.24.
    """
    from scipy.special import betainc

    return float(betainc(count, of - count + 1, share)) if count > 0 else 1.0


def group_values(values: Sequence[float], labels: Sequence[Hashable] | None) -> dict[Hashable, list[float]]:
    """Group values by subtask; a single group without labels.

    Raises:
        ValueError: There is no value, or not a label for each.
    """
    if not len(values):
        raise ValueError("there is no doc")
    groups: dict[Hashable, list[float]] = {}
    for label, value in zip([None] * len(values) if labels is None else labels, values, strict=True):
        groups.setdefault(label, []).append(value)
    return groups
