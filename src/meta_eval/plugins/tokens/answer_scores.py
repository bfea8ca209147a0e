"""How an endpoint's answers fit a trusted copy: a score for each token, and its mean by doc.

A greedy answer of the same model has the trusted copy's likeliest token everywhere, except in near ties. The score of a
token is its *regret*: the log-probability of the likeliest token less that of the token, at most `AUDIT_MOST_REGRET`.

For a token sampled at temperature T from the smallest set with the probability ``top_p``, the score is its *depth*: the
probability of all likelier tokens and half its own, less one half, under the trusted copy with these settings. Its mean
is 0 for the same model, whatever the text (the mid-distribution transform, Parzen 2004, Statistical Science 19:652). It
is positive for tokens that are too unlikely, and negative for those that are too likely. It is bounded, so no token has
a large part of the mean. Its *surprise*, minus the log-probability less the entropy, is kept beside it: that mean is 0
too, but one token can have a large part of it. Tokens beyond the k that the table keeps count as a single token. At
T = 1 the mean is still exactly 0; at another T the probability of that token is bounded, by that of the k-th.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meta_eval.judge.token_table import Forced
from meta_eval.plugins.tokens.audit_fits import measure_fits
from meta_eval.plugins.tokens.thresholds import (
    AUDIT_FOREIGN_NATS,
    AUDIT_MOST_REGRET,
    FIDELITY_LONGEST,
    OPENING_TOKENS,
    TIED_NATS,
)

Numbers = NDArray[np.float64]

# Temperatures that are tried for the one that fits.
TEMPERATURES = np.round(np.arange(0.05, 2.01, 0.05), 2)

# Probability that a token outside of the set may have by rounding.
_LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class Decoding:
    """How answers were to be generated: ``temperature`` (0 for greedy) and ``top_p``."""

    temperature: float = 0.0
    top_p: float = 1.0

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0


@dataclass(frozen=True, slots=True, eq=False)
class ScoredDoc:
    """The answer to a doc."""

    task: str
    """The task."""

    doc: int
    """lm-eval's number of the doc."""

    request_sha256: str
    """The hash of its request; the same for copies of a doc."""

    decoding: Decoding
    """How it was to be generated."""

    scores: Numbers
    """n: the score of each token, nats or a share of probability. Left out are the last token, as a stop text or a
    limit may cut it, and tokens of greedy answers that were generated as others."""

    openings: NDArray[np.bool_]
    """n: whether a token is among the first `OPENING_TOKENS`."""

    unlikely: NDArray[np.bool_]
    """n: whether a greedy token is not the likeliest, or a sampled one is outside of the set."""

    foreign: NDArray[np.bool_]
    """n: whether a greedy token is more than `AUDIT_FOREIGN_NATS` below the likeliest."""

    surprises: Numbers | None
    """n, nats: minus the log-probability of a sampled token, less the entropy; None for greedy answers."""

    likelihoods: Numbers | None
    """The mean log-probability at each of `TEMPERATURES`, nats; None without the k likeliest tokens."""

    avoided: int = 0
    """The number of unlikely greedy tokens that do not occur in the answer before, where the likeliest does."""

    repeated: int = 0
    """The number of those that occur in it."""

    fits: Numbers | None = None
    """What `meta_eval.plugins.tokens.audit_fits` says of it; None without the k likeliest tokens."""

    cluster: str | None = None
    """What it shares with docs that are not independent of it; None without such docs."""

    @property
    def mean(self) -> float:
        """The mean score of a token."""
        return float(self.scores.mean())


def score_docs(
    table: Iterable[Forced],
    decodings: Mapping[tuple[str, int], Decoding],
    decode: Callable[[Sequence[int]], str] | None = None,
    clusters: Mapping[tuple[str, int], str] | None = None,
) -> list[ScoredDoc]:
    """Score every answer of a table, in its order.

    Args:
        table: The trusted copy's log-probabilities.
        decodings: How the answer to each task and doc was to be generated; greedily if it is not there.
        decode: Makes a text of tokens, to find tokens that the endpoint may have generated as another token. None
            without the tokenizer.
        clusters: By task and doc, the name of its cluster; docs without others are not there.

    Returns:
        The docs. Those are left out that have no token to score, or were sampled and have no k likeliest tokens.
    """
    docs = []
    for answer in table:
        decoding = decodings.get((answer.task, answer.doc), Decoding())
        if answer.top_k_logprobs is None and not decoding.is_greedy:
            continue
        # Of sampled answers none is left out: to leave out unlikely tokens alone would make the others look too likely.
        counts = np.ones(len(answer.token_ids), bool)
        if decode is not None and decoding.is_greedy:
            counts = ~find_split_tokens(answer, decode)
        counts[-1] = False
        if not counts.any():
            continue
        if decoding.is_greedy:
            scores, surprises = np.minimum(answer.margins.astype(float), AUDIT_MOST_REGRET), None
            unlikely, foreign = answer.margins > TIED_NATS, answer.margins > AUDIT_FOREIGN_NATS
        else:
            scores, surprises, unlikely = measure_sampled(answer, decoding)
            foreign = np.zeros(len(counts), bool)
        openings = np.arange(len(counts)) < OPENING_TOKENS
        kept = None if answer.top_k_logprobs is None else _Kept.of(answer, counts)
        docs.append(
            ScoredDoc(
                answer.task, answer.doc, answer.request_sha256, decoding, scores[counts], openings[counts],
                unlikely[counts], foreign[counts], None if surprises is None else surprises[counts],
                None if kept is None else kept.measure_likelihoods(),
                *(count_repeats(answer, counts & unlikely) if decoding.is_greedy else (0, 0)),
                None if kept is None else measure_fits(
                    kept.scale, kept.own, answer.logprobs[counts].astype(float), decoding.temperature
                ),
                (clusters or {}).get((answer.task, answer.doc)),
            )
        )  # fmt: skip
    return docs


