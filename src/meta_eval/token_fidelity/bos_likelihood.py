"""Are the recorded answers likelier with another number of BOS? The rule of run's canary, and of fidelity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from meta_eval.thresholds import BOS_CHANCE, BOS_NATS, SOUND


@dataclass(frozen=True, slots=True)
class Gain:
    """What another number of BOS brings: on how many of so many docs answers are likelier, and by how much a token."""

    better: int
    of: int
    nats: float

    def __str__(self) -> str:
        return f"on {self.better} of {self.of} docs and by {self.nats:.2f} nats a token"


def measure_gain(before: Mapping[Any, float], after: Mapping[Any, float], top: float) -> Gain | None:
    """What is gained, if it is certain.

    Only by a copy that then finds most tokens: one that never does is in doubt everywhere, and what a BOS more does to
    it is the same on every doc, whatever is right.

    Args:
        before: By doc the mean log-probability of a token, nats.
        after: Likewise with the other number, of some of these docs.
        top: The share of likeliest tokens with the other number, 0 to 1.
    """
    gains = [value - before[doc] for doc, value in after.items() if doc in before]
    better, mean = sum(value > 0 for value in gains), sum(gains) / max(len(gains), 1)
    if top < SOUND or mean <= BOS_NATS or _sign_test(better, len(gains)) >= BOS_CHANCE:
        return None
    return Gain(better, len(gains), mean)


def _sign_test(hits: int, of: int) -> float:
    """The probability of so many heads or more."""
    return float(sum(math.comb(of, k) for k in range(hits, of + 1)) / 2**of)
