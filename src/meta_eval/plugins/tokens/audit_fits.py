"""How well causes fit an endpoint's answers: the log-likelihood of a token of the answers under each, nats.

Each cause says with which probability the trusted copy's distribution gives a token:

- *sampling*, *temperature*: p at a temperature T. It is the largest logit after Gumbel noise of the scale T.
- *top_k*, *top_p*, *min_p*: p at the stated temperature, where only the k likeliest tokens, the likeliest ones with
  this probability, or those with at least this part of the largest probability are left.
- *weights*: the largest logit after Gaussian noise of the scale s, independent for each logit.
- *mixture*: some answers are the trusted copy's own, and the others are sampled at T.

A token is such a one with a probability of 1 - `AUDIT_STRAY`, else one of the trusted copy at temperature 1: a text may
be tokenised otherwise than it was generated, and a single token must not decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meta_eval.plugins.tokens.thresholds import AUDIT_FIT, AUDIT_STRAY, FIDELITY_LEVEL
from meta_eval.stats.ratio import mean_of_tokens

_Numbers = NDArray[np.float64]

_TEMPERATURES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0)
_NOISES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.1, 1.5, 2.0)
GREEDY = (*(("sampling", t) for t in _TEMPERATURES), *(("weights", s) for s in _NOISES))
_SAMPLED = (
    *(("temperature", t) for t in _TEMPERATURES),
    *(("top_k", float(k)) for k in (1, 2, 3, 5, 8, 10, 15, 20, 30, 40, 50)),
    *(("top_p", p) for p in (0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)),
    *(("min_p", p) for p in (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)),
)

# Nodes of the integral over Gaussian noise (Gauss and Hermite).
_NODES = 24


@dataclass(frozen=True, slots=True)
class Fit:
    """The best value of a cause."""

    cause: str
    """``sampling``, ``temperature``, ``top_k``, ``top_p``, ``min_p``, ``weights`` or ``mixture``."""

    value: float
    """A temperature, a setting or a scale of noise; of a mixture the share of the others."""

    likelihoods: _Numbers
    """Per doc: the mean log-likelihood of a token, nats."""


def measure_fits(
    scale: Callable[[float], _Numbers], own: NDArray[np.int64], logprobs: _Numbers, temperature: float
) -> _Numbers:
    """The mean log-likelihood of an answer's tokens under each of `GREEDY`, or of `_SAMPLED`, nats; NaN if unknown.

    Args:
        scale: Gives for a temperature the n x (k + 1) log-probabilities of the k likeliest tokens and of all others.
        own: n: the column of each token.
        logprobs: n: the log-probability of each token at temperature 1.
        temperature: At which they were to be sampled; 0 for greedy answers.
    """
    rows = np.arange(len(own))
    stray = AUDIT_STRAY * np.exp(logprobs)
    means = []
    for cause, value in _SAMPLED if temperature else GREEDY:
        if cause == "weights":
            chance = _perturb(scale(1.0), own, value)
        elif cause in ("sampling", "temperature"):
            chance = np.exp(scale(value)[rows, own])
        else:
            chance = _truncate(np.exp(scale(temperature)), cause, value)[rows, own]
        means.append(float(np.log((1 - AUDIT_STRAY) * chance + stray).mean()))
    return np.array(means)


def _truncate(chances: _Numbers, setting: str, value: float) -> _Numbers:
    """What a setting leaves of each place, with the sum 1. Of the others a part may be left."""
    left = chances.copy()
    if setting == "top_k":
        if value > chances.shape[1] - 1:
            return np.full_like(chances, np.nan)
        left[:, int(value) :] = 0.0
    elif setting == "top_p":
        before = np.cumsum(chances, axis=1) - chances
        left[before >= value] = 0.0
        left[:, -1] = np.minimum(left[:, -1], np.maximum(value - before[:, -1], 0.0))
    else:
        least = value * chances[:, 0]
        left[chances < least[:, None]] = 0.0
        left[:, -1] = np.where(chances[:, -2] < least, 0.0, chances[:, -1])
    done: _Numbers = left / left.sum(axis=1, keepdims=True)
    return done


def _perturb(logs: _Numbers, own: NDArray[np.int64], noise: float) -> _Numbers:
    """The probability that each token's logit is the largest after Gaussian noise. All others count as one logit, at
    most that of the k-th."""
    from scipy.special import log_ndtr

    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    rows = np.arange(len(own))
    logs = np.column_stack([logs[:, :-1], logs[:, -2:].min(axis=1)])
    below = log_ndtr((logs[rows, own][:, None] - logs)[:, :, None] / noise + nodes)
    below[rows, own] = 0.0
    chance: _Numbers = np.exp(below.sum(axis=1)) @ weights / weights.sum()
    return chance


def rank_fits(fits: Sequence[_Numbers], tokens: _Numbers, *, is_greedy: bool) -> list[Fit]:
    """The best value of each cause, the likeliest cause first.

    Args:
        fits: Per doc what `measure_fits` gives.
        tokens: Per doc the number of its tokens.
        is_greedy: Whether they were to be greedy.
    """
    table = np.array(fits)
    totals = tokens @ table
    best: dict[str, tuple[float, float, _Numbers]] = {}
    for at, (cause, value) in enumerate(GREEDY if is_greedy else _SAMPLED):
        if np.isfinite(totals[at]) and (cause not in best or totals[at] > best[cause][0]):
            best[cause] = (float(totals[at]), value, table[:, at])
    if is_greedy:
        best["mixture"] = max(_mix(table, tokens), key=lambda mixed: mixed[0])
    ranked = sorted(best.items(), key=lambda item: -item[1][0])
    return [Fit(cause, value, likelihoods) for cause, (_, value, likelihoods) in ranked]


def _mix(table: _Numbers, tokens: _Numbers) -> Iterator[tuple[float, float, _Numbers]]:
    """Mixtures of answers at the lowest temperature and at each other one: total, share and likelihoods."""
    own = table[:, 0] * tokens
    for at, (cause, _) in enumerate(GREEDY):
        if cause == "sampling" and at:
            other = table[:, at] * tokens
            for share in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5):
                mixed = np.logaddexp(np.log1p(-share) + own, np.log(share) + other)
                yield float(mixed.sum()), share, mixed / tokens


def is_better(a: Fit, b: Fit, tokens: _Numbers) -> bool:
    """Whether a fits better than b: the interval of their difference over docs, at `FIDELITY_LEVEL`, is above 0, and
    sampling fits by at least `AUDIT_FIT` better than other weights."""
    better = mean_of_tokens((a.likelihoods - b.likelihoods) * tokens, tokens, None)
    interval, least = (
        better.interval(FIDELITY_LEVEL),
        AUDIT_FIT if (a.cause, b.cause) == ("sampling", "weights") else 0.0,
    )
    return interval is not None and interval.lower > 0 and better.value >= least
