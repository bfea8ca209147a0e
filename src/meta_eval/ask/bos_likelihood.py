"""Tests whether recorded answers are likelier with another number of BOS."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meta_eval.base.thresholds import BOS_CHANCE, BOS_NATS, SOUND


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of another number of BOS: on how many docs answers are likelier, and by how much per token."""

    better: int
    of: int
    nats: float

    def __str__(self) -> str:
        return f"on {self.better} of {self.of} docs and by {self.nats:.2f} nats a token"


def measure_gain(plain: Mapping[Any, float], changed: Mapping[Any, float], top: float) -> Gain | None:
    """Measure the gain; None if it is not certain.

    It counts only if the copy then predicts most tokens. A broken copy predicts few, and another BOS changes all its
    docs alike, right or wrong.

    Args:
        plain: The mean log-probability of a token by doc, nats.
        changed: The same with the other number of BOS, for some of these docs.
        top: The share of tokens that are the likeliest with the other number, 0 to 1.
    """
    gains = [value - plain[doc] for doc, value in changed.items() if doc in plain]
    better, mean = sum(value > 0 for value in gains), sum(gains) / max(len(gains), 1)
    if top < SOUND or mean <= BOS_NATS or _sign_test(better, len(gains)) >= BOS_CHANCE:
        return None
    return Gain(better, len(gains), mean)


def _sign_test(hits: int, of: int) -> float:
    """The probability of at least so many heads in fair coin tosses."""
    return float(sum(math.comb(of, k) for k in range(hits, of + 1)) / 2**of)


def change_bos(ids: Sequence[int], bos: int, *, fewer: bool) -> list[int]:
    """Remove a BOS, or add another."""
    return list(ids[1:]) if fewer else [bos, *ids]
