"""What is known of each task, and how much more would have to be known: what would settle a question that is open."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

from meta_eval.stats import Drop
from meta_eval.stats.intervals import t_quantile
from meta_eval.thresholds import LEVEL, MAX_PLANNED_RUNS, POWER


@dataclass(frozen=True, slots=True)
class TaskDrop:
    """What is known of one task.

    Attributes:
        task: Its name.
        drop: From `stats.paired_drop`, or `stats.unpaired_drop` where the baseline's answers are not known.
        margin: The largest drop of this task that is allowed; None for the decision's own.
        repeats: How many runs of the candidate ``drop`` averages.
        baseline_repeats: How many runs of the baseline it averages; None where the baseline cannot be run again, as
            Meta's recorded answers cannot.
        noise: The variance of one run's score that the engine brings, from `stats.run_noise`; None where nobody ran
            anything twice.
        cap: The drop that the worse end of this task's interval must stay under; None for the decision's own.
        subtasks: The drop of each subtask, where there are two or more.
    """

    task: str
    drop: Drop
    margin: float | None = None
    repeats: int = 1
    baseline_repeats: int | None = None
    noise: float | None = None
    cap: float | None = None
    subtasks: Mapping[str, Drop] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RepeatPlan:
    """What would settle a question that is open.

    All of it supposes that the true drop is the one that was estimated, or none where a gain was, and asks for an
    answer four times out of five (`POWER`). All docs of a benchmark were run, and there are no more: repeats
    average out the noise of engines, and never that of the choice of docs.

    Attributes:
        runs: How often each task would have to be run in all; a baseline that can be run again as often as well. Empty
            where `MAX_PLANNED_RUNS` runs of everything would not do.
        provable_margin: The smallest margin that these runs are within: the upper end of the interval. To choose
            it now is to choose it after the fact; it is for the next time.
        best_possible_margin: The smallest margin that any number of runs would show.
        measured: Whether the engine's noise was measured. If not, all flips are taken for it, which is the best case:
            then ``runs`` and ``best_possible_margin`` are the least that could do, and an A/A pair would tell.
    """

    runs: tuple[tuple[str, int], ...]
    provable_margin: float
    best_possible_margin: float
    measured: bool


@dataclass(frozen=True, slots=True)
class _Part:
    """What one task brings to the variance of the mean: ``docs``, which repeats leave, and each run's ``noise``."""

    docs: float
    noise: float
    had: int
    baseline_had: int | None

    def at(self, runs: int) -> float:
        """With so many runs in all, of the baseline too where it can be run again."""
        candidate = self.noise / max(runs, self.had)
        baseline = self.noise / max(runs, self.baseline_had) if self.baseline_had is not None else 0.0
        return self.docs + candidate + baseline


def _part(evidence: TaskDrop, weight: float) -> _Part:
    drop = evidence.drop
    shares = 1 / evidence.repeats + 1 / (evidence.baseline_repeats or 1)
    # Without a flip nothing is the engine's. Else at most all is: the runs of both have its noise, and nothing else.
    variance = drop.seen_variance
    most = variance / shares if drop.flipped else 0.0
    noise = most if evidence.noise is None else min(evidence.noise, most)
    reducible = noise * (shares if evidence.baseline_repeats is not None else 1 / evidence.repeats)
    return _Part(
        weight**2 * max(0.0, variance - reducible), weight**2 * noise, evidence.repeats, evidence.baseline_repeats
    )


def plan_repeats(tasks: Sequence[TaskDrop], weights: Sequence[float], drop: Drop, margin: float) -> RepeatPlan | None:
    """What would settle an open question on a mean drop; None where it has no spread that repeats could narrow."""
    if not drop.freedom:
        return None
    upper, supposed = drop.interval().upper, max(0.0, drop.value)
    reach = t_quantile(LEVEL, drop.freedom) + NormalDist().inv_cdf(POWER)
    parts = [_part(evidence, weight) for evidence, weight in zip(tasks, weights, strict=True)]
    had = [min(evidence.repeats, evidence.baseline_repeats or evidence.repeats) for evidence in tasks]
    runs = list(had)

    def shown(runs: Sequence[int]) -> bool:
        variance = math.fsum(part.at(count) for part, count in zip(parts, runs, strict=True))
        return supposed + reach * math.sqrt(variance) < margin

    if shown([max(MAX_PLANNED_RUNS, count) for count in had]):
        while not shown(runs):
            # The task whose next run takes most variance away for each doc that it asks.
            gains = [
                (part.at(count) - part.at(count + 1)) / evidence.drop.docs if count < MAX_PLANNED_RUNS else 0.0
                for part, count, evidence in zip(parts, runs, tasks, strict=True)
            ]
            runs[max(range(len(gains)), key=gains.__getitem__)] += 1
    return RepeatPlan(
        runs=tuple(
            (evidence.task, count) for evidence, count, done in zip(tasks, runs, had, strict=True) if count > done
        ),
        provable_margin=upper,
        best_possible_margin=min(upper, supposed + reach * math.sqrt(math.fsum(part.docs for part in parts))),
        measured=all(evidence.noise is not None for evidence in tasks),
    )
