"""The first place at which an answer diverges, of which some never do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Numbers of tokens after which survival is given.
STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True)
class FirstDivergence:
    """The first token of each answer that is not the likeliest token.

    Attributes:
        answers: Answers with such a token.
        of: All answers.
        median: The place, from 1, by which half of all answers have diverged; None if fewer ever do. Answers that end
            earlier are censored (Kaplan and Meier 1958, JASA 53:457).
        survival: The estimated share of answers without divergence after so many tokens.
    """

    answers: int
    of: int
    median: int | None
    survival: dict[int, float]


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
