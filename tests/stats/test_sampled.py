"""Several answers a doc: pass@k, the interval of their mean, and how much sampling a drop has in it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import THOROUGH

from meta_eval import stats


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_all_choices_of_k_answers_that_hold_a_right_one(counts: tuple[int, int, int]) -> None:
    answers, right, k = counts
    drawn = [any(place < right for place in places) for places in combinations(range(answers), k)]
    assert stats.pass_at_k(right, answers, k) == pytest.approx(sum(drawn) / len(drawn), abs=1e-12)


@pytest.mark.parametrize(("right", "answers", "k"), [(5, 4, 1), (1, 4, 5), (1, 4, 0), (-1, 4, 1)])
def test_what_gives_no_pass_at_k(right: int, answers: int, k: int) -> None:
    with pytest.raises(ValueError, match="give no pass"):
        stats.pass_at_k(right, answers, k)


def test_one_answer_a_doc_has_the_interval_of_any_score() -> None:
    values = [1.0] * 7 + [0.0] * 3
    assert stats.sampled_interval(values, 1) == stats.wilson_interval(7, 10)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_sixteen_answers_to_each_of_few_docs_tell_no_more_than_the_docs_where_all_are_alike(value: float) -> None:
    few, plain = stats.sampled_interval([value] * 10, 16), stats.wilson_interval(10 * value, 10)
    assert (few.lower, few.upper) == pytest.approx((plain.lower, plain.upper))


@pytest.mark.parametrize(("score", "docs", "answers"), [(0.5, 30, 4), (0.9, 30, 16), (0.98, 100, 16), (0.9, 10, 4)])
def test_the_interval_of_the_mean_holds_the_truth(score: float, docs: int, answers: int) -> None:
    rng = np.random.default_rng(docs + answers)
    runs = 1500 if THOROUGH else 100
    p = rng.beta(score, 1 - score, (runs, docs))
    means = rng.binomial(answers, p) / answers
    held = sum(score in stats.sampled_interval(row.tolist(), answers) for row in means) / runs
    assert held >= 0.935 - 3 * (0.935 * 0.065 / runs) ** 0.5


@pytest.mark.parametrize(("before", "after"), [(1, 1), (4, 4), (1, 16)])
def test_the_flips_that_are_expected_are_the_variance_of_sampled_runs(before: int, after: int) -> None:
    rng = np.random.default_rng(before + after)
    p = rng.beta(1, 1, 200_000)
    drops = rng.binomial(before, p) / before - rng.binomial(after, p) / after
    flips = float(np.mean(2 * p * (1 - p)))
    assert float(np.var(drops)) == pytest.approx(stats.sampled_flips(flips, before, after), rel=0.02)


def test_so_many_answers_show_an_identical_model() -> None:
    rng, runs = np.random.default_rng(7), 200 if THOROUGH else 80
    docs, margin = 2000, 0.02
    p = rng.beta(0.8, 0.8, docs)
    answers = stats.count_needed_answers(float(np.mean(p * (1 - p))) / docs, margin)
    assert answers is not None and answers > 1

    def shown(k: int) -> float:
        drops = [stats.paired_drop(rng.binomial(k, p) / k, rng.binomial(k, p) / k) for _ in range(runs)]
        return sum(drop.interval().upper < margin for drop in drops) / runs

    assert shown(answers) > 0.9 > shown(max(1, answers // 2))


def test_a_baseline_that_is_not_run_again_may_leave_no_number_of_answers() -> None:
    assert stats.count_needed_answers(1e-4, 0.03, baseline_answers=1) is None
    assert stats.count_needed_answers(1e-8, 0.01, baseline_answers=1) == 1
