"""Every metric of a task graded by tool calls has its value, its interval and its drop, also where it pools verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import published

from meta_eval import stats
from meta_eval.harness.doc_results import DocResult, FilterResult
from meta_eval.judge.decision import Measure
from meta_eval.judge.figures import compare_metrics, is_fraction

COUNTS = st.integers(1, 3).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))) | st.just((0, 0))


def make_doc(number: int, **metrics: Any) -> DocResult:
    known = {name: value for name, value in metrics.items() if value is not None}
    return DocResult(
        doc_id=number, question_hash=str(number), prompt_hashes=(), prompt_matches=True, subtask=None, cluster=None,
        gold="", n_choices=None, recorded_is_correct=None, recorded_metrics=None, answer_tail="", answer_empty=False,
        limit_hit=False, filter_results={"none": FilterResult(None, known, 0, 0)},
    )  # fmt: skip


def compare(
    baseline: Sequence[Any], candidate: Sequence[Any], clusters: Sequence[str] | None = None, lower: bool = False
) -> Measure:
    """The comparison of the metric ``f1`` with these values."""
    runs = [[make_doc(n, exact_match=1.0, f1=value) for n, value in enumerate(side)] for side in (baseline, candidate)]
    named = (lambda docs: [clusters[doc.doc_id] for doc in docs]) if clusters else lambda docs: None
    found = compare_metrics(
        [runs[1]], ([runs[0]], [runs[1]]), "exact_match,none", frozenset(["f1"] if lower else []), named
    )
    return next(metric for metric in found if metric.name == "f1,none")


def test_a_metric_that_pools_verdicts_is_a_ratio_of_sums() -> None:
    one, none = (True,), None
    metric = compare([one, one, none, (True, False)], [one, (False,), (False, False), none])
    assert (metric.docs, metric.value, metric.baseline) == (3, 1 / 4, 3 / 4)
    assert metric.drop is not None and metric.drop.value == pytest.approx(1 / 2)


def test_docs_that_a_metric_is_not_about_do_not_narrow_its_interval() -> None:
    full, sparse = [(True,)] * 40, [(True,)] * 40 + [None] * 400
    assert compare(sparse, sparse) == compare(full, full)


def test_single_verdicts_have_the_interval_and_drop_of_a_share() -> None:
    a, b = [1.0] * 30 + [0.0] * 10, [1.0] * 25 + [0.0] * 15
    pooled = compare([(bool(value),) for value in a], [(bool(value),) for value in b])
    drop = stats.paired_drop(a, b)
    assert pooled == compare(a, b)
    assert pooled.drop == stats.DropPart(pytest.approx(drop.value), drop.interval())
    assert pooled.interval == stats.score_interval(b)
    rise = compare(a, b, lower=True).drop
    assert rise is not None and rise.value == pytest.approx(-drop.value)


def test_docs_of_a_cluster_are_not_independent() -> None:
    a, b = [(True,)] * 40, [(True,)] * 30 + [(False,)] * 10
    apart, together = compare(a, b), compare(a, b, [str(n // 10) for n in range(40)])
    assert apart.drop is not None and together.drop is not None
    assert together.drop.interval.upper > apart.drop.interval.upper
    assert apart.interval is not None and together.interval is not None
    assert together.interval.lower < apart.interval.lower


def test_a_task_of_one_metric_has_no_table_and_other_values_no_row() -> None:
    docs = [[make_doc(0, exact_match=1.0, ungraded=0.0)]]
    assert compare_metrics(docs, None, "exact_match,none", frozenset(), lambda _: None) == ()
    docs = [[make_doc(0, exact_match=1.0, by_subtask=("a", 1.0), f1=None)]]
    (metric,) = compare_metrics(docs, None, "exact_match,none", frozenset(), lambda _: None)
    assert (metric.name, metric.drop) == ("exact_match,none", None)


@given(st.lists(st.tuples(COUNTS, COUNTS), min_size=1))
def test_losses_average_to_the_difference_of_two_ratios(docs: list[Any]) -> None:
    baseline, candidate = [list(side) for side in zip(*docs, strict=True)]
    totals = [(sum(y for y, _ in side), sum(m for _, m in side)) for side in (baseline, candidate)]
    if not all(m for _, m in totals):
        with pytest.raises(ValueError, match="nothing to divide by"):
            stats.ratio_losses(baseline, candidate)
        return
    losses = stats.ratio_losses(baseline, candidate)
    (y, m), (z, k) = totals
    assert stats.mean(losses) == pytest.approx(y / m - z / k)
    assert all(loss == 0 for loss, (a, b) in zip(losses, docs, strict=True) if a == b)


@pytest.mark.parametrize(
    ("metric", "value", "is_share"),
    [
        ("exact_match", 65.0, True),
        ("word_perplexity", 12.5, False),
        ("bleu", 41.0, False),
    ],
)
def test_a_recorded_number_is_a_share_if_its_metric_has_bounds(metric: str, value: float, is_share: bool) -> None:
    assert is_fraction(published(value, metric=f"{metric},none")) is is_share
