"""The figures of a table: how likely the recorded answers are under a model. Shares from 0 to 1, natural logarithms.

Intervals are over docs, not tokens (`meta_eval.stats.ratio`). docs/plugins/tokens/same_model.md
says what the figures are worth without a baseline.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from meta_eval.base.thresholds import LEVEL
from meta_eval.judge.token_table import Choices
from meta_eval.plugins.tokens.token_columns import AnswerRows, Columns, Vocabulary, find_copies, list_token_kinds
from meta_eval.stats import Interval, mean, score_interval
from meta_eval.stats.first_divergence import FirstDivergence, measure_divergence
from meta_eval.stats.ratio import mean_of_tokens

# Quantiles of margins; and thresholds, in nats, for the share of tokens with a larger margin.
QUANTILES = (0.5, 0.9, 0.99, 0.999)
_THRESHOLDS = (0.1, 0.5, 1.0, 2.0, 5.0)

# Number of worst docs to name.
WORST = 5


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over tokens, and its interval at `LEVEL` (None for a single doc)."""

    value: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class TokenKindFigures:
    """A kind of token: count, share of likeliest tokens, and mean log-probability."""

    name: str
    tokens: int
    top1: float
    logprob: float


@dataclass(frozen=True, slots=True)
class Margins:
    """How far recorded tokens are below the likeliest token, in nats: Token-DiFR's statistic (arXiv 2511.20621)."""

    mean: Estimate
    """The mean over all tokens."""

    quantiles: dict[float, float]
    """Quantiles by share."""

    above: dict[float, float]
    """The share of tokens with a larger margin, by threshold."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a task, or of all."""

    name: str | None
    """The task; None for all."""

    docs: int
    """Number of answers."""

    tokens: int
    """Number of their tokens."""

    top1: Estimate
    """The share of tokens that are the likeliest."""

    logprob: Estimate
    """The mean log-probability of a token, nats."""

    margins: Margins
    """See `Margins`."""

    greedy: Estimate
    """The share of answers with only likeliest tokens."""

    divergence: FirstDivergence
    """See `FirstDivergence`."""

    kinds: tuple[TokenKindFigures, ...]
    """The kinds of tokens that occur."""

    json_also: ClassVar = ("perplexity",)

    @property
    def perplexity(self) -> float:
        """The perplexity of the recorded answers: exp of the mean negative log-probability of a token."""
        return math.exp(min(700.0, -self.logprob.value))


def measure_figures(table: Columns, vocabulary: Vocabulary | None = None) -> list[Figures]:
    """The figures of all tokens, and of each task by name if there are several.

    Raises:
        ValueError: There is no token.
    """
    kinds = list_token_kinds(table, vocabulary)
    tasks = table.tasks
    task_names: list[str | None] = [None, *(tasks if len(tasks) > 1 else [])]
    return [_figures(table, name, kinds) for name in task_names]


def _figures(table: Columns, task: str | None, kinds: Sequence[tuple[str, NDArray[np.bool_]]]) -> Figures:
    where = np.ones(len(table.row), bool) if task is None else table.of(task)
    first = table.first
    answer_rows = np.flatnonzero([task in (None, answer.task) and answer.tokens > 0 for answer in table.answers])
    if not len(answer_rows):
        raise ValueError("there is no token")
    misses, _ = table.sums(~first, where)
    margins = table.margins[where]
    return Figures(
        name=task,
        docs=len(answer_rows),
        tokens=int(where.sum()),
        top1=_figure(table, first, where),
        logprob=_figure(table, table.logprobs, where),
        margins=Margins(
            _figure(table, table.margins, where),
            {share: float(np.quantile(margins, share)) for share in QUANTILES},
            {limit: float((margins > limit).mean()) for limit in _THRESHOLDS},
        ),
        greedy=_share([float(misses[at] == 0) for at in answer_rows], [table.answers[at] for at in answer_rows]),
        divergence=measure_divergence(*_first_misses(table, where, answer_rows)),
        kinds=tuple(
            TokenKindFigures(
                name,
                int(selected.sum()),
                float(first[selected].mean()),
                float(table.logprobs[selected].mean(dtype=float)),
            )
            for name, mask in kinds
            if (selected := mask & where).any()
        ),
    )


