"""What differs from run to run, in a mean over tasks."""

from __future__ import annotations

import pytest

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
    assert mean.variance > 0


def test_a_side_with_one_run_leaves_the_other_sides() -> None:
    mean = mean_spread([THREE, ONE_OF_THE_BASELINE], [0.5, 0.5])
    assert mean is not None
    assert (len(mean.baseline), len(mean.candidate), mean.freedom) == (1, 3, 2)


def test_a_task_without_repeats_leaves_no_spread_of_the_mean_but_with_no_weight() -> None:
    assert mean_spread([THREE, None], [0.5, 0.5]) is None
    assert mean_spread([THREE, None], [1.0, 0.0]) == THREE
