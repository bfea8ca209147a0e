"""Compares log-likelihoods of the same choices, doc by doc, with the outcomes of `compare_tables`.

In a choice task the likeliest continuation hides most differences. So a doc counts as an answer, and its continuations
as tokens: the distance is in nats per continuation. Rounding moves unlikely continuations much more. So each
continuation is weighted by its probability under the baseline among those of its doc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from meta_eval.base.thresholds import SAMENESS_MIN_DOCS
from meta_eval.judge.token_table import Choices, Floats
from meta_eval.plugins.tokens.comparison import TableComparison, compare_tables
from meta_eval.plugins.tokens.table_pairing import Pair, PairingError
from meta_eval.plugins.tokens.token_columns import AnswerRows, Columns
from meta_eval.plugins.tokens.yardstick import Yardstick


def compare_choices(
    baseline: Sequence[Choices],
    candidate: Sequence[Choices],
    yardstick: Yardstick = None,
    min_docs: int = SAMENESS_MIN_DOCS,
) -> TableComparison:
    """Compare, and decide. ``changed`` is the share of continuations in docs with another best continuation.

    Args:
        baseline, candidate: The docs of the baseline and of the copy.
        yardstick: The noise of the choices, or a margin in nats per continuation.
        min_docs: With fewer docs, overall or in a task, the outcome is undecided.

    Raises:
        PairingError: The docs or their requests differ.
    """
    return replace(compare_tables(pair_choices(baseline, candidate), yardstick, None, min_docs), kinds=(), changes=())


def pair_choices(baseline: Sequence[Choices], candidate: Sequence[Choices]) -> Pair:
    """Pair two tables of choices, with the weighted continuations as tokens.

    Raises:
        PairingError: The docs or their requests differ.
    """
    first, second = ({(choices.task, choices.doc): choices for choices in some} for some in (baseline, candidate))
    keys = sorted(first.keys() & second.keys())
    if not keys:
        raise PairingError(
            "its choices and the baseline's have no doc in common",
            hint="Run both with the same pack, --tasks and --docs",
        )
    for task, doc in keys:
        choices, other = first[task, doc], second[task, doc]
        if choices.request_sha256 != other.request_sha256 or len(choices.logprobs) != len(other.logprobs):
            raise PairingError(
                f"{task}/{doc} differs from the baseline in its prompt or continuations",
                hint="Run both models with the same pack",
            )  # fmt: skip
    weights = np.concatenate([_weights(first[key].logprobs) for key in keys])
    baseline_columns, candidate_columns = (_columns([some[key] for key in keys], weights) for some in (first, second))
    return Pair(baseline_columns, candidate_columns, None, 0.0, 0, len(first) - len(keys), len(second) - len(keys))


def _weights(logprobs: Floats) -> Floats:
    """The weights of a doc's continuations, with mean 1."""
    likelihoods = np.exp(logprobs - logprobs.max())
    weights: Floats = likelihoods / likelihoods.mean()
    return weights


def _columns(docs: Sequence[Choices], weights: Floats) -> Columns:
    """Columns with weighted continuations as tokens, and a doc's best continuation as the likeliest token."""
    counts = np.array([len(choices.logprobs) for choices in docs])
    row = np.repeat(np.arange(len(docs)), counts)
    at = np.concatenate([np.arange(count) for count in counts])
    best = np.array([int(np.argmax(choices.logprobs)) for choices in docs], np.int32)
    logprobs = np.concatenate([choices.logprobs for choices in docs]).astype(np.float32)
    tops = np.array([float(choices.logprobs.max()) for choices in docs], np.float32)
    return Columns(
        answers=tuple(
            AnswerRows(choices.task, None, choices.doc, 0, len(choices.logprobs), False, choices.request_sha256)
            for choices in docs
        ),
        row=row, at=at, position=at, ids=at.astype(np.int32), logprobs=weights * logprobs,
        margins=tops[row] - logprobs, ranks=np.zeros(len(row), np.int32), top_ids=best[row],
    )  # fmt: skip
