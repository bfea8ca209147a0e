"""What a comparison will be able to show, before anything is asked: the plan of a pack, for an identical copy.

Of each task the chances are sums over what may be lost and won (`meta_eval.stats.identical`). Of the whole they are
counted: identical copies are drawn, and `meta_eval.judge.decide` decides on each. The draws have a seed, so that the
same pack gives the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from meta_eval import stats
from meta_eval.base.errors import PackError
from meta_eval.base.inputs import describe_error, read_table
from meta_eval.base.thresholds import ALPHA, CAP, MARGIN, MAX_PLANNED_RUNS, PLANNED_FLIPS, SURE, Weighting
from meta_eval.harness.clusters import make_given_key, name_clusters
from meta_eval.judge.caps import compute_task_caps
from meta_eval.judge.flips import PlannedFlips, TaskFlips
from meta_eval.judge.gate import Gate
from meta_eval.judge.pair import TaskPair
from meta_eval.pack.manifest import Manifest, TaskEntry, read_manifest
from meta_eval.stats import Drop
from meta_eval.stats.identical import (
    FlipKind,
    chance_within,
    expect_copy,
    list_flip_kinds,
    margin_within,
    narrow_drop,
    of_kinds,
)

if TYPE_CHECKING:
    import numpy as np


_SEED = 0
# Identical copies that are drawn: the chance is then known to 1.5 points where it is 95 %.
DRAWS = 200
# Answers a doc, of the baseline and of the run, for which a sampled comparison is planned.
_ANSWERS = ((1, 1), (2, 2), (4, 4), (16, 16), (1, 4), (1, 16))
# Margins that are tried: steps of a tenth of a point, up to 30 points.
_STEP, _STEPS = 0.001, 300


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """What is known of a task before it is asked."""

    task: str
    """Its name."""

    expected: Drop
    """The drop to be expected of an identical copy (`stats.identical.expect_copy`)."""

    subtasks: Mapping[str, Drop] = field(default_factory=dict)
    """The same of each subtask."""

    subtask_weights: Mapping[str, float] = field(default_factory=dict)
    """What each subtask counts in the task's average; empty where clusters reach over subtasks, which are then drawn
    apart.
    """

    margin: float | None = None
    cap: float | None = None
    """Of this task; None for the decision's own."""

    measured: bool = False
    """Whether somebody measured how many docs flip."""

    alike: float = 0.0
    """The correlation of the changes of a cluster's docs, for which it is planned, 0 to 1."""

    alike_measured: bool = False
    """Whether somebody measured that correlation."""

    @property
    def is_open(self) -> bool:
        """Whether docs of a cluster may flip together, and nobody knows how often."""
        return self.expected.clusters < self.expected.docs and not self.alike_measured

    @property
    def flips(self) -> float:
        """The share of docs that are expected to flip."""
        return self.expected.lost + self.expected.won

    def average(self, runs: int, baseline_runs: int = 1) -> PlannedTask:
        """The same where so many runs are averaged on either side."""
        factor = (1 / runs + 1 / baseline_runs) / 2
        subtasks = {name: narrow_drop(drop, factor) for name, drop in self.subtasks.items()}
        return replace(self, expected=narrow_drop(self.expected, factor), subtasks=subtasks)


@dataclass(frozen=True, slots=True)
class Chances:
    """What a task, or the whole, can show of an identical copy; shares from 0 to 1."""

    margin: float
    """The largest drop that is allowed."""

    could_see: float
    """The smallest true drop that is detected in 80 % of runs."""

    chance: float
    """How often an identical copy is within the margin; of the whole, how often it ships."""

    margin_sure: float | None
    """The margin at which it would in 95 % of runs; None where none of 30 points or less does."""

    runs: int | None
    """How often the copy must be run for 95 %, beside a single run of the baseline; None where `MAX_PLANNED_RUNS` are
    too few.
    """

    runs_of_both: int | None
    """How often both must be run."""


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The plan of one task: what is planned, how often an identical copy stays under its cap, and what it can show."""

    planned: PlannedTask
    under_cap: float
    chances: Chances


@dataclass(frozen=True, slots=True)
class SampledChance:
    """How often an identical copy ships if answers are sampled, with so many answers a doc on either side."""

    baseline_answers: int
    answers: int
    chance: float


@dataclass(frozen=True, slots=True)
class PackPlan:
    """The plan of a pack."""

    margin: float
    cap: float
    """Of the decision."""

    weighting: Weighting
    """What a task counts in the mean."""

    tasks: tuple[TaskPlan, ...]
    """In the order of the pack."""

    chance_of_mean: float
    """The chance that an identical copy's mean drop is within the margin: it ships no more often."""

    whole: Chances | None
    """The chances of the decision; None where they were not counted."""

    sampled: tuple[SampledChance, ...] = ()
    """The chances of sampled answers; empty where nobody asked for them."""

    alike: PackPlan | None = None
    """The same if all docs of a cluster flip together; None where that changes nothing, or is measured."""


