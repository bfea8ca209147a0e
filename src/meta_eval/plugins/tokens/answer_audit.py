"""Judges an endpoint by its answers alone: the same model as the trusted copy, different or undecided.

The mean score of the answers (`meta_eval.plugins.tokens.answer_scores`) has a 99 % interval over docs. It is compared
with a limit and with an A/A pair, the answers of an endpoint of one's own with the same weights.

- The regret of greedy answers has the limit of twice the pair's, and at least what identical weights may have on
  another engine.
- The depth of sampled answers has a fixed limit for its difference from the pair's. The pair's own is not quite 0:
  texts are tokenised otherwise than they were generated, and tokens beyond the k likeliest count as one.

Faults may be so rare that none was drawn: all regrets are 0, and so is the interval of what was seen. So the upper end
of a regret is at least what a kind of token, and a kind of answer, of which none was drawn may add to the mean. Such a
token has the largest regret, and such an answer one that does not fit (`AUDIT_UNFIT_REGRET`). Answers to one request,
and those of a cluster of docs, count once.

*Different*: the whole interval is beyond the limit. *Same*: the whole interval is within it, and a noise was measured.
Without a noise the limit is larger, and nothing is *same*. A noise above that larger limit may be of other weights:
nothing is *same* by it, and *different* is beyond the larger limit, too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from meta_eval.base.plain_data import written
from meta_eval.judge.decide import Sameness
from meta_eval.plugins.tokens.answer_scores import TEMPERATURES, Numbers, ScoredDoc, weigh_docs
from meta_eval.plugins.tokens.thresholds import (
    AUDIT_DEPTH_FLOOR,
    AUDIT_DEPTH_UNMEASURED,
    AUDIT_MIN_DOCS,
    AUDIT_MOST_REGRET,
    AUDIT_REGRET_FLOOR,
    AUDIT_UNFIT_DEPTH,
    AUDIT_UNFIT_REGRET,
    AUDIT_UNMEASURED_TIMES,
    FIDELITY_ALPHA,
    FIDELITY_DIFFERENT_TIMES,
    FIDELITY_LEVEL,
    FIDELITY_LEVEL_TEXT,
)
from meta_eval.stats import Interval, score_interval
from meta_eval.stats.ratio import Mean, bound_unseen, count_for_unseen, mean_of_tokens

# Resamples of docs for the interval of the temperature.
_RESAMPLES = 400

# Answers of at most so many tokens are tabled together.
LENGTHS = (16, 64, 256)


_Key = TypeVar("_Key", int, str)


@dataclass(frozen=True, slots=True)
class AnswerFigures:
    """The answers of a task, or of all, that were to be generated greedily, or sampled."""

    name: str | None
    """The task; None for all."""

    is_greedy: bool
    """Whether they were to be generated greedily."""

    score: Mean = field(metadata=written(lambda score: score.value))
    """The mean score, nats a token or a share of probability."""

    interval: Interval | None
    """Its interval at `FIDELITY_LEVEL`; None for a single doc."""

    unseen: float
    """The least upper end of the regret of greedy answers; 0 for sampled ones."""

    unlikely: float
    """The share of tokens that are not the likeliest, or outside of the set that was sampled from."""

    opening: float | None
    later: float | None
    """The mean score of the first tokens, and of all others; None without any."""

    surprise: float | None
    """The mean surprise of sampled answers, nats a token; None for greedy ones."""

    unfit: float
    """The share of answers with a mean score beyond `AUDIT_UNFIT_REGRET`, or `AUDIT_UNFIT_DEPTH` of sampled ones."""

    unfit_interval: Interval
    """Its interval at `FIDELITY_LEVEL`."""

    json_also: ClassVar = ("docs", "tokens")

    @property
    def docs(self) -> int:
        return self.score.docs

    @property
    def tokens(self) -> int:
        return self.score.tokens


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """The verdict on the greedy answers, or on the sampled ones."""

    outcome: Sameness
    """The outcome."""

    figures: AnswerFigures
    """Of all such answers."""

    tasks: tuple[AnswerFigures, ...]
    """Of each task by name; empty for a single task."""

    lengths: tuple[AnswerFigures, ...]
    """Of answers of about the same length by `LENGTHS`; empty for a single length."""

    noise: float | None
    """The mean score of the A/A pair; None without one."""

    limit: float
    """Nats a token."""

    reason: str
    """Why, a clause."""

    temperature: float | None
    """The temperature that fits the answers best; None without the k likeliest tokens."""

    temperature_interval: Interval | None
    """Its interval at `FIDELITY_LEVEL`; likewise."""


def judge_answers(docs: Sequence[ScoredDoc], noise: Sequence[ScoredDoc] | None = None) -> list[GroupVerdict]:
    """Judge the greedy and the sampled answers of an endpoint.

    Args:
        docs: The endpoint's answers.
        noise: Those of an endpoint with the same weights; None without an A/A pair.
    """
    verdicts = []
    for is_greedy in (True, False):
        some = [doc for doc in docs if doc.decoding.is_greedy == is_greedy]
        reference = [doc for doc in noise or () if doc.decoding.is_greedy == is_greedy]
        if some:
            verdicts.append(_judge(some, reference))
    return verdicts


def find_outcome(verdicts: Sequence[GroupVerdict]) -> Sameness:
    """The outcome of all answers: different if any are, same if all are."""
    outcomes = {verdict.outcome for verdict in verdicts}
    if "different" in outcomes:
        return "different"
    return "same" if outcomes == {"same"} else "undecided"


def measure_answers(docs: Sequence[ScoredDoc], name: str | None = None) -> AnswerFigures:
    """The figures of answers that were all greedy, or all sampled."""
    weights, tokens = weigh_docs(docs), sum(len(doc.scores) for doc in docs)
    means = np.array([doc.mean for doc in docs])
    mean = mean_of_tokens(means * weights, weights, _find_copies(docs))
    mean = Mean(mean.value, mean.variance, mean.freedom, mean.docs, tokens)
    is_greedy = docs[0].decoding.is_greedy
    unfit, unseen = find_unfit(docs), _bound_unseen(docs) if is_greedy else 0.0
    scores, openings = (np.concatenate([getattr(doc, field) for doc in docs]) for field in ("scores", "openings"))
    return AnswerFigures(
        name=name,
        is_greedy=is_greedy,
        score=mean,
        interval=mean.positive_interval(FIDELITY_LEVEL, unseen) if is_greedy else mean.interval(FIDELITY_LEVEL),
        unseen=unseen,
        unlikely=float(np.concatenate([doc.unlikely for doc in docs]).mean()),
        opening=float(scores[openings].mean()) if openings.any() else None,
        later=float(scores[~openings].mean()) if not openings.all() else None,
        surprise=None if is_greedy else float(np.concatenate([_get_surprises(doc) for doc in docs]).mean()),
        unfit=float(unfit.mean()),
        unfit_interval=score_interval(unfit.astype(float).tolist(), level=FIDELITY_LEVEL),
    )


def _judge(docs: Sequence[ScoredDoc], noise: Sequence[ScoredDoc]) -> GroupVerdict:
    figures = measure_answers(docs)
    tasks = _measure_groups(docs, lambda doc: doc.task, str)
    lengths = _measure_groups(docs, lambda doc: bisect_left(LENGTHS, len(doc.scores)), _name_length)
    reference = measure_answers(noise) if noise else None
    noise_score = None if reference is None else reference.score.value
    limit = find_common_length(noise_score, is_greedy=figures.is_greedy)
    outcome, reason = _decide(figures, reference, limit)
    temperature, interval = _fit_temperature(docs)
    return GroupVerdict(outcome, figures, tasks, lengths, noise_score, limit, reason, temperature, interval)


def _measure_groups(
    docs: Sequence[ScoredDoc], find_key: Callable[[ScoredDoc], _Key], write: Callable[[_Key], str]
) -> tuple[AnswerFigures, ...]:
    """The figures of the docs of each key, in order; none for a single key."""
    groups: dict[_Key, list[ScoredDoc]] = {}
    for doc in docs:
        groups.setdefault(find_key(doc), []).append(doc)
    if len(groups) < 2:
        return ()
    return tuple(measure_answers(groups[key], write(key)) for key in sorted(groups))


def _name_length(place: int) -> str:
    """The name of a group of `LENGTHS`."""
    first = LENGTHS[place - 1] + 1 if place else 1
    return f"{first} to {LENGTHS[place]} tokens" if place < len(LENGTHS) else f"{first} tokens and more"


def find_common_length(noise: float | None, *, is_greedy: bool) -> float:
    """The regret, nats a token, above which greedy answers are of another model; for sampled ones the depth.

    Args:
        noise: The mean score of the A/A pair; None without one.
        is_greedy: Whether the answers are greedy.
    """
    if not is_greedy:
        return AUDIT_DEPTH_UNMEASURED if noise is None else AUDIT_DEPTH_FLOOR
    floor = AUDIT_REGRET_FLOOR
    return AUDIT_UNMEASURED_TIMES * floor if noise is None else max(floor, FIDELITY_DIFFERENT_TIMES * noise)


def _write_bound(value: float) -> str:
    """``0.0012``, ``0.34``; four decimals are what servers give, and no exponent is to be read."""
    return f"{value:.4f}" if abs(value) < 0.01 else f"{value:.3g}"


def _decide(figures: AnswerFigures, noise: AnswerFigures | None, limit: float) -> tuple[Sameness, str]:
    interval, says = figures.interval, "the regret is {} nats a token"
    if not figures.is_greedy:
        interval = interval if noise is None else _subtract(figures.score, noise.score)
        says = "the depth is {}" if noise is None else "the depth is {} beside the noise"
    if figures.docs < AUDIT_MIN_DOCS or interval is None:
        return "undecided", f"too few answers: {figures.docs}, and at least {AUDIT_MIN_DOCS} are needed"
    most = AUDIT_MOST_REGRET if figures.is_greedy else 0.5 if noise is None else 1.0
    written = " to ".join(_write_bound(min(max(bound, -most), most)) for bound in (interval.lower, interval.upper))
    between = f"{says.format(written)} ({FIDELITY_LEVEL_TEXT} interval)"
    doubt = _doubt_noise(noise, is_greedy=figures.is_greedy)
    # A noise that measures nothing makes nothing different, either.
    unmeasured = find_common_length(None, is_greedy=figures.is_greedy)
    if _is_beyond(interval, limit) and (doubt is None or _is_beyond(figures.interval, unmeasured)):
        return "different", f"{between}, beyond the limit of {limit:.3g}"
    if doubt is not None:
        return "undecided", f"{between}, and {doubt}"
    if -limit < interval.lower and interval.upper < limit:
        return "same", f"{between}, within the limit of {limit:.3g}"
    if figures.unseen >= limit > figures.score.value:
        answers = count_for_unseen(limit / AUDIT_UNFIT_REGRET, FIDELITY_ALPHA)
        tokens = count_for_unseen(limit / AUDIT_MOST_REGRET, FIDELITY_ALPHA)
        return "undecided", (
            f"{between}, and the limit is {limit:.3g}: to exclude rare faults, at least {answers:,} independent "
            f"answers and {tokens:,} tokens are needed"
        )
    return "undecided", f"{between}, and the limit of {limit:.3g} lies between"


def _is_beyond(interval: Interval | None, limit: float) -> bool:
    return interval is not None and (interval.lower > limit or interval.upper < -limit)


def _doubt_noise(noise: AnswerFigures | None, *, is_greedy: bool) -> str | None:
    """Why nothing is the same by this noise; None if something may be."""
    if noise is None:
        return "no noise was measured: name a table of the same weights with --noise"
    most = find_common_length(None, is_greedy=is_greedy)
    if abs(noise.score.value) > most:
        return (
            f"the noise of {_write_bound(noise.score.value)} is above any of the same weights ({most:g}), so its table "
            "may be of other weights: name a table of the same weights with --noise"
        )
    if noise.docs < AUDIT_MIN_DOCS:
        return f"too few answers have a noise: {noise.docs}, and at least {AUDIT_MIN_DOCS} are needed"
    return None


def _bound_unseen(docs: Sequence[ScoredDoc]) -> float:
    """The regret that tokens or answers of a kind may add of which none was drawn, nats a token."""
    distinct = _count_distinct(docs)
    tokens = sum(len(doc.scores) for doc in docs) * distinct / len(docs)
    return max(
        bound_unseen(distinct, FIDELITY_ALPHA) * AUDIT_UNFIT_REGRET,
        bound_unseen(tokens, FIDELITY_ALPHA) * AUDIT_MOST_REGRET,
    )


def _count_distinct(docs: Sequence[ScoredDoc]) -> int:
    """The number of answers, where those of a cluster count once."""
    return len(set(map(_find_cluster, docs)))


def _find_cluster(doc: ScoredDoc) -> tuple[str, str, str]:
    return (doc.task, "cluster", doc.cluster) if doc.cluster is not None else (doc.task, "request", doc.request_sha256)


def _subtract(score: Mean, noise: Mean) -> Interval | None:
    """The interval of a difference of independent means, by Welch and Satterthwaite."""
    variance = score.variance + noise.variance
    if not score.freedom or not noise.freedom:
        return None
    parts = score.variance**2 / score.freedom + noise.variance**2 / noise.freedom
    freedom = variance**2 / parts if parts else 1.0
    return Mean(score.value - noise.value, variance, freedom, score.docs, score.tokens).interval(FIDELITY_LEVEL)


def _fit_temperature(docs: Sequence[ScoredDoc]) -> tuple[float | None, Interval | None]:
    """The temperature under which the answers are likeliest, with an interval over resampled docs."""
    curves = [doc.likelihoods * len(doc.scores) for doc in docs if doc.likelihoods is not None]
    if len(curves) < 2:
        return None, None
    table = np.array(curves)
    counts = np.random.default_rng(0).multinomial(len(table), np.full(len(table), 1 / len(table)), size=_RESAMPLES)
    fitted = TEMPERATURES[(counts @ table).argmax(axis=1)]
    outside = (1 - FIDELITY_LEVEL) / 2
    interval = Interval(*(float(np.quantile(fitted, at, method="nearest")) for at in (outside, 1 - outside)))
    return float(TEMPERATURES[table.sum(axis=0).argmax()]), interval


def _find_copies(docs: Sequence[ScoredDoc]) -> list[tuple[str, str, str]] | None:
    keys = list(map(_find_cluster, docs))
    return keys if len(set(keys)) < len(keys) else None


def find_unfit(docs: Sequence[ScoredDoc]) -> NDArray[np.bool_]:
    """Whether each answer does not fit by itself."""
    most = [AUDIT_UNFIT_REGRET if doc.decoding.is_greedy else AUDIT_UNFIT_DEPTH for doc in docs]
    return np.array([abs(doc.mean) > limit for doc, limit in zip(docs, most, strict=True)], bool)


def _get_surprises(doc: ScoredDoc) -> Numbers:
    assert doc.surprises is not None  # noqa: S101 (sampled docs have them)
    return doc.surprises
