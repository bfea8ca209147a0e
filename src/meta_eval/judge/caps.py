"""The cap: the largest loss of a task or subtask, whatever the mean is. `meta_eval.judge.decide` has the rule."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from meta_eval import stats
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import (
    ALPHA,
    CAP_IDENTICAL,
    CAP_IDENTICAL_SHARE,
    CAP_LEEWAY,
    CAP_MIN_DOCS,
    CAP_NEVER_REACHED,
    MEAN_TEST_WEIGHT,
    NAMED,
    NOISE_IDENTICAL_SHARE,
)
from meta_eval.judge.loss_limits import ExpectedLosses, expect_losses, limit_losses
from meta_eval.judge.pair import TaskPair
from meta_eval.stats import Drop
from meta_eval.stats.identical import chance_within, flip_unit, of_counts, worst_end


def find_worse(drops: Sequence[Drop], weights: Sequence[float], margins: Sequence[float], mean: Drop) -> list[float]:
    """For each drop, the Holm-corrected two-sided p value of a task that does not stand out; 1 if it does not exceed
    its margin.

    A task stands out if its drop is proven larger than its margin. It also does if it has lost, and has lost more than
    the mean of the others: both are proven, with the uncertainty of that mean.

    Args:
        drops: The drop of each task, then of groups; a group is compared with ``mean``.
        weights: The weight of each task in ``mean``.
        margins: The margins of tasks, then of groups.
        mean: The mean drop.
    """
    tasks = drops[: len(weights)]
    p_values = []
    for place, (drop, margin) in enumerate(zip(drops, margins, strict=True)):
        if drop.value <= margin:
            p_values.append(1.0)
            continue
        others: Drop | None = mean
        if place < len(tasks):
            rest = [(other, weights[at]) for at, other in enumerate(tasks) if at != place and weights[at] > 0]
            total = math.fsum(weight for _, weight in rest)
            others = (
                stats.mean_drop([other for other, _ in rest], [weight / total for _, weight in rest]) if rest else None
            )
        p_values.append(min(drop.p_value(margin), _stand_out(drop, others)))
    return stats.correct_by_holm(p_values)


def _stand_out(drop: Drop, others: Drop | None) -> float:
    """The p value of no loss, or of no larger one than the others' mean."""
    lost = drop.p_value()
    if others is None:
        return lost
    difference = stats.mean_drop([drop, others.invert()], [1.0, 1.0])
    return max(lost, difference.p_value() if difference.value > 0 else 1.0)


def prove_beyond(mean: Drop, margin: float, drops: Sequence[Drop], margins: Sequence[float]) -> list[bool]:
    """Whether the drops of the mean and of each task are proven larger than their margins, in this order.

    One-sided at 5 % over all of them, by Holm's procedure with weights (Holm 1979, section 4): the mean counts
    `MEAN_TEST_WEIGHT` of a task. So all true drops within their margins give a false proof in at most 5 %. The 95 %
    interval must exclude the margin too.
    """
    pairs = [(mean, margin), *zip(drops, margins, strict=True)]
    weights = [MEAN_TEST_WEIGHT, *(1.0 for _ in drops)]
    p_values = [drop.p_value(limit) / 2 if drop.interval().lower > limit else 1.0 for drop, limit in pairs]
    order = sorted(range(len(pairs)), key=lambda place: p_values[place] / weights[place])
    proven, left = [False] * len(pairs), math.fsum(weights)
    for place in order:
        if p_values[place] > ALPHA * weights[place] / left:
            break
        proven[place] = True
        left -= weights[place]
    return proven


def compute_task_caps(tasks: Sequence[TaskPair], margin: float, cap: float) -> list[float]:
    """The cap of each task: its own or ``cap``.

    With many flips it is wider by up to `CAP_LEEWAY`, so that an identical copy stays under it. Fewer than
    `CAP_MIN_DOCS` docs cannot keep a cap: then it is the worse end of the largest loss that is more likely of an
    identical copy than of a copy that lost the cap (`meta_eval.judge.loss_limits`).
    """
    caps = [own_cap(pair, margin, cap) for pair in tasks]
    few = [place for place, task in enumerate(tasks) if 1 / task.drop.grain < CAP_MIN_DOCS]
    widened = [
        own if place in few else _widen_cap(pair.drop, own, CAP_IDENTICAL / len(tasks))
        for place, (pair, own) in enumerate(zip(tasks, caps, strict=True))
    ]
    if not any(tasks[place].drop.interval().upper >= caps[place] for place in few):
        return widened
    expected = expect_losses(tasks)
    # What other tasks take of the share of identical copies that may be stopped.
    left = CAP_IDENTICAL_SHARE - math.fsum(
        _reach_cap(pair.drop, expected[place], widened[place]) for place, pair in enumerate(tasks) if place not in few
    )
    margins = [task.margin or margin for task in tasks]
    limits = limit_losses(
        [expected[place] for place in few],
        [min(margins[place], caps[place] / 2) for place in few],
        [caps[place] for place in few],
        max(CAP_IDENTICAL / 2, left),
    )
    for place, limit in zip(few, limits, strict=True):
        widened[place] = max(caps[place], _end_of_limit(tasks[place], limit))
    return widened