def _figure(table: Columns, values: NDArray[Any], where: NDArray[np.bool_]) -> Estimate:
    average = table.mean(values, where)
    return Estimate(average.value, average.interval(LEVEL))


def _share(values: Sequence[float], answers: Sequence[AnswerRows | Choices]) -> Estimate:
    """The mean over answers; copies of a doc form a cluster."""
    return Estimate(mean(values), score_interval(values, clusters=find_copies(answers)))


def _first_misses(
    table: Columns, where: NDArray[np.bool_], answer_rows: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each answer, the place (from 1) of its first token that is not the likeliest, or its length; and whether it
    has such a token."""
    lengths = np.array([answer.tokens for answer in table.answers], np.int64)
    places = lengths.copy()
    missed = np.flatnonzero(where & ~table.first)
    rows = table.row[missed]
    np.minimum.at(places, rows, table.at[missed] + 1)
    event = np.zeros(len(lengths), bool)
    event[rows] = True
    return places[answer_rows], event[answer_rows]


@dataclass(frozen=True, slots=True)
class WorstDoc:
    """A doc of choices with the largest difference between the copy's and the recorded log-likelihood."""

    task: str
    doc: int
    difference: float
    ours: tuple[float, ...]
    recorded: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ChoiceFigures:
    """The copy's log-likelihoods of choices, compared with the recorded ones. Nats per continuation."""

    name: str | None
    """The task; None for all."""

    docs: int
    """Docs."""

    numbers: int
    """Number of continuations."""

    mean_difference: Estimate
    """The mean of the absolute difference, with its interval over docs."""

    median_difference: float
    """Its median."""

    shift: Estimate
    """The mean of ours minus the recorded, with its interval; it shows whether choices are likelier overall."""

    correlation: float | None
    """Pearson's correlation of all numbers; None if either is constant."""

    same_best: Estimate
    """The share of docs with the recorded likeliest choice."""

    worst: tuple[WorstDoc, ...]
    """The docs with the largest difference."""


def measure_choice_figures(choices: Iterable[Choices]) -> list[ChoiceFigures]:
    """The figures of all docs, and of each task by name if there are several; empty without docs."""
    docs = sorted(choices, key=lambda doc: (doc.task, doc.doc))
    tasks = sorted({doc.task for doc in docs})
    task_names: list[str | None] = [None, *(tasks if len(tasks) > 1 else [])] if docs else []
    return [_choice_figures(name, [doc for doc in docs if name in (None, doc.task)]) for name in task_names]


def _choice_figures(name: str | None, docs: Sequence[Choices]) -> ChoiceFigures:
    logprobs = np.concatenate([doc.logprobs for doc in docs]).astype(float)
    recorded = np.concatenate([doc.recorded for doc in docs]).astype(float)
    counts = np.array([len(doc.logprobs) for doc in docs])
    starts = np.cumsum(counts) - counts
    difference = logprobs - recorded

    def figure(values: NDArray[np.float64]) -> Estimate:
        average = mean_of_tokens(np.add.reduceat(values, starts), counts, find_copies(docs))
        return Estimate(average.value, average.interval(LEVEL))

    same = [float(int(np.argmax(doc.logprobs)) == doc.best) for doc in docs]
    largest = np.maximum.reduceat(np.abs(difference), starts)
    varied = len(logprobs) > 1 and logprobs.std() > 0 and recorded.std() > 0
    return ChoiceFigures(
        name=name,
        docs=len(docs),
        numbers=len(logprobs),
        mean_difference=figure(np.abs(difference)),
        median_difference=float(np.median(np.abs(difference))),
        shift=figure(difference),
        correlation=float(np.corrcoef(logprobs, recorded)[0, 1]) if varied else None,
        same_best=_share(same, docs),
        worst=tuple(
            WorstDoc(doc.task, doc.doc, float(largest[at]), tuple(doc.logprobs.tolist()), tuple(doc.recorded.tolist()))
            for at in np.argsort(-largest, kind="stable")[:WORST]
            for doc in [docs[at]]
        ),
    )
