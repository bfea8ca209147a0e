"""Early stopping: lower bounds of the drop that are valid at every look during a run.

The drop is that of `meta_eval.stats.drop`: recorded minus new score, averaged like the published metric, over docs as a
sample of possible docs. So a part of a run makes the same claim as the whole, from fewer docs. Bounds for only these N
docs would be narrower, with width 0 at N of N. But a copy with a true drop equal to the margin would pass them half the
time, so stopped runs would be judged more harshly than whole runs.

**What stops.** A drop that is proven larger than its margin, of the mean or of a task, decides DON'T SHIP whatever the
other docs bring. SHIP does not stop a run. It says that no task and subtask lost more than its cap, and of each of
these a part of a run has few docs.

**Sampling.** Units are independent docs, or clusters of docs with a common question or passage, which are asked
together. Units in the same subtasks form a stratum. `plan_rounds` puts the units of each stratum into a random order.
It cuts all strata into the same number of rounds, as evenly as possible. In a round with k of the U units of a stratum,
each unit counts U/k times. So the sum over a round is an unbiased estimate of the average over subtasks and tasks.
There is a look after each round.

**The bounds** come from betting: if the drop were below them, a gambler's wealth would be too large.

**Levels.** A bound holds at 2.5 %, the level of one side of an interval. The mean and the tasks are tested together, by
Holm's correction of p values that are valid at any look (twice the inverse of the largest wealth so far). A run that is
undecided before the last doc is decided as a whole.

**Betting.** Docs come in rounds. X is the contribution of a unit (a doc, or a cluster of docs) to its round's sum. It
is scaled so that the sum has mean t d, with d the true drop and t the number of units of a round. A gambler bets that
more is lost, with a stake l that is chosen beforehand. Each unit multiplies the wealth by 1 + l X. Units are
independent, so a round multiplies the wealth on average by the product of 1 + l E(X). That is at most exp(l t d),
however the units differ. So the wealth times exp(-l t d) does not grow on average, and it ever reaches 1/a with
probability at most a (Ville 1939). The lower bound is the largest d at which it would have reached 1/a. A mixture of
stakes is again a gambler (Robbins 1970, Annals of Mathematical Statistics 41:1397). Sources: for means by betting,
Waudby-Smith and Ramdas 2024, JRSS B 86:1; for bounds of a mean of unlike units, Howard, Ramdas, McAuliffe and Sekhon
2021, Annals of Statistics 49:1055.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from meta_eval.base.hashing import hash_text
from meta_eval.base.thresholds import ALPHA, LEVEL, ROUNDING, Weighting
from meta_eval.stats.intervals import correct_by_holm

Doc = tuple[str, int | str]

# Stakes on a loss: for some ten points (about half the best stake, with which fewer runs are late), and for a few
# points.
_LOSING = ((0.33, 0.7), (0.08, 0.3))
# No stake may lose everything on a single unit.
_MOST = 0.95


@dataclass(frozen=True, slots=True)
class Bounds:
    """A drop so far, as shares, positive for worse."""

    drop: float
    """The estimate: the mean over complete rounds; 0 before the first."""

    lower: float
    """Its lower bound at one side of `LEVEL`, valid at any look: the largest so far."""


@dataclass(frozen=True, slots=True)
class Target:
    """An average to bound."""

    scales: Mapping[Doc, float]
    """A doc's contribution to its round's sum per lost point; docs without weight are left out."""

    time: float
    """Mean number of units of a round."""

    most: float
    """The largest contribution of a unit."""


class Wealth:
    """The wealth of the gambler on an average; the module's docstring has the method."""

    def __init__(self, target: Target, margin: float) -> None:
        self.target, self.margin = target, margin
        self.lower = -math.inf
        # The largest log wealth so far against a drop equal to the margin.
        self.beyond = 0.0
        self._sum = self._rounds = 0.0
        self._losing = [[math.log(share), 0.0] for _, share in _LOSING]

    @property
    def bounds(self) -> Bounds:
        drop = self._sum / (self._rounds * self.target.time) if self._rounds else 0.0
        return Bounds(drop, max(-1.0, self.lower))

    def add_round(self, units: Sequence[Sequence[tuple[Doc, float]]]) -> None:
        """Add a complete round: for each changed unit, its docs and their losses."""
        target = self.target
        scales = target.scales
        changes = [math.fsum(scales.get(doc, 0.0) * loss for doc, loss in unit) for unit in units]
        changes = [change for change in changes if change]
        cap = _MOST / target.most
        for (size, _), state in zip(_LOSING, self._losing, strict=True):
            stake = min(cap, size)
            state[0] += math.fsum(math.log1p(stake * change) for change in changes)
            state[1] -= stake * target.time
        self._sum += math.fsum(changes)
        self._rounds += 1
        self.lower = -_least([[won, -slope] for won, slope in self._losing], -self.lower)
        self.beyond = max(self.beyond, _log_wealth(self._losing, self.margin))