def count_repeats(answer: Forced, where: NDArray[np.bool_]) -> tuple[int, int]:
    """The places where only the likeliest token occurs in the answer before; and those where the token does."""
    avoided = repeated = 0
    before: set[int] = set()
    for token, top, counts in zip(answer.token_ids.tolist(), answer.top_ids.tolist(), where.tolist(), strict=True):
        if counts:
            avoided += top in before and token not in before
            repeated += token in before
        before.add(token)
    return avoided, repeated


def measure_sampled(answer: Forced, decoding: Decoding) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    """The depth of each token, from -0.5 to 0.5; its surprise, nats; and whether it is outside of the set that was
    sampled from."""
    kept = _Kept.of(answer)
    probabilities = np.exp(kept.scale(decoding.temperature))
    if decoding.top_p < 1:
        before = np.cumsum(probabilities, axis=1) - probabilities
        probabilities = np.where(before < decoding.top_p, probabilities, 0.0)
        # The tokens beyond the k likeliest are in the set until it is full.
        probabilities[:, -1] = np.minimum(probabilities[:, -1], np.maximum(decoding.top_p - before[:, -1], 0.0))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
    chosen, above = (
        np.take_along_axis(table, kept.own[:, None], axis=1)[:, 0]
        for table in (probabilities, np.cumsum(probabilities, axis=1) - probabilities)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(probabilities > 0, probabilities * np.log(probabilities), 0.0).sum(axis=1)
        surprise = -np.log(chosen) - entropy
    outside = chosen <= _LEAST
    return above + chosen / 2 - 0.5, np.where(outside, 0.0, surprise), outside


def find_split_tokens(answer: Forced, decode: Callable[[Sequence[int]], str]) -> NDArray[np.bool_]:
    """n: whether a token belongs to a place where the text also fits the likeliest token.

    A text can be tokenised otherwise than it was generated: a model writes a double line break as one token, and its
    tokenizer makes two of it before a digit; or it writes a quotation mark and dashes as two tokens, and its tokenizer
    makes one of them. Such tokens are unlikely, and so are the next two behind them.
    """
    ids, top = answer.token_ids.tolist(), answer.top_ids.tolist()
    split = np.zeros(len(ids), bool)
    for at in np.flatnonzero(answer.top_ids != answer.token_ids).tolist():
        likeliest = decode([top[at]]) if top[at] >= 0 else ""
        end = at + 1
        while end < len(ids) and end - at < len(likeliest) and len(decode(ids[at:end])) < len(likeliest):
            end += 1
        if likeliest and decode(ids[at:end]).startswith(likeliest):
            split[at : end + 2] = True
    return split


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """What the table keeps of each token's place, at temperature 1."""

    top: Numbers
    """n x k: the log-probabilities of the k likeliest tokens."""

    others: Numbers
    """n: that of all other tokens."""

    own: NDArray[np.int64]
    """n: the column of the token; k for one of the others."""

    @classmethod
    def of(cls, answer: Forced, counts: NDArray[np.bool_] | slice = slice(None)) -> _Kept:
        """The places that count."""
        assert answer.top_k_ids is not None  # noqa: S101 (callers make sure)
        assert answer.top_k_logprobs is not None  # noqa: S101
        top = answer.top_k_logprobs[counts].astype(float)
        is_own = answer.top_k_ids[counts] == answer.token_ids[counts][:, None]
        own = np.where(is_own.any(axis=1), is_own.argmax(axis=1), top.shape[1])
        return cls(top, np.log(np.maximum(1 - np.exp(top).sum(axis=1), 1e-12)), own)

    def scale(self, temperature: float) -> Numbers:
        """n x (k + 1): the log-probabilities of the k likeliest tokens and of all others at a temperature."""
        # Each of the others has at most the probability of the k-th, so at most this sum for T below 1.
        rest = self.others + self.top[:, -1] * (1 / temperature - 1)
        logs: Numbers = np.column_stack([self.top / temperature, rest])
        logs -= logs.max(axis=1, keepdims=True)
        logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
        return logs

    def measure_likelihoods(self) -> Numbers:
        """The mean log-probability of the tokens, at each of `TEMPERATURES`."""
        rows = np.arange(len(self.own))
        return np.array([self.scale(float(temperature))[rows, self.own].mean() for temperature in TEMPERATURES])


def weigh_docs(docs: Sequence[ScoredDoc]) -> Numbers:
    """n: the tokens of each doc, at most `FIDELITY_LONGEST` times the median, so that no long answer decides."""
    tokens = np.array([len(doc.scores) for doc in docs], float)
    weights: Numbers = np.minimum(tokens, FIDELITY_LONGEST * np.median(tokens))
    return weights
