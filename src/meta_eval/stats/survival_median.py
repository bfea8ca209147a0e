"""The interval of a median of survival times, of which some are censored."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from meta_eval.base.thresholds import LEVEL
from meta_eval.stats.intervals import normal_quantile


def median_interval(
    times: Sequence[int], events: Sequence[bool], level: float = LEVEL
) -> tuple[int | None, int | None]:
    """Brookmeyer and Crowley's interval of the median (1982, Biometrics 38:29): the times at which the interval of the
    survival contains a half. The survival is Kaplan and Meier's, with Greenwood's variance on the log-log scale.

    Args:
        times: Time of the event, or of censoring.
        events: Whether it is an event.
        level: The confidence level.

    Returns:
        The lower and the upper end; None for an end that lies beyond the last event.
    """
    z, survival, greenwood = normal_quantile(level), 1.0, 0.0
    lower = upper = None
    ordered = sorted(times)
    deaths = Counter(time for time, event in zip(times, events, strict=True) if event)
    for time, died in sorted(deaths.items()):
        at_risk = len(ordered) - bisect_left(ordered, time)
        survival *= 1 - died / at_risk
        if survival <= 0:
            return (time if lower is None else lower), (time if upper is None else upper)
        greenwood += died / (at_risk * (at_risk - died))
        reach = z * math.sqrt(greenwood) / -math.log(survival)
        if lower is None and survival ** math.exp(reach) <= 0.5:
            lower = time
        if upper is None and survival ** math.exp(-reach) < 0.5:
            upper = time
    return lower, upper
