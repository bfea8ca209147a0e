"""The first place at which an answer diverges, of which some never do: survival, and the interval of its median."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meta_eval.base.thresholds import LEVEL
from meta_eval.stats.intervals import normal_quantile

# Numbers of tokens after which survival is given.
STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True)
class FirstDivergence:
    """The first token of each answer that is not the likeliest token."""

    answers: int
    """Answers with such a token."""

    of: int
    """All answers."""

    median: int | None
    """The place, from 1, by which half of all answers have diverged; None if fewer ever do. Answers that end earlier
    are censored (Kaplan and Meier 1958, JASA 53:457)."""

    survival: dict[int, float]
    """The estimated share of answers without divergence after so many tokens."""


def measure_divergence(places: NDArray[np.int64], diverged: NDArray[np.bool_]) -> FirstDivergence:
    """Estimate the survival of answers from the place where each diverged or ended.

    Args:
        places: n: the place of the first divergence, from 1, or the length of an answer without one.
        diverged: n: whether the answer diverged.
    """
    last = int(places.max(initial=0))
    events = np.bincount(places[diverged], minlength=last + 1)
    ended = np.bincount(places, minlength=last + 1)
    at_risk = len(places) - np.concatenate(([0], np.cumsum(ended)[:-1]))
    alive = np.cumprod(1 - events / np.maximum(at_risk, 1))
    below = np.flatnonzero(alive <= 0.5 + 1e-12)
    # If all have diverged, survival stays 0 at later places; the curve ends at 0.
    beyond = next((step for step in STEPS if step > last), last) if alive[last] <= 0 else last
    survival = {step: float(alive[min(step, last)]) for step in STEPS if step <= beyond}
    return FirstDivergence(int(diverged.sum()), len(places), int(below[0]) if len(below) else None, survival)


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
