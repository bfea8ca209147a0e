"""What differs from run to run: when it is seen, and how it widens the interval of a task and of a mean."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marks import each

from meta_eval import stats
from meta_eval.stats.intervals import t_quantile

Runs = Sequence[Sequence[float]]


def drop_of_runs(baseline: Runs, candidate: Runs) -> tuple[stats.Drop, stats.RunSpread | None]:
    drop = stats.paired_drop(stats.average_runs(baseline), stats.average_runs(candidate))
    runs = stats.measure_runs(baseline, candidate)
    return (replace(drop, run_variance=runs.of_drop) if runs else drop), runs


def flipped(rng: np.random.Generator, docs: int, *, lost: float = 0.0) -> list[float]:
    """A run of a model that is always right but for 4 % of flips, and for what this run loses."""
    return (rng.random(docs) > 0.04 + lost).astype(float).tolist()


@each("sides", [(2, 1), (2, 2), (3, 3)])
def test_runs_that_differ_by_flips_alone_seldom_show_an_effect(sides: tuple[int, int]) -> None:
    rng = np.random.default_rng(4)
    seen = 0
    for _ in range(60):
        tasks = [[[flipped(rng, docs) for _ in range(count)] for count in sides] for docs in (200, 300)]
        effect = stats.measure_run_effect(stats.measure_runs(*task) for task in tasks)
        assert effect is not None and effect.freedom == 2 * (sum(sides) - 2)
        seen += effect.is_seen
    assert seen <= 8


def test_an_effect_of_every_run_is_seen_over_many_tasks_that_do_not_show_it_alone() -> None:
    rng = np.random.default_rng(5)
    tasks = [
        ([flipped(rng, 1000), flipped(rng, 1000, lost=0.02)], [flipped(rng, 1000)]) for _ in range(12)
    ]  # fmt: skip
    spreads = [stats.measure_runs(*task) for task in tasks]
    alone = [stats.measure_run_effect([spread]) for spread in spreads]
    together = stats.measure_run_effect(spreads)
    assert sum(effect.is_seen for effect in alone if effect) < 8
    assert together is not None and together.is_seen


def test_one_run_a_side_or_runs_without_a_flip_show_nothing() -> None:
    one = [1.0, 0.0, 1.0]
    assert stats.measure_runs([one], [one]) is None
    assert stats.measure_run_effect([None]) is None
    equal = stats.measure_run_effect([stats.measure_runs([one, one], [one])])
    assert equal is not None and not equal.is_seen


def test_docs_of_a_cluster_that_flip_together_are_no_effect_of_the_run() -> None:
    """A cluster of ten docs flips in one run: docs on their own would hardly do that."""
    runs = [[1.0] * 200, [0.0] * 10 + [1.0] * 190]
    apart = stats.measure_runs(runs, [runs[0]])
    together = stats.measure_runs(runs, [runs[0]], clusters=[place // 10 for place in range(200)])
    assert apart is not None and together is not None
    assert apart.squares / apart.noise == pytest.approx(10)
    assert together.squares / together.noise == pytest.approx(1)


def test_runs_of_one_model_have_students_interval_of_the_ratio() -> None:
    """Where flips are all that differs between docs, the reach is that of the variance between runs."""
    losses = ([71, 80, 89], [70, 80, 90])
    starts = itertools.count(0, 200)
    sides = [
        [[float(not 0 <= doc - start < lost) for doc in range(2000)] for lost, start in zip(side, starts, strict=False)]
        for side in losses
    ]
    drop, runs = drop_of_runs(*sides)
    assert runs is not None
    effect = stats.RunEffect(30.0, 8)
    interval = replace(drop, run_effect=effect).interval()
    width = 2 * t_quantile(0.95, 8) * math.sqrt(30 * runs.noise * 2 / 3)
    assert width <= interval.upper - interval.lower <= 1.04 * width


def test_a_mean_has_the_effect_of_all_its_tasks() -> None:
    effect = stats.RunEffect(4.0, 6)
    rng = np.random.default_rng(6)
    drops = []
    for docs in (300, 2000):
        drop, _ = drop_of_runs([flipped(rng, docs), flipped(rng, docs)], [flipped(rng, docs)])
        drops.append(replace(drop, run_effect=effect))
    mean = stats.mean_drop(drops, [0.25, 0.75])
    assert mean.run_variance == pytest.approx(drops[0].run_variance / 16 + drops[1].run_variance * 9 / 16)
    assert mean.has_run_effect
    without = replace(mean, run_effect=None).interval()
    assert mean.interval().lower < without.lower < without.upper < mean.interval().upper


scores_of_runs = st.lists(st.integers(0, 60), min_size=1, max_size=4)


@given(
    baseline=scores_of_runs, candidate=scores_of_runs, level=st.floats(0.5, 0.999), ratio=st.floats(0, 30),
    freedom=st.integers(1, 50),
)  # fmt: skip
def test_an_effect_never_narrows_an_interval_and_its_p_value_agrees(
    baseline: list[int], candidate: list[int], level: float, ratio: float, freedom: int
) -> None:
    sides = [[[float(doc < score) for doc in range(60)] for score in side] for side in (baseline, candidate)]
    alone, _ = drop_of_runs(*sides)
    drop = replace(alone, run_effect=stats.RunEffect(ratio, freedom))
    interval, of_docs = drop.interval(level), alone.interval(level)
    assert interval.lower <= of_docs.lower <= of_docs.upper <= interval.upper
    for end in (interval.lower, interval.upper):
        if -1 < end < 1:
            assert drop.p_value(end) == pytest.approx(1 - level, abs=1e-6)