def plan_tasks(
    tasks: Sequence[PlannedTask],
    margin: float = MARGIN,
    cap: float = CAP,
    weighting: Weighting = "precision",
    *,
    whole: bool = True,
    draws: int = DRAWS,
) -> PackPlan:
    """Plan a comparison.

    Args:
        tasks: What is known of each.
        margin: The largest drop that is allowed, of the mean and of each task that has none of its own.
        cap: What the worse end of every task and subtask must stay under.
        weighting: What each task counts in the mean.
        whole: Whether to count how often the decision is SHIP, which takes seconds.
        draws: The identical copies to count it of.

    Raises:
        ValueError: There is no task.
    """
    drops = [planned.expected for planned in tasks]
    mean = stats.mean_drop(drops, stats.weigh_tasks(drops, weighting))
    caps = compute_task_caps(
        [TaskPair(task.task, measured_drop=task.expected, margin=task.margin, cap=task.cap) for task in tasks],
        margin,
        cap,
    )
    planned = tuple(
        TaskPlan(task, chance_within(task.expected, limit), _task_chances(task, task.margin or margin, len(tasks)))
        for task, limit in zip(tasks, caps, strict=True)
    )
    copies = _Copies(tasks, margin, cap, weighting, draws)
    chances = _whole_chances(copies, mean) if whole else None
    return PackPlan(margin, cap, weighting, planned, chance_within(mean, margin), chances)


def plan_answers(
    tasks: Sequence[PlannedTask],
    margin: float = MARGIN,
    cap: float = CAP,
    weighting: Weighting = "precision",
    draws: int = DRAWS,
) -> tuple[SampledChance, ...]:
    """Plan a comparison of sampled answers, for each pair of `_ANSWERS`.

    The mean of k answers varies like k runs that are averaged, so both are planned alike (`stats.sampled_flips`).

    Args:
        tasks: What is known of each; its flips are those between two single answers of one model.
        margin, cap, weighting, draws: As of `plan_tasks`.
    """
    copies = _Copies(tasks, margin, cap, weighting, draws)
    return tuple(
        SampledChance(baseline_answers, answers, copies.average(answers, baseline_answers).count_ships())
        for baseline_answers, answers in _ANSWERS
    )


def _task_chances(planned: PlannedTask, margin: float, count: int) -> Chances:
    expected = planned.expected

    def chance(runs: int, baseline_runs: int) -> float:
        return chance_within(planned.average(runs, baseline_runs).expected, margin)

    return Chances(
        margin, expected.find_detectable(ALPHA / count), chance(1, 1), margin_within(expected),
        _fewest(lambda runs: chance(runs, 1) >= SURE), _fewest(lambda runs: chance(runs, runs) >= SURE),
    )  # fmt: skip


def _fewest(enough: Callable[[int], bool]) -> int | None:
    """The fewest runs that are enough, where more are never worse; None where even the most are not."""
    if enough(1):
        return 1
    if not enough(MAX_PLANNED_RUNS):
        return None
    few, many = 1, MAX_PLANNED_RUNS
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many


@dataclass(frozen=True, slots=True)
class _Copies:
    """Identical copies to draw, and the rules by which each is decided."""

    tasks: Sequence[PlannedTask]
    margin: float
    cap: float
    weighting: Weighting
    draws: int

    def average(self, runs: int, baseline_runs: int) -> _Copies:
        return replace(self, tasks=[planned.average(runs, baseline_runs) for planned in self.tasks])

    def count_ships(self, at_least: float = 0.0) -> float:
        """The share of copies that ship; 0 as soon as it is clear that it is less than ``at_least``."""
        import numpy as np

        from meta_eval.judge.decide import decide_outcome

        rng, failed = np.random.default_rng(_SEED), 0
        for _ in range(self.draws):
            drops = [_draw_copy(planned, rng) for planned in self.tasks]
            failed += decide_outcome(drops, self.margin, cap=self.cap, weighting=self.weighting).outcome != "SHIP"
            if failed > (1 - at_least) * self.draws:
                return 0.0
        return 1 - failed / self.draws

    def is_sure(self) -> bool:
        return self.count_ships(SURE) >= SURE


