"""The figures of a table, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from forced_tables import answer, drawn

from meta_eval.judge.token_table import Choices
from meta_eval.plugins.tokens.token_columns import Vocabulary, make_columns
from meta_eval.plugins.tokens.token_figures import measure_choice_figures, measure_figures
from meta_eval.stats.first_divergence import measure_divergence


def test_the_figures_of_two_answers() -> None:
    first = answer(0, [-1.0, -2.0, -3.0, -2.0], [0.0, 0.0, 0.7, 0.0])
    other = answer(1, [-1.0, -1.0], [0.0, 0.0])
    figures = measure_figures(make_columns([first, other]))
    assert len(figures) == 1  # one task: nothing by task
    whole = figures[0]
    assert (whole.docs, whole.tokens) == (2, 6)
    assert whole.top1.value == pytest.approx(5 / 6)
    assert whole.logprob.value == pytest.approx(-10 / 6)
    assert whole.perplexity == pytest.approx(math.exp(10 / 6))
    assert whole.greedy.value == 0.5
    assert whole.margins.mean.value == pytest.approx(0.7 / 6)
    assert whole.margins.above[0.5] == pytest.approx(1 / 6)
    assert whole.margins.above[1.0] == 0


def test_a_tie_is_the_likeliest_whatever_rank_the_engine_gives_it() -> None:
    tied = answer(0, [-1.0, -1.0], ranks=np.array([2, 0], np.int32))
    assert measure_figures(make_columns([tied, tied]))[0].top1.value == 1


def test_survival_is_kaplan_and_meiers() -> None:
    # Diverged at 1, at 2, ended after 2, diverged at 4, ended after 8.
    divergence = measure_divergence(np.array([1, 2, 2, 4, 8]), np.array([True, True, False, True, False]))
    assert divergence.survival == pytest.approx({1: 0.8, 2: 0.6, 4: 0.3, 8: 0.3})
    assert (divergence.median, divergence.answers, divergence.of) == (4, 3, 5)
    assert measure_divergence(np.array([3, 3]), np.array([False, False])).median is None
    assert measure_divergence(np.array([1, 3]), np.array([True, True])).survival == {1: 0.5, 2: 0.5, 4: 0}
    assert measure_divergence(np.array([1, 3]), np.array([True, False])).survival == {1: 0.5, 2: 0.5}


def test_tasks_and_kinds_stand_apart() -> None:
    early = answer(0, [-1.0, -3.0], [0.0, 1.0])
    late = answer(0, [-5.0, -5.0], [2.0, 2.0], task="meta_nih", prompt_tokens=9000)
    whole, gsm8k, nih = measure_figures(make_columns([early, late]), Vocabulary(frozenset({11}), frozenset({7})))
    assert (whole.name, gsm8k.name, nih.name) == (None, "meta_gsm8k", "meta_nih")
    assert nih.logprob.value == -5
    kinds = {kind.name: (kind.tokens, kind.top1, kind.logprob) for kind in whole.kinds}
    assert kinds == {
        "first token": (2, 0.5, -3.0),
        "tokens 2 to 16": (2, 0.0, -4.0),
        "digits": (2, 0.0, -4.0),
        "positions below 1k": (2, 0.5, -2.0),
        "from 8k on": (2, 0.0, -5.0),
    }


def test_an_interval_counts_docs_and_not_tokens() -> None:
    # Within a doc all tokens are alike, so that a thousand of them say no more than one.
    few = [answer(doc, [-1.0 - doc % 2] * 2) for doc in range(20)]
    many = [answer(doc, [-1.0 - doc % 2] * 2000) for doc in range(20)]
    short, long = (measure_figures(make_columns(table))[0].logprob.interval for table in (few, many))
    assert short is not None and long is not None
    assert short.upper - short.lower == pytest.approx(long.upper - long.lower)


def test_recorded_likelihoods_are_compared_as_numbers() -> None:
    docs = [
        Choices("meta_arc", 0, "0", np.array([-1.0, -2.0], np.float32), np.array([-1.5, -2.5], np.float32), 0),
        Choices("meta_arc", 1, "1", np.array([-4.0, -3.0], np.float32), np.array([-3.0, -3.5], np.float32), 0),
    ]
    (figures,) = measure_choice_figures(docs)
    assert (figures.docs, figures.numbers) == (2, 4)
    assert figures.mean_difference.value == pytest.approx((0.5 + 0.5 + 1.0 + 0.5) / 4)
    assert figures.median_difference == 0.5
    assert figures.shift.value == pytest.approx((0.5 + 0.5 - 1.0 + 0.5) / 4)
    assert figures.same_best.value == 0.5
    assert [(choice.doc, choice.difference) for choice in figures.worst] == [(1, 1.0), (0, 0.5)]
    assert figures.correlation == pytest.approx(np.corrcoef([-1, -2, -4, -3], [-1.5, -2.5, -3, -3.5])[0, 1])
    assert measure_choice_figures([]) == []


def test_copies_of_one_answer_count_as_one_doc() -> None:
    """Ten docs in eight copies each tell as much as ten."""
    once = drawn(10, 12)
    often = [replace(scored, doc=10 * number + scored.doc) for number in range(8) for scored in once]
    (few,), (many,) = measure_figures(make_columns(once)), measure_figures(make_columns(often))
    assert many.docs == 80
    assert few.logprob.interval is not None
    assert many.logprob.interval is not None
    assert many.logprob.interval.lower == pytest.approx(few.logprob.interval.lower)
    assert many.logprob.interval.upper == pytest.approx(few.logprob.interval.upper)
    assert many.greedy.interval is not None
    assert few.greedy.interval is not None
    assert many.greedy.interval.upper >= few.greedy.interval.upper
