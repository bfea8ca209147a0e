"""Says what a second run of a model adds to a SHIP: how often a loss of a small task ships without and with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist

from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import ALPHA, CAP_IDENTICAL_SHARE, NAMED, NOISE_IDENTICAL_SHARE, OFTEN_SHIPPED
from meta_eval.judge.caps import compute_task_caps, own_cap
from meta_eval.judge.loss_limits import ExpectedLosses, expect_losses, limit_losses
from meta_eval.judge.task_drop import MeasuredFlips, TaskDrop
from meta_eval.stats import Drop
from meta_eval.stats.identical import chance_within, of_counts
from meta_eval.stats.intervals import normal_quantile

# In tasks in which the cap is more docs, a loss halfway to it is always found.
_MANY_LOST = 200


def advise_second_run(tasks: Sequence[TaskDrop], margin: float, cap: float) -> list[str]:
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
    with_second = [_add_measured(task, each) for task, each in zip(tasks, expected, strict=True)]
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
            chance_within(_lose(tasks[place].drop, each, loss), caps[place]),
            _stay_within(now[place], each.mean + loss),
            _fail_to_stand_out(loss, 2 * each.mean + loss, len(tasks)),
        )
        ships_then = min(ships, _stay_within(then[place], each.mean + loss))
        if ships >= OFTEN_SHIPPED and ships_then <= ships / 2:
            named.append(
                f"{tasks[place].task} {100 * losses[place]:.1f} points: {100 * ships:.0f} and {100 * ships_then:.0f} %"
            )
    if not named:
        return []
    return [
        "a second run of one side would find smaller losses (compare A1 A2 -- B; run --rerun). How often a loss ships, "
        f"and then: {join_names(named, NAMED)}"
    ]


def _add_measured(task: TaskDrop, expected: ExpectedLosses) -> TaskDrop:
    return replace(task, measured_flips=MeasuredFlips(2 * expected.mean / expected.docs, task.drop.docs))


def _lose(drop: Drop, expected: ExpectedLosses, loss: float) -> Drop:
    """The expected drop of a copy with these further losses."""
    return of_counts(drop, expected.mean + loss, expected.mean, 1 / expected.docs)


def _fail_to_stand_out(loss: float, flips: float, count: int) -> float:
    """The chance that a loss is not proven at Holm's first step among so many tasks, by the normal distribution."""
    return NormalDist().cdf(normal_quantile(1 - ALPHA / count) - loss / math.sqrt(flips))


def _stay_within(limit: float, mean: float) -> float:
    """The chance that a Poisson count of this mean does not exceed a limit."""
    from scipy.special import pdtr

    return float(pdtr(limit, mean))