def _log_wealth(mixture: Sequence[Sequence[float]], drop: float) -> float:
    terms = [won + slope * drop for won, slope in mixture]
    top = max(terms)
    return top + math.log(math.fsum(math.exp(term - top) for term in terms))


def _least(mixture: Sequence[Sequence[float]], mean_of_all: float) -> float:
    """The least drop at which the wealth has reached a side's level, or ``mean_of_all`` if that is less.

    The log wealth is convex and rises with the drop, so Newton's method converges from above.
    """
    needed = math.log(2 / (1 - LEVEL))
    at = min(mean_of_all, *((needed - won) / slope if slope else math.inf for won, slope in mixture))
    for _ in range(50):
        if at == math.inf:
            break
        terms = [won + slope * at for won, slope in mixture]
        top = max(terms)
        parts = [math.exp(term - top) for term in terms]
        total = math.fsum(parts)
        beyond = top + math.log(total) - needed
        if beyond <= 1e-12:
            break
        at -= beyond * total / math.fsum(part * slope for part, (_, slope) in zip(parts, mixture, strict=True))
    return at


# The seed of simulations. It is public, so a run draws its own.
_SEED = 0
# Docs of a round: a large loss is found after a few rounds, and a round has some of every subtask.
ROUND = 32


_Stratum = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PairableDocs:
    """The docs of a task that have a recorded score, so that a new answer can be compared."""

    task: str
    """Its name."""

    docs: Sequence[int | str]
    """The number or name of each doc, without duplicates."""

    labels: Sequence[str | None] | None = None
    """The subtask of each doc, if the metric is an average over subtasks; None for a mean over docs."""

    clusters: Sequence[str | None] | None = None
    """The cluster of each doc, None for an independent doc; None if all docs are independent. Names are global over
    tasks."""

    reach: Sequence[float] | None = None
    """The largest possible difference of each doc; None for 1. Scores with unequal weights of docs need it: the doc's
    contribution with everything right (`stats.instruction_shares`, `stats.mean_of_four_shares`)."""

    margin: float | None = None
    """The largest allowed drop; None for that of the run."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The order in which docs are asked, and the docs after which the gate is checked."""

    tasks: tuple[PairableDocs, ...]
    order: tuple[Doc, ...]
    """Pairs of task and doc; docs of a cluster are consecutive."""

    ends: tuple[int, ...]
    """Number of docs of ``order`` asked at the end of each round; the last is all."""

    _rounds: tuple[tuple[tuple[Doc, ...], ...], ...] = field(repr=False)
    _targets: tuple[Target, ...] = field(repr=False)  # of each task, of the mean
    _reach: Mapping[Doc, float] = field(repr=False)


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task so far. ``beyond``: its drop is proven to be larger than its margin, which alone decides DON'T SHIP."""

    task: str
    beyond: bool
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class State:
    """The state of a run after its last complete round."""

    outcome: Literal["DON'T SHIP"] | None
    """DON'T SHIP once it is proven, before the last doc; else None. It never changes again."""

    docs: int
    """Docs in complete rounds up to the decision."""

    complete: bool
    """Whether all docs were seen without a decision; then `judge.decide` decides on the whole run."""

    mean: Bounds
    """The weighted mean drop over tasks."""

    tasks: tuple[TaskState, ...]
    """Each task."""


