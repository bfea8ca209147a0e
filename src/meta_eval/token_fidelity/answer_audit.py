"""Judges an endpoint by its answers alone: the same model as the trusted copy, different or undecided.

The mean score of the answers (`meta_eval.token_fidelity.answer_scores`) has a 99 % interval over docs. It is compared
with a limit: twice the score of an A/A pair, the answers of an endpoint of one's own with the same weights, and at
least what identical weights may have on another engine. *Different*: the whole interval is beyond the limit. *Same*:
the whole interval is within it, and a noise was measured. Without a noise the limit is twice the least one, and nothing
is *same*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meta_eval.stats import Interval
from meta_eval.stats.ratio import Mean, mean_of_tokens
from meta_eval.thresholds import (
    AUDIT_MIN_DOCS,
    AUDIT_REGRET_FLOOR,
    AUDIT_SURPRISE_FLOOR,
    AUDIT_UNFIT_REGRET,
    AUDIT_UNMEASURED_TIMES,
    FIDELITY_DIFFERENT_TIMES,
    FIDELITY_LEVEL,
    FIDELITY_LEVEL_TEXT,
)
from meta_eval.token_fidelity.answer_scores import TEMPERATURES, ScoredDoc, weigh_docs
from meta_eval.token_fidelity.comparison import Outcome

# Resamples of docs for the interval of the temperature.
_RESAMPLES = 400


@dataclass(frozen=True, slots=True)
class AnswerFigures:
    """The answers of a task, or of all, that were to be generated greedily, or sampled.

    Attributes:
        name: The task; None for all.
        is_greedy: Whether they were to be generated greedily.
        score: The mean score, nats a token, with its interval at `FIDELITY_LEVEL`; None for a single doc.
        unlikely: The share of tokens that are not the likeliest, or outside of the set that was sampled from.
        opening, later: The mean score of the first tokens, and of all others; None without any.
        unfit: The share of answers with a mean score above `AUDIT_UNFIT_REGRET`.
    """

    name: str | None
    is_greedy: bool
    score: Mean
    interval: Interval | None
    unlikely: float
    opening: float | None
    later: float | None
    unfit: float

    @property
    def docs(self) -> int:
        return self.score.docs

    @property
    def tokens(self) -> int:
        return self.score.tokens


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """The verdict on the greedy answers, or on the sampled ones.

    Attributes:
        outcome: The outcome.
        figures: Of all such answers.
        tasks: Of each task by name; empty for a single task.
        noise: The mean score of the A/A pair; None without one.
        limit: Nats a token.
        reason: Why, a clause.
        temperature: The temperature that fits the answers best; None without the k likeliest tokens.
        temperature_interval: Its interval at `FIDELITY_LEVEL`; likewise.
    """

    outcome: Outcome
    figures: AnswerFigures
    tasks: tuple[AnswerFigures, ...]
    noise: float | None
    limit: float
    reason: str
    temperature: float | None
    temperature_interval: Interval | None


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


def find_outcome(verdicts: Sequence[GroupVerdict]) -> Outcome:
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
    scores, openings = (np.concatenate([getattr(doc, field) for doc in docs]) for field in ("scores", "openings"))
    return AnswerFigures(
        name=name,
        is_greedy=is_greedy,
        score=mean,
        interval=mean.positive_interval(FIDELITY_LEVEL) if is_greedy else mean.interval(FIDELITY_LEVEL),
        unlikely=float(np.concatenate([doc.unlikely for doc in docs]).mean()),
        opening=float(scores[openings].mean()) if openings.any() else None,
        later=float(scores[~openings].mean()) if not openings.all() else None,
        unfit=float((np.abs(means) > AUDIT_UNFIT_REGRET).mean()),
    )


def _judge(docs: Sequence[ScoredDoc], noise: Sequence[ScoredDoc]) -> GroupVerdict:
    figures = measure_answers(docs)
    names = sorted({doc.task for doc in docs})
    tasks = [measure_answers([doc for doc in docs if doc.task == name], name) for name in names if len(names) > 1]
    reference = measure_answers(noise).score.value if noise else None
    limit = find_limit(reference, is_greedy=figures.is_greedy)
    outcome, reason = _decide(figures, reference, limit)
    temperature, interval = _fit_temperature(docs)
    return GroupVerdict(outcome, figures, tuple(tasks), reference, limit, reason, temperature, interval)


def find_limit(noise: float | None, *, is_greedy: bool) -> float:
    """The mean score, nats a token, above which answers are of another model."""
    floor = AUDIT_REGRET_FLOOR if is_greedy else AUDIT_SURPRISE_FLOOR
    return AUDIT_UNMEASURED_TIMES * floor if noise is None else max(floor, FIDELITY_DIFFERENT_TIMES * abs(noise))


def _decide(figures: AnswerFigures, noise: float | None, limit: float) -> tuple[Outcome, str]:
    what = "regret" if figures.is_greedy else "surprise"
    if figures.docs < AUDIT_MIN_DOCS or figures.interval is None:
        return "undecided", f"too few answers: {figures.docs}, and at least {AUDIT_MIN_DOCS} are needed"
    lower, upper = figures.interval.lower, figures.interval.upper
    between = f"the {what} is {lower:.3g} to {upper:.3g} nats a token ({FIDELITY_LEVEL_TEXT} interval)"
    if lower > limit or upper < -limit:
        return "different", f"{between}, beyond the limit of {limit:.3g}"
    if noise is None:
        return "undecided", f"{between}, and no noise was measured: name a table of the same weights with --noise"
    if -limit < lower and upper < limit:
        return "same", f"{between}, within the limit of {limit:.3g}"
    return "undecided", f"{between}, and the limit of {limit:.3g} lies between"


def _fit_temperature(docs: Sequence[ScoredDoc]) -> tuple[float | None, Interval | None]:
    """The temperature under which the answers are likeliest, with an interval over resampled docs."""
    curves = [doc.likelihoods * len(doc.scores) for doc in docs if doc.likelihoods is not None]
    if len(curves) < 2:
        return None, None
    table = np.array(curves)
    counts = np.random.default_rng(0).multinomial(len(table), np.full(len(table), 1 / len(table)), size=_RESAMPLES)
    fitted = TEMPERATURES[(counts @ table).argmax(axis=1)]
    outside = (1 - FIDELITY_LEVEL) / 2
    interval = Interval(float(np.quantile(fitted, outside)), float(np.quantile(fitted, 1 - outside)))
    return float(TEMPERATURES[table.sum(axis=0).argmax()]), interval


def _find_copies(docs: Sequence[ScoredDoc]) -> list[tuple[str, str]] | None:
    keys = [(doc.task, doc.request_sha256) for doc in docs]
    return keys if len(set(keys)) < len(keys) else None


def find_unfit(docs: Sequence[ScoredDoc]) -> NDArray[np.bool_]:
    """Whether each answer does not fit by itself."""
    return np.array([abs(doc.mean) > AUDIT_UNFIT_REGRET for doc in docs], bool)