def _draw_copy(planned: PlannedTask, rng: np.random.Generator) -> TaskPair:
    subtasks = {name: _draw_drop(drop, rng) for name, drop in planned.subtasks.items()}
    if planned.subtask_weights:
        parts = [(planned.subtask_weights[name], drop) for name, drop in subtasks.items()]
        drop = replace(
            planned.expected,
            lost=sum(share * part.lost for share, part in parts),
            won=sum(share * part.won for share, part in parts),
            variance=sum(share * share * part.variance for share, part in parts),
            flipped=sum(part.flipped for _, part in parts),
            small_lost=sum(share * part.small_lost for share, part in parts),
            small_won=sum(share * part.small_won for share, part in parts),
            small_variance=sum(share * share * part.small_variance for share, part in parts),
        )
    else:
        drop = _draw_drop(planned.expected, rng)
    return TaskPair(planned.task, measured_drop=drop, margin=planned.margin, cap=planned.cap, subtasks=subtasks)


def _draw_drop(expected: Drop, rng: np.random.Generator) -> Drop:
    kinds = []
    for kind in list_flip_kinds(expected):
        lost, won = rng.poisson([kind.lost, kind.won]).tolist()
        kinds.append(FlipKind(lost, won, kind.unit))
    drop = of_kinds(expected, kinds)
    # As docs have it, around their mean: a sample of all docs, where counts alone would be of some.
    around = drop.variance - drop.value**2 * expected.grain
    spread = max(0.0, around / (1 - expected.grain)) if expected.grain < 1 else 0.0
    share = spread / drop.variance if drop.variance else 0.0
    return replace(drop, variance=spread, small_variance=drop.small_variance * share)


def _whole_chances(copies: _Copies, mean: Drop) -> Chances:
    chance = copies.count_ships()
    sure = chance >= SURE
    return Chances(
        copies.margin, mean.find_detectable(), chance, _sure_margin(copies, margin_within(mean)),
        1 if sure else _fewest(lambda runs: copies.average(runs, 1).is_sure()),
        1 if sure else _fewest(lambda runs: copies.average(runs, runs).is_sure()),
    )  # fmt: skip


