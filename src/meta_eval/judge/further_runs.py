"""What further runs would show: those that would settle an undecided question, and a second run of one side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import (
    ALPHA,
    CAP_IDENTICAL_SHARE,
    LEVEL,
    MAX_PLANNED_RUNS,
    MAX_TIMES_DOCS,
    NAMED,
    NOISE_IDENTICAL_SHARE,
    OFTEN_SHIPPED,
    POWER,
    ROUNDING,
)
from meta_eval.judge.caps import compute_task_caps, own_cap
from meta_eval.judge.decision import RepeatPlan
from meta_eval.judge.loss_limits import expect_losses, limit_losses
from meta_eval.judge.pair import MeasuredFlips, TaskPair
from meta_eval.stats import Drop
from meta_eval.stats.identical import chance_within, of_counts
from meta_eval.stats.intervals import normal_quantile, t_quantile

# In tasks in which the cap is more docs, a loss halfway to it is always found.
_MANY_LOST = 200


@dataclass(frozen=True, slots=True)
class _VarianceShare:
    """A task's part in the variance of the mean: ``docs``, which repeats do not change, and the ``noise`` of a run."""

    docs: float
    noise: float
    had: int
    baseline_had: int | None

    def at(self, runs: int) -> float:
        """The variance with so many runs in all, also of a repeatable baseline."""
        candidate = self.noise / max(runs, self.had)
        baseline = self.noise / max(runs, self.baseline_had) if self.baseline_had is not None else 0.0
        return self.docs + candidate + baseline


def _find_variance_share(pair: TaskPair, weight: float) -> _VarianceShare:
    drop = pair.drop
    inverse_runs = 1 / pair.repeats + 1 / (pair.baseline_repeats or 1)
    # Without flips there is no engine noise. Otherwise at most all variance is noise of both runs.
    ratio = drop.run_effect.ratio if drop.run_effect else 1.0
    variance = drop.seen_variance + (ratio - 1) * drop.run_variance
    most = variance / inverse_runs if drop.flipped else 0.0
    noise = most if pair.runs is None else min(ratio * pair.runs.noise, most)
    reducible = noise * (inverse_runs if pair.baseline_repeats is not None else 1 / pair.repeats)
    return _VarianceShare(
        weight**2 * max(0.0, variance - reducible), weight**2 * noise, pair.repeats, pair.baseline_repeats
    )


def plan_repeats(tasks: Sequence[TaskPair], weights: Sequence[float], drop: Drop, margin: float) -> RepeatPlan | None:
    """Plan the repeats that would settle a mean drop; None if repeats cannot narrow it."""
    if not drop.freedom:
        return None
    upper, supposed = drop.interval().upper, max(0.0, drop.value)
    reach = t_quantile(LEVEL, drop.freedom) + NormalDist().inv_cdf(POWER)
    variances = [_find_variance_share(pair, weight) for pair, weight in zip(tasks, weights, strict=True)]
    had = [min(pair.repeats, pair.baseline_repeats or pair.repeats) for pair in tasks]
    runs = list(had)

    def variance(runs: Sequence[int]) -> float:
        return math.fsum(part.at(count) for part, count in zip(variances, runs, strict=True))

    def shown(runs: Sequence[int]) -> bool:
        return supposed + reach * math.sqrt(variance(runs)) < margin

    if shown([max(MAX_PLANNED_RUNS, count) for count in had]):
        while not shown(runs):
            # The task with the largest reduction of variance per doc in its next run.
            gains = [
                (part.at(count) - part.at(count + 1)) / pair.drop.docs if count < MAX_PLANNED_RUNS else 0.0
                for part, count, pair in zip(variances, runs, tasks, strict=True)
            ]
            runs[max(range(len(gains)), key=gains.__getitem__)] += 1
    # A drop that is the margin but for rounding would take any number of docs.
    times = variance(had) * (reach / (margin - supposed)) ** 2 if margin - supposed > ROUNDING else math.inf
    return RepeatPlan(
        runs=tuple((pair.name, count) for pair, count, done in zip(tasks, runs, had, strict=True) if count > done),
        provable_margin=upper,
        best_possible_margin=min(upper, supposed + reach * math.sqrt(math.fsum(part.docs for part in variances))),
        supposed=supposed,
        times_docs=times if 1 < times <= MAX_TIMES_DOCS else None,
        measured=all(pair.runs is not None for pair in tasks),
    )


def advise_second_run(tasks: Sequence[TaskPair], margin: float, cap: float) -> list[str]:
    """Name the tasks of which a loss halfway between margin and cap often ships, and how often it would with a second
    run of a model; empty if there is none.

    Args:
        tasks: The tasks of the decision.
        margin, cap: Of tasks without their own.
    """
    open_tasks = [place for place, task in enumerate(tasks) if task.drop.paired and not task.measured_flips]
    if len(open_tasks) < len(tasks) or all(cap / task.drop.grain > _MANY_LOST for task in tasks):
        return []
    caps = compute_task_caps(tasks, margin, cap)
    expected = expect_losses(tasks)
    with_second = [
        replace(task, measured_flips=MeasuredFlips(2 * each.mean / each.docs, task.drop.docs))
        for task, each in zip(tasks, expected, strict=True)
    ]
    measured = expect_losses(with_second, use_measured=True)
    margins = [task.margin or margin for task in tasks]
    own_caps = [own_cap(task, margin, cap) for task in tasks]
    losses = [(own + most) / 2 for own, most in zip(margins, own_caps, strict=True)]
    now = limit_losses(expected, margins, own_caps, CAP_IDENTICAL_SHARE)
    then = limit_losses(measured, [own / 2 for own in margins], losses, NOISE_IDENTICAL_SHARE)
    named = []
    for place in open_tasks:
        each, loss = expected[place], losses[place] * expected[place].docs
        ships = min(
            chance_within(of_counts(tasks[place].drop, each.mean + loss, each.mean, 1 / each.docs), caps[place]),
            _stay_within(now[place], each.mean + loss),
            _fail_to_stand_out(loss, 2 * each.mean + loss, len(tasks)),
        )
        ships_then = min(ships, _stay_within(then[place], each.mean + loss))
        if ships >= OFTEN_SHIPPED and ships_then <= ships / 2:
            named.append(
                f"a loss of {100 * losses[place]:.1f} points in {tasks[place].name} ships in {100 * ships:.0f} % of "
                f"runs now, and in {100 * ships_then:.0f} % with it"
            )
    if not named:
        return []
    return [
        "a second run of A or B would find smaller losses (compare A1 A2 -- B; run --rerun): "
        f"{join_names(named, NAMED)}"
    ]


def _fail_to_stand_out(loss: float, flips: float, count: int) -> float:
    """The chance that a loss is not proven at Holm's first step among so many tasks, by the normal distribution."""
    return NormalDist().cdf(normal_quantile(1 - ALPHA / count) - loss / math.sqrt(flips))


def _stay_within(limit: float, mean: float) -> float:
    """The chance that a Poisson count of this mean does not exceed a limit."""
    from scipy.special import pdtr

    return float(pdtr(limit, mean))