def _end_of_limit(task: TaskPair, limit: float) -> float:
    """The worse end of the largest loss within a limit: above the worse end of the drop exactly if the losses of single
    runs are, whose flips the limit counts."""
    single, upper = task.newest_drop, task.drop.interval().upper
    unit = flip_unit(single)
    end = of_counts(single, limit + 0.5, single.won / unit, unit).interval().upper
    is_within = single.lost / unit < limit + 0.5
    return min(1.0, max(end, math.nextafter(upper, 2))) if is_within else min(end, upper)


def _widen_cap(drop: Drop, cap: float, chance: float) -> float:
    # All observed flips, and another doc.
    identical = worst_end(drop, min(1.0, drop.lost + drop.won + drop.grain), chance)
    return max(cap, min(identical, cap * (1 + CAP_LEEWAY)))


def _reach_cap(drop: Drop, expected: ExpectedLosses, cap: float) -> float:
    """How often an identical copy reaches the cap."""
    if drop.grain < CAP_NEVER_REACHED * cap or not drop.freedom:
        return 0.0
    unit = 1 / expected.docs
    return 1 - chance_within(of_counts(drop, expected.mean, expected.mean, unit), cap)


def find_excess_losses(tasks: Sequence[TaskPair], margin: float, cap: float, named: Collection[str] = ()) -> list[str]:
    """The reasons against SHIP if tasks lost more than an identical copy loses by chance; empty if none did.

    The losses of a task must be more likely of a copy that lost the margin than of a copy that lost the cap. Where two
    answers of a model measured the noise, a smaller loss is found: half the margin is set against what is halfway
    between margin and cap. Each of both rules stops at most its share of identical copies.

    Args:
        tasks: The tasks.
        margin, cap: Of tasks without their own.
        named: The tasks that another reason names already.
    """
    paired = [task for task in tasks if task.drop.paired]
    caps = {task.name: own_cap(task, margin, cap) for task in paired}
    # In tasks with few docs the cap itself is set by this rule.
    others = [task for task in paired if 1 / task.drop.grain >= CAP_MIN_DOCS]
    measured = [task for task in paired if task.measured_flips]
    found = _find_beyond(paired, others, [(task.margin or margin, caps[task.name]) for task in others], CAP_IDENTICAL)
    limits = [((own := task.margin or margin) / 2, (own + caps[task.name]) / 2) for task in measured]
    found_by_noise = _find_beyond(paired, measured, limits, NOISE_IDENTICAL_SHARE, use_measured=True)
    reasons = []
    for what, beyond in (("chance explains", found), ("the measured noise explains", found_by_noise)):
        if left := [f"{task.name} {100 * task.drop.value:.1f}" for task in beyond if task.name not in named]:
            reasons.append(f"points lost beyond what {what}: {join_names(left, NAMED)}")
    return reasons


def _find_beyond(
    tasks: Sequence[TaskPair],
    judged: Sequence[TaskPair],
    limits: Sequence[tuple[float, float]],
    chance: float,
    *,
    use_measured: bool = False,
) -> list[TaskPair]:
    """The judged tasks with more losses than are likely of an identical copy."""
    # A limit is at least the smaller drop, so fewer losses need no search.
    if all(task.newest_drop.lost <= least for task, (least, _) in zip(judged, limits, strict=True)):
        return []
    by_name = dict(zip([task.name for task in tasks], expect_losses(tasks, use_measured=use_measured), strict=True))
    expected = [by_name[task.name] for task in judged]
    most = limit_losses(expected, [least for least, _ in limits], [high for _, high in limits], chance)
    return [
        task
        for task, each, limit in zip(judged, expected, most, strict=True)
        if task.newest_drop.lost * each.docs >= limit + 0.5
    ]


