"""The drop of each task, and the number of runs that would settle an undecided question."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

from meta_eval.base.thresholds import LEVEL, MAX_PLANNED_RUNS, POWER
from meta_eval.stats import Drop
from meta_eval.stats.intervals import t_quantile


@dataclass(frozen=True, slots=True)
class MeasuredFlips:
    """How often two answers of one model to a doc differ.

    Attributes:
        share: The losses and gains between both answers together, as a share of the score.
        docs: The number of docs, each counted as often as it was compared.
    """

    share: float
    docs: int


@dataclass(frozen=True, slots=True)
class TaskDrop:
    """The drop of a task, with the facts for its decision.

    Attributes:
        task: Its name.
        drop: From `stats.paired_drop`, or `stats.unpaired_drop` if the baseline's answers are unknown.
        margin: The largest allowed drop of this task; None for the decision's margin.
        repeats: Number of runs of the candidate that ``drop`` averages.
        baseline_repeats: Number of runs of the baseline that it averages; None if the baseline cannot be repeated, like
            Meta's recorded answers.
        noise: The variance of a run's score from the engine, from `stats.run_noise`; None without repeats.
        cap: The limit of the worse end of this task's interval; None for the decision's cap.
        subtasks: The drop of each subtask, if there are several.
        measured_flips: The flips between two answers of one model; None if no model answered twice.
        newest: The drop between the newest runs; None if ``drop`` averages no runs.
    """

    task: str
    drop: Drop
    margin: float | None = None
    repeats: int = 1
    baseline_repeats: int | None = None
    noise: float | None = None
    cap: float | None = None
    subtasks: Mapping[str, Drop] = field(default_factory=dict)
    measured_flips: MeasuredFlips | None = None
    newest: Drop | None = None

    @property
    def newest_drop(self) -> Drop:
        """The drop of single runs."""
        return self.newest or self.drop


@dataclass(frozen=True, slots=True)
class RepeatPlan:
    """The runs that would settle an undecided question.

    It assumes that the true drop is the estimate (0 for a gain), and that a decision is wanted four times out of five
    (`POWER`). There are no more docs. Repeats reduce the noise of engines, not the uncertainty from the selection of
    docs.

    Attributes:
        runs: Total runs that each task needs; a repeatable baseline needs as many. Empty if `MAX_PLANNED_RUNS` runs of
            everything do not suffice.
        provable_margin: The smallest margin that the present runs are within: the upper end of the interval. Choosing
            it now would be after the fact; it is for the next comparison.
        best_possible_margin: The smallest margin that unlimited repeats could show.
        measured: Whether the engine's noise was measured. If not, all flips count as noise, which is the best case:
            ``runs`` and ``best_possible_margin`` are then lower limits, and an A/A pair would measure the noise.
    """

    runs: tuple[tuple[str, int], ...]
    provable_margin: float
    best_possible_margin: float
    measured: bool


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


def _find_variance_share(task_drop: TaskDrop, weight: float) -> _VarianceShare:
    drop = task_drop.drop
    inverse_runs = 1 / task_drop.repeats + 1 / (task_drop.baseline_repeats or 1)
    # Without flips there is no engine noise. Otherwise at most all variance is noise of both runs.
    variance = drop.seen_variance
    most = variance / inverse_runs if drop.flipped else 0.0
    noise = most if task_drop.noise is None else min(task_drop.noise, most)
    reducible = noise * (inverse_runs if task_drop.baseline_repeats is not None else 1 / task_drop.repeats)
    return _VarianceShare(
        weight**2 * max(0.0, variance - reducible), weight**2 * noise, task_drop.repeats, task_drop.baseline_repeats
    )


def plan_repeats(tasks: Sequence[TaskDrop], weights: Sequence[float], drop: Drop, margin: float) -> RepeatPlan | None:
    """Plan the repeats that would settle a mean drop; None if repeats cannot narrow it."""
    if not drop.freedom:
        return None
    upper, supposed = drop.interval().upper, max(0.0, drop.value)
    reach = t_quantile(LEVEL, drop.freedom) + NormalDist().inv_cdf(POWER)
    variances = [_find_variance_share(task_drop, weight) for task_drop, weight in zip(tasks, weights, strict=True)]
    had = [min(task_drop.repeats, task_drop.baseline_repeats or task_drop.repeats) for task_drop in tasks]
    runs = list(had)

    def shown(runs: Sequence[int]) -> bool:
        variance = math.fsum(part.at(count) for part, count in zip(variances, runs, strict=True))
        return supposed + reach * math.sqrt(variance) < margin

    if shown([max(MAX_PLANNED_RUNS, count) for count in had]):
        while not shown(runs):
            # The task with the largest reduction of variance per doc in its next run.
            gains = [
                (part.at(count) - part.at(count + 1)) / task_drop.drop.docs if count < MAX_PLANNED_RUNS else 0.0
                for part, count, task_drop in zip(variances, runs, tasks, strict=True)
            ]
            runs[max(range(len(gains)), key=gains.__getitem__)] += 1
    return RepeatPlan(
        runs=tuple(
            (task_drop.task, count) for task_drop, count, done in zip(tasks, runs, had, strict=True) if count > done
        ),
        provable_margin=upper,
        best_possible_margin=min(upper, supposed + reach * math.sqrt(math.fsum(part.docs for part in variances))),
        measured=all(task_drop.noise is not None for task_drop in tasks),
    )
