"""What differs from run to run: how it widens an interval, and what a mean over tasks has of it."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_eval import stats
from meta_eval.stats.intervals import t_quantile
from meta_eval.stats.run_effect import RunSpread, mean_spread

THREE = RunSpread((0.52, 0.50, 0.48), (0.50, 0.47, 0.50), 1e-5)
TWO = RunSpread((0.72, 0.70), (0.71, 0.69), 1e-5)
ONE_OF_THE_BASELINE = RunSpread((0.72,), (0.71, 0.69, 0.70), 1e-5)


def test_a_mean_counts_the_runs_that_all_tasks_have() -> None:
    mean = mean_spread([THREE, TWO], [0.5, 0.5])
    assert mean is not None
    assert mean.baseline == pytest.approx((0.62, 0.60))
    assert mean.candidate == pytest.approx((0.605, 0.58))
    assert mean.freedom == 2
    assert mean.widen(1.96, 4.3) > 0


def test_a_side_with_one_run_leaves_the_other_sides() -> None:
    mean = mean_spread([THREE, ONE_OF_THE_BASELINE], [0.5, 0.5])
    assert mean is not None
    assert (len(mean.baseline), len(mean.candidate), mean.freedom) == (1, 3, 2)


def test_a_task_without_repeats_leaves_no_spread_of_the_mean_but_with_no_weight() -> None:
    assert mean_spread([THREE, None], [0.5, 0.5]) is None
    assert mean_spread([THREE, None], [1.0, 0.0]) == THREE


def drop_of_runs(baseline: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]]) -> stats.Drop:
    drop = stats.paired_drop(stats.average_runs(baseline), stats.average_runs(candidate))
    return replace(drop, runs=stats.measure_runs(baseline, candidate))


def run_with(score: int, *, of: int = 2000) -> list[float]:
    """A run with so many right docs, the first ones."""
    return [float(doc < score) for doc in range(of)]


@pytest.mark.parametrize("flips", [([71, 80, 89], [70, 80, 90]), ([20, 150, 70], [10, 60, 160])])
def test_runs_of_one_model_have_students_interval_of_the_means_of_runs(flips: tuple[list[int], list[int]]) -> None:
    starts = itertools.count(0, 200)
    drop = drop_of_runs(
        *(
            [
                [float(not 0 <= doc - start < lost) for doc in range(2000)]
                for lost, start in zip(side, starts, strict=False)
            ]
            for side in flips
        )
    )
    variance = sum(statistics.variance([lost / 2000 for lost in side]) for side in flips) / 2
    interval, width = drop.interval(), 2 * t_quantile(0.95, 4) * math.sqrt(variance * 2 / 3)
    assert width <= interval.upper - interval.lower <= 1.04 * width


def test_equal_runs_leave_the_interval_of_the_docs() -> None:
    drop = drop_of_runs([run_with(900)] * 2, [run_with(850)] * 2)
    assert drop.interval() == replace(drop, runs=None).interval()
    assert drop.p_value() == replace(drop, runs=None).p_value() < 0.001


scores_of_runs = st.lists(st.integers(0, 60), min_size=1, max_size=4)


@given(baseline=scores_of_runs, candidate=scores_of_runs, level=st.floats(0.5, 0.999))
def test_runs_never_narrow_an_interval_and_its_p_value_agrees(
    baseline: list[int], candidate: list[int], level: float
) -> None:
    drop = drop_of_runs([run_with(score, of=60) for score in baseline], [run_with(score, of=60) for score in candidate])
    interval, of_docs = drop.interval(level), replace(drop, runs=None).interval(level)
    assert interval.lower <= of_docs.lower <= of_docs.upper <= interval.upper
    for end in (interval.lower, interval.upper):
        if -1 < end < 1:
            assert drop.p_value(end) == pytest.approx(1 - level, abs=1e-6)
