"""Are the recorded answers likelier with another number of BOS? The rule of run's canary, and of fidelity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Docs that are asked, by how many nats a token they must be likelier, and how seldom coins would fall on one side so
# often: 15 of 16 do in 3 of 10,000.
DOCS, NATS = 16, 0.05
_CHANCE = 0.001

# From which share of likeliest tokens on most of a copy works. Reasoned: any language model that reads what precedes
# finds half of the tokens of plain text, and a copy of the one that wrote it nine in ten; docs/running.md has what the
# faults of a tiny Llama come to.
SOUND = 0.6


@dataclass(frozen=True, slots=True)
class Gain:
    """What another number of BOS brings: on how many of so many docs answers are likelier, and by how much a token."""

    better: int
    of: int
    nats: float

    def __str__(self) -> str:
        return f"on {self.better} of {self.of} docs and by {self.nats:.2f} nats a token"


def gain(before: Mapping[Any, float], after: Mapping[Any, float], top: float) -> Gain | None:
    """What is gained, if it is certain.

    Only by a copy that then finds most tokens: one that never does is in doubt everywhere, and what a BOS more does to
    it is the same on every doc, whatever is right.

    Args:
        before: By doc the mean log-probability of a token, nats.
        after: Likewise with the other number, of some of these docs.
        top: The share of likeliest tokens with the other number, 0 to 1.
    """
    gains = [value - before[doc] for doc, value in after.items() if doc in before]
    better, mean = sum(one > 0 for one in gains), sum(gains) / max(len(gains), 1)
    if top < SOUND or mean <= NATS or _chance(better, len(gains)) >= _CHANCE:
        return None
    return Gain(better, len(gains), mean)


def _chance(hits: int, of: int) -> float:
    """The probability of so many heads or more: the sign test."""
    return float(sum(math.comb(of, k) for k in range(hits, of + 1)) / 2**of)