def _sure_margin(copies: _Copies, least: float) -> float | None:
    """The smallest margin, in tenths of a point, at which an identical copy is sure to ship; from ``least`` on."""

    def is_sure(step: int) -> bool:
        return replace(copies, margin=step * _STEP).is_sure()

    low, width = max(0, int(least / _STEP) - 2), 1
    while low + width < _STEPS and not is_sure(low + width):
        low, width = low + width, 2 * width
    high = min(low + width, _STEPS)
    if high == _STEPS and not is_sure(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_sure(middle) else (middle, high)
    return high * _STEP


# The columns of a pack's docs that say which docs are not independent, and of which subtask each is.
_COLUMNS = ("subtask_name", "cluster", "input_question_hash", "gold")


def plan_pack(
    pack: Path,
    gate: Gate | None = None,
    flips: PlannedFlips | None = None,
    *,
    sampled_flips: PlannedFlips | None = None,
    whole: bool = True,
) -> PackPlan:
    """Plan what a run of a pack will be able to show.

    Args:
        pack: The folder that prepare wrote.
        gate: Rules to plan by; None for the pack's margin and weights.
        flips: The share of docs that an identical copy flips, 0 to 1; or of each task for which it was measured.
            None for `PLANNED_FLIPS`, which is assumed.
        sampled_flips: The same between two single answers that were drawn at a temperature; None to plan no sampled
            answers.
        whole: Whether to count how often the decision is SHIP, which takes seconds.

    Raises:
        PackError: There is no pack, or a file of docs cannot be read.
        ConfigError: The rules name an unknown task.
    """
    manifest = read_manifest(pack)
    gate = (gate or Gate()).complete(manifest, manifest.tasks, manifest.groups)
    decided = gate.margin_fraction, gate.cap_fraction or CAP, gate.weights or "precision"
    docs = _read_docs(pack, manifest, gate)
    rules = gate.expand_groups(manifest.groups)
    tasks = [_planned(*of_task, rules, flips) for of_task in docs]
    plan = plan_tasks(tasks, *decided, whole=whole)
    if any(task.is_open for task in tasks):
        together = [_planned(*of_task, rules, flips, alike=1.0) for of_task in docs]
        plan = replace(plan, alike=plan_tasks(together, *decided, whole=whole))
    if sampled_flips is None:
        return plan
    return replace(plan, sampled=plan_answers([_planned(*of_task, rules, sampled_flips) for of_task in docs], *decided))


def _read_docs(
    pack: Path, manifest: Manifest, gate: Gate
) -> list[tuple[str, TaskEntry, Mapping[str, Sequence[str | None]]]]:
    """The tasks to plan, with the columns of their docs."""
    gate, names = gate.choose(list(manifest.tasks), manifest.groups)
    names_to_plan = gate.expand_groups(manifest.groups).chosen or names
    return [
        (name, entry, _read_columns(pack, entry)) for name, entry in manifest.tasks.items() if name in names_to_plan
    ]


def _planned(
    name: str, entry: TaskEntry, columns: Mapping[str, Sequence[str | None]], gate: Gate,
    flips: PlannedFlips | None, *, alike: float = 0.0,
) -> PlannedTask:  # fmt: skip
    """A task as its docs tell. ``alike`` is the correlation within clusters where none was measured."""
    rule = gate.task_rules(name)
    measured = flips.get(name) if isinstance(flips, Mapping) else None if flips is None else TaskFlips(flips)
    share, correlation = (measured.share, measured.alike) if measured else (PLANNED_FLIPS, None)
    alike = alike if correlation is None else correlation
    column = columns.get("subtask_name", ())
    labels = [label for label in column if label is not None]
    several = len(set(labels)) > 1 and len(labels) == len(column)
    macro = several and _averages_subtasks(entry)
    clusters = _clusters(columns)
    expected = expect_copy(entry.docs, share, labels if macro else None, clusters, alike)
    parts, subtask_weights = {}, {}
    places: dict[str, list[int]] = {}
    for place, label in enumerate(labels if several else ()):
        places.setdefault(label, []).append(place)
    for subtask, docs in places.items():
        of_docs = clusters and [clusters[place] for place in docs]
        parts[subtask] = expect_copy(len(docs), share, clusters=of_docs, alike=alike)
        subtask_weights[subtask] = 1 / len(places) if macro else len(docs) / entry.docs
    return PlannedTask(
        name,
        expected,
        parts,
        subtask_weights if clusters is None else {},
        rule.margin_fraction,
        rule.cap_fraction,
        measured is not None,
        alike,
        correlation is not None,
    )


def _averages_subtasks(entry: TaskEntry) -> bool:
    """Whether the metric of the drop weighs subtasks alike: the first that is published for such docs."""
    published = sorted(entry.reference_scores, key=lambda number: not number.same_settings)
    return bool(published) and published[0].averaging == "macro"


def _clusters(columns: Mapping[str, Sequence[str | None]]) -> list[str] | None:
    """The cluster of each doc; None where no doc shares anything with another."""
    stored = columns.get("cluster", ())
    questions = list(zip(columns.get("input_question_hash", ()), columns.get("gold", ()), strict=False))
    keys = [
        [
            *([make_given_key(stored[place] or "")] if stored and stored[place] else []),
            *([f"{questions[place][0]} {questions[place][1]}"] if questions and questions[place][0] else []),
        ]
        for place in range(max(len(stored), len(questions)))
    ]
    names = name_clusters(keys)
    if all(name is None for name in names):
        return None
    return [f"doc {place}" if name is None else f"cluster {name}" for place, name in enumerate(names)]


def _read_columns(pack: Path, entry: TaskEntry) -> dict[str, list[str | None]]:
    if entry.docs_file is None:
        return {}
    names = [name for name in _COLUMNS if name in entry.columns]
    path = pack / entry.docs_file
    try:
        table = read_table(path, columns=names)
    except Exception as error:  # arrow raises its own kinds
        raise PackError(f"cannot be read: {describe_error(error)}", where=str(path)) from None
    return {
        name: [None if value is None else str(value) for value in table.column(name).to_pylist()] for name in names
    }  # fmt: skip
