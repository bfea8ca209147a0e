"""The cap: the largest loss of a task or subtask, whatever the mean is. `meta_eval.judging.decide` has the rule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from meta_eval import stats
from meta_eval.boundary.pack_names import join_names
from meta_eval.judging.task_drop import TaskDrop
from meta_eval.stats import Drop
from meta_eval.stats.identical import worst_end
from meta_eval.thresholds import ALPHA, CAP_IDENTICAL, CAP_LEEWAY, CAP_MIN_DOCS, NAMED


def correct_beyond(drops: Sequence[Drop], limits: Sequence[float]) -> list[float]:
    """For each drop, the Holm-corrected two-sided p value of a true drop equal to its limit; 1 if it is not below 5 %
    before correction."""
    p_values = [
        drop.p_value(limit) if drop.interval().lower > limit else 1.0 for drop, limit in zip(drops, limits, strict=True)
    ]
    return stats.correct_by_holm(p_values)


def compute_allowed_losses(
    drops: Sequence[Drop], weights: Sequence[float], margins: Sequence[float], mean: Drop
) -> list[float]:
    """The loss that each task must exceed to stand out: the mean drop of the others, from 0 to the task's margin.

    Args:
        drops: The drop of each task.
        weights: The weight of each task in ``mean``.
        margins: The margins of tasks, then of groups; a group stands out from ``mean``.
        mean: The mean drop.
    """
    others = [
        (mean.value - weight * drop.value) / (1 - weight) if weight < 1 else 0.0
        for drop, weight in zip(drops, weights, strict=True)
    ]
    others += [mean.value] * (len(margins) - len(others))
    return [_from_none_to(limit, other) for limit, other in zip(margins, others, strict=True)]


def _from_none_to(margin: float, drop: float) -> float:
    return min(margin, max(0.0, drop))


def compute_task_caps(tasks: Sequence[TaskDrop], margin: float, cap: float) -> list[float]:
    """The cap of each task: its own or ``cap``. With many flips it is at least the loss that an identical copy stays
    under."""
    return [_widen_cap(task_drop.drop, _own_cap(task_drop, margin, cap)) for task_drop in tasks]


def _widen_cap(drop: Drop, cap: float) -> float:
    # All observed flips, and another doc.
    identical = worst_end(drop, min(1.0, drop.lost + drop.won + drop.grain), CAP_IDENTICAL)
    few = 1 / drop.grain < CAP_MIN_DOCS
    return max(cap, identical if few else min(identical, cap * (1 + CAP_LEEWAY)))


def describe_subtask_losses(tasks: Sequence[TaskDrop], margin: float, cap: float) -> list[str]:
    """The reasons against SHIP in subtasks: those that are worse, and those with the worse end at the cap or beyond."""
    parts = [(task_drop, name, drop) for task_drop in tasks for name, drop in task_drop.subtasks.items()]
    allowed = [_from_none_to(task_drop.margin or margin, task_drop.drop.value) for task_drop, _, _ in parts]
    corrected = correct_beyond([drop for _, _, drop in parts], allowed)
    flips = {task_drop.task: _pooled_flips(task_drop.subtasks) for task_drop in tasks if task_drop.subtasks}
    worse, open_ends = [], []
    for (task_drop, name, drop), p in zip(parts, corrected, strict=True):
        end, limit = drop.interval().upper, _own_cap(task_drop, margin, cap)
        if drop.value > (task_drop.margin or margin) and p < ALPHA:
            worse.append(f"{task_drop.task}, {name} by {format_points(drop.value)}")
        elif end >= limit:
            limit = max(limit, worst_end(drop, flips[task_drop.task], CAP_IDENTICAL / len(parts)))
            open_ends += [(f"{task_drop.task}, {name}", end, limit)] if end >= limit else []
    return [*([f"worse: {'; '.join(worse)}"] if worse else []), *explain_open_ends(open_ends)]


def explain_open_ends(ends: Sequence[tuple[str, float, float]]) -> list[str]:
    """What forbids SHIP in tasks that may have lost more than their cap, from names, worse ends and caps; empty if none
    may."""
    ends = sorted(ends, key=lambda entry: -entry[1])
    blind = [name for name, _, cap in ends if cap >= 1]
    open_ends = [f"{name} {100 * end:.1f} (cap {100 * cap:.1f})" for name, end, cap in ends if cap < 1]
    return [
        *([f"too few docs or clusters to exclude any drop: {join_names(blind, NAMED)}"] if blind else []),
        *([f"drops beyond the cap are not excluded, in points: {join_names(open_ends, NAMED)}"] if open_ends else []),
    ]


def note_low_caps(tasks: Sequence[TaskDrop], margin: float, cap: float | None) -> list[str]:
    """A note on caps that the user set below the margin, which then counts; empty if there are none.

    Args:
        tasks: The tasks, each with its own margin and cap.
        margin: The margin of the others.
        cap: The cap of the others; None if the user set none.
    """
    low = [task.task for task in tasks if (limit := task.cap or cap) and limit < (task.margin or margin)]
    return [f"the cap of {join_names(low, NAMED)} is below the margin, so the margin counts"] if low else []


def _own_cap(task_drop: TaskDrop, margin: float, cap: float) -> float:
    """The configured cap, but at least the margin: a loss within the margin is allowed."""
    return max(task_drop.cap or cap, task_drop.margin or margin)


def _pooled_flips(subtasks: Mapping[str, Drop]) -> float:
    """The share of a task's docs that an identical copy would flip: twice the gains, and another doc.

    A worse copy has losses in addition to its flips, so only its gains measure the flips.
    """
    docs = [1 / drop.grain for drop in subtasks.values()]
    won = math.fsum(count * drop.won for count, drop in zip(docs, subtasks.values(), strict=True))
    return min(1.0, (2 * won + 1) / math.fsum(docs))


def format_points(share: float) -> str:
    """A share in words: ``0.6 points``."""
    value = 100 * share
    return f"{value:.1f} points" if abs(value) >= 0.1 else f"{value:.2f} points"