def plan_rounds(
    tasks: Sequence[PairableDocs], seed: int | str = _SEED, batch: int = ROUND, weighting: Weighting = "precision"
) -> Plan:
    """Plan the order of the docs of these tasks, in proportion over tasks and subtasks, and its rounds.

    Places come from the SHA-256 of seed, task and doc (or the name of its cluster). So they are the same on every
    machine and for any order of the input. The seed is chosen in advance and kept secret from the engine, which could
    otherwise know the first docs.

    Args:
        tasks: The tasks with their docs.
        seed: The seed of the order.
        batch: Approximate docs per round; more if a stratum has too few units for so many rounds.
        weighting: The weighting of tasks in the mean drop.

    Raises:
        ValueError: No task, a task without docs, a task or doc twice, a list of another length, a batch or a reach
            that is not positive, a margin under 0.
    """
    if not tasks or batch < 1:
        raise ValueError("a plan takes a task and a round a doc")
    if len({task_docs.task for task_docs in tasks}) < len(tasks):
        raise ValueError("a task is there twice")
    units: dict[str, list[Doc]] = defaultdict(list)
    subtask: dict[Doc, tuple[str, str | None]] = {}
    reach: dict[Doc, float] = {}
    for task_docs in tasks:
        for doc, label, cluster, most in _rows(task_docs):
            key = (task_docs.task, doc)
            units[json.dumps([task_docs.task, doc] if cluster is None else [cluster])].append(key)
            subtask[key], reach[key] = (task_docs.task, label), most
    weights, precisions = _doc_weights(tasks, subtask, units)
    counts = {"precision": precisions, "equal": [1.0] * len(tasks), "docs": [float(len(task.docs)) for task in tasks]}
    shown = [count / math.fsum(counts[weighting]) for count in counts[weighting]]
    strata: dict[_Stratum, list[tuple[str, tuple[Doc, ...]]]] = defaultdict(list)
    for name, members in units.items():
        stratum = tuple(sorted({(task, json.dumps(label)) for task, label in (subtask[doc] for doc in members)}))
        digest = hash_text(f"{seed} {name}")
        strata[stratum].append((digest, tuple(sorted(members, key=str))))
    rounds = max(1, min(*map(len, strata.values()), len(subtask) // batch))
    cut: list[list[tuple[float, str, tuple[Doc, ...]]]] = [[] for _ in range(rounds)]
    counted: list[tuple[tuple[Doc, ...], float]] = []
    for of_stratum in strata.values():
        places = [(2 * rank + 1) / (2 * len(of_stratum)) for rank in range(len(of_stratum))]
        numbers = [(2 * rank + 1) * rounds // (2 * len(of_stratum)) for rank in range(len(of_stratum))]
        in_round = Counter(numbers)
        for where, number, (digest, docs) in zip(places, numbers, sorted(of_stratum), strict=True):
            cut[number].append((where, digest, docs))
            counted.append((docs, len(of_stratum) / in_round[number]))
    by_round = tuple(tuple(docs for _, _, docs in sorted(part)) for part in cut)
    order = tuple(doc for part in by_round for docs in part for doc in docs)
    ends = tuple(accumulate(sum(map(len, part)) for part in by_round))
    weightings = [*([float(task is other) for other in tasks] for task in tasks), shown]
    names = [task_docs.task for task_docs in tasks]
    # Of a single task, its average and the mean are one.
    made = {
        share: _target(counted, weights, dict(zip(names, share, strict=True)), reach, rounds)
        for share in dict.fromkeys(map(tuple, weightings))
    }
    targets = tuple(made[tuple(share)] for share in weightings)
    return Plan(tuple(tasks), order, ends, by_round, targets, reach)


def _rows(task_docs: PairableDocs) -> Iterator[tuple[int | str, str | None, str | None, float]]:
    n = len(task_docs.docs)
    if not n or len(set(task_docs.docs)) < n:
        raise ValueError(f"{task_docs.task}: {'a doc is there twice' if n else 'there is no doc'}")
    if (task_docs.margin or 0) < 0 or any(not most > 0 for most in task_docs.reach or ()):
        raise ValueError(f"{task_docs.task}: a margin under 0, or a reach that is not above it")
    lists = (task_docs.labels or [None] * n, task_docs.clusters or [None] * n, task_docs.reach or [1.0] * n)
    return zip(task_docs.docs, *lists, strict=True)


def _doc_weights(
    tasks: Sequence[PairableDocs], subtask: Mapping[Doc, tuple[str, str | None]], units: Mapping[str, Sequence[Doc]]
) -> tuple[dict[Doc, float], list[float]]:
    """The weight of each doc in its task's average, and each task's precision, as in `stats.precision_weights`."""
    size: dict[tuple[str, str | None], int] = defaultdict(int)
    for name in subtask.values():
        size[name] += 1
    subtasks = {task_docs.task: sum(task == task_docs.task for task, _ in size) for task_docs in tasks}
    weights = {doc: 1 / (subtasks[doc[0]] * size[name]) for doc, name in subtask.items()}
    grain = dict.fromkeys(subtasks, 0.0)
    for members in units.values():
        task_totals: dict[str, float] = defaultdict(float)
        for doc in members:
            task_totals[doc[0]] += weights[doc]
        for task, weight in task_totals.items():
            grain[task] += weight**2
    return weights, [1 / grain[task_docs.task] for task_docs in tasks]


def _target(
    units: Sequence[tuple[tuple[Doc, ...], float]],
    weights: Mapping[Doc, float],
    share: Mapping[str, float],
    reach: Mapping[Doc, float],
    rounds: int,
) -> Target:
    mine = [(docs, times) for docs, times in units if any(share[task] for task, _ in docs)]
    time = len(mine) / rounds
    scales = {doc: time * times * share[doc[0]] * weights[doc] for docs, times in mine for doc in docs}
    largest = [math.fsum(scales[doc] * reach[doc] for doc in docs) for docs, _ in mine]
    return Target(scales, time, max(largest))


class Sequential:
    """The gate of a run that stops when it is decided; `plan_rounds` gives the order of its docs.

    Docs may arrive in any order. There is a look whenever the next round of the plan is complete, so the same scores
    give the same states after a crash or retry and on another engine. Docs in progress at the decision change nothing.
    If a doc never arrives, there are no further looks: the run goes on to its end and is judged as a whole. The caller
    handles vetoes (`judge.alarms`).

    Args:
        plan: The plan of all tasks of the gate.
        margin: The largest allowed drop of the mean, and of tasks without their own margin.

    Raises:
        ValueError: A margin under 0.
    """

    def __init__(self, plan: Plan, margin: float) -> None:
        if not margin >= 0:
            raise ValueError(f"a margin of {margin}")
        self._plan = plan
        self._seen: dict[Doc, float] = {}
        self._done = 0
        self._margin = margin
        margins = [margin if task.margin is None else task.margin for task in plan.tasks]
        bounded = [(id(target), allowed) for target, allowed in zip(plan._targets, [*margins, margin], strict=True)]
        targets = {id(target): target for target in plan._targets}
        self._wealths = {key: Wealth(targets[key[0]], key[1]) for key in bounded}
        *self._tasks, self._mean = [self._wealths[key] for key in bounded]
        self._outcome: Literal["DON'T SHIP"] | None = None

    def add_doc(self, task: str, doc: int | str, recorded: float, new: float) -> None:
        """Add a doc's contributions to the averages of the recorded and of the new answers
        (`Scores.paired_contributions`).

        Raises:
            ValueError: The doc is not in the plan, came before with another difference, or exceeds its reach.
        """
        key, loss = (task, doc), recorded - new
        if key not in self._plan._reach:
            raise ValueError(f"{task}: doc {doc} is not of the plan")
        if not abs(loss) <= self._plan._reach[key] + ROUNDING:
            raise ValueError(f"{task}: doc {doc}: {recorded} and {new} differ by more than {self._plan._reach[key]}")
        if abs(self._seen.get(key, loss) - loss) > ROUNDING:
            raise ValueError(f"{task}: doc {doc} came before with another score")
        self._seen[key] = 0.0 if abs(loss) <= ROUNDING else loss

    def read_state(self) -> State:
        """The present state of the run."""
        rounds = self._plan._rounds
        while self._outcome is None and self._done < len(rounds):
            part = rounds[self._done]
            if not all(doc in self._seen for unit in part for doc in unit):
                break
            changed = [[(doc, self._seen[doc]) for doc in unit] for unit in part if any(map(self._seen.get, unit))]
            for wealth in self._wealths.values():
                wealth.add_round(changed)
            self._done += 1
            if self._done < len(rounds):
                self._outcome = "DON'T SHIP" if any(self._beyond()) else None
        return State(
            outcome=self._outcome,
            docs=self._plan.ends[self._done - 1] if self._done else 0,
            complete=self._outcome is None and self._done == len(rounds),
            mean=self._mean.bounds,
            tasks=tuple(
                TaskState(task.task, beyond, wealth.bounds)
                for task, wealth, beyond in zip(self._plan.tasks, self._tasks, self._beyond()[1:], strict=True)
            ),
        )

    def _beyond(self) -> list[bool]:
        """Whether drops are proven larger than their margins, of the mean and of each task."""
        wealths = (self._mean, *self._tasks)
        return [p < ALPHA for p in correct_by_holm([min(1.0, 2 * math.exp(-wealth.beyond)) for wealth in wealths])]