def describe_subtask_losses(tasks: Sequence[TaskPair], margin: float, cap: float) -> list[str]:
    """The reasons against SHIP in subtasks: those that are worse, and those with the worse end at the cap or beyond."""
    parts = [(pair, name, drop) for pair in tasks for name, drop in pair.subtasks.items()]
    allowed = [min(pair.margin or margin, max(0.0, pair.drop.value)) for pair, _, _ in parts]
    corrected = _correct_beyond([drop for _, _, drop in parts], allowed)
    flips = {pair.name: _pooled_flips(pair.subtasks) for pair in tasks if pair.subtasks}
    worse, open_ends = [], []
    for (pair, name, drop), p in zip(parts, corrected, strict=True):
        end, limit = drop.interval().upper, own_cap(pair, margin, cap)
        if drop.value > (pair.margin or margin) and p < ALPHA:
            worse.append(f"{pair.name}, {_shorten(name, pair.subtasks)} by {format_drop_points(drop.value)}")
        elif end >= limit:
            limit = max(limit, worst_end(drop, flips[pair.name], CAP_IDENTICAL / len(parts)))
            short = _shorten(name, pair.subtasks)
            open_ends += [(f"{pair.name}, {short}", end, limit)] if end >= limit else []
    return [*([f"worse: {'; '.join(worse)}"] if worse else []), *explain_open_ends(open_ends)]


def _correct_beyond(drops: Sequence[Drop], limits: Sequence[float]) -> list[float]:
    """For each drop, the Holm-corrected two-sided p value of a true drop equal to its limit; 1 if it is not below 5 %
    before correction."""
    p_values = [
        drop.p_value(limit) if drop.interval().lower > limit else 1.0 for drop, limit in zip(drops, limits, strict=True)
    ]
    return stats.correct_by_holm(p_values)


def explain_open_ends(ends: Sequence[tuple[str, float, float]]) -> list[str]:
    """What forbids SHIP in tasks that may have lost more than their cap, from names, worse ends and caps; empty if none
    may."""
    ends = sorted(ends, key=lambda entry: -entry[1])
    blind = [name for name, _, cap in ends if cap >= 1]
    open_ends = [f"{100 * end:.1f} points in {name} (cap {100 * cap:.1f})" for name, end, cap in ends if cap < 1]
    return [
        *([f"too few docs to rule out any loss: {_join_by_task(blind)}"] if blind else []),
        *([f"not ruled out: a loss beyond the cap, up to {join_names(open_ends, NAMED)}"] if open_ends else []),
    ]


def _join_by_task(names: Sequence[str]) -> str:
    """Name the first few tasks, each with its subtasks, and count the rest: ``a: x, y; b and 3 more``."""
    by_task: dict[str, list[str]] = {}
    for name in names[:NAMED]:
        task, _, subtask = name.partition(", ")
        by_task.setdefault(task, []).extend([subtask] if subtask else [])
    shown = [f"{task}: {', '.join(subtasks)}" if subtasks else task for task, subtasks in by_task.items()]
    separator = "; " if any(by_task.values()) else ", "
    return separator.join(shown) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _shorten(subtask: str, others: Iterable[str]) -> str:
    """A subtask without the prefix that all subtasks of its task have: ``algebra`` for ``math.algebra``."""
    prefix = subtask.rpartition(".")[0]
    return subtask[len(prefix) + 1 :] if prefix and all(o.rpartition(".")[0] == prefix for o in others) else subtask


def note_low_caps(tasks: Sequence[TaskPair], margin: float, cap: float | None) -> list[str]:
    """A note on caps that the user set below the margin, which then counts; empty if there are none.

    Args:
        tasks: The tasks, each with its own margin and cap.
        margin: The margin of the others.
        cap: The cap of the others; None if the user set none.
    """
    low = [task.name for task in tasks if (limit := task.cap or cap) and limit < (task.margin or margin)]
    return [f"the cap of {join_names(low, NAMED)} is below the margin, so the margin counts"] if low else []


def own_cap(pair: TaskPair, margin: float, cap: float) -> float:
    """The configured cap, but at least the margin: a loss within the margin is allowed."""
    return max(pair.cap or cap, pair.margin or margin)


def _pooled_flips(subtasks: Mapping[str, Drop]) -> float:
    """The share of a task's docs that an identical copy would flip: twice the gains, and another doc.

    A worse copy has losses in addition to its flips, so only its gains measure the flips.
    """
    docs = [1 / drop.grain for drop in subtasks.values()]
    won = math.fsum(count * drop.won for count, drop in zip(docs, subtasks.values(), strict=True))
    return min(1.0, (2 * won + 1) / math.fsum(docs))


def format_drop_points(share: float) -> str:
    """A share in words: ``0.6 points``."""
    value = 100 * share
    return f"{value:.1f} points" if abs(value) >= 0.1 else f"{value:.2f} points"
