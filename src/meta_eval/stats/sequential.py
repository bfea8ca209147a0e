"""Early stopping: bounds of the drop that are valid at every look during a run.

The drop is that of `meta_eval.stats.drop`: recorded minus new score, averaged like the published metric, over docs as a
sample of possible docs. So a part of a run makes the same claim as the whole, from fewer docs. Bounds for only these N
docs would be narrower, with width 0 at N of N. But a copy with a true drop equal to the margin would pass them half the
time, so stopped runs would be judged more kindly than whole runs.

**Sampling.** Units are independent docs, or clusters of docs with a common question or passage, which are asked
together. Units in the same subtasks form a stratum. `plan_rounds` puts the units of each stratum into a random order.
It cuts all strata into the same number of rounds, as evenly as possible. In a round with k of the U units of a stratum,
each unit counts U/k times. So the sum over a round is an unbiased estimate of the average over subtasks and tasks.
There is a look after each round.

**The bounds** come from betting: if the drop were beyond them, a gambler's wealth would be too large.

**Levels** are those of `meta_eval.judge.decide`: 2.5 % on each side of an interval. A task among several is decided
at 2.5 % after Holm's correction, with p values that are valid at any look (twice the inverse of the largest wealth so
far). So a stop is wrong at most as often as the decision of a whole run. A run that is undecided before the last doc is
decided as a whole.

**Betting.** Docs come in rounds. X is the contribution of a unit (a doc, or a cluster of docs) to its round's sum. It
is scaled so that the sum has mean t d, with d the true drop and t the number of units of a round. A gambler bets that
less is lost, with a stake l that is chosen before each round. Each unit multiplies the wealth by 1 - l X. Units are
independent, so a round multiplies the wealth on average by the product of 1 - l E(X). That is at most exp(-l t d),
however the units differ. So the wealth times exp(l t d) does not grow on average, and it ever reaches 1/a with
probability at most a (Ville 1939). The upper bound is the least d at which it would have reached 1/a. For the lower
bound the gambler bets that more is lost. A mixture of stakes is again a gambler (Robbins 1970, Annals of Mathematical
Statistics 41:1397). Sources: for means by betting with stakes by observed variance, Waudby-Smith and Ramdas 2024, JRSS
B 86:1; for bounds of a mean of unlike units, Howard, Ramdas, McAuliffe and Sekhon 2021, Annals of Statistics 49:1055.
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
from meta_eval.base.thresholds import ALPHA, LEVEL, ROUNDING, Outcome, Weighting
from meta_eval.stats.intervals import Interval, correct_by_holm

Doc = tuple[str, int | str]

# Stakes on a loss below the margin, as shares of the best stake for a copy without loss, and the share of wealth for
# each. Half the stake is best if half the margin is lost.
_HOLDING = ((1.0, 0.5), (0.5, 0.5))
# Stakes on a loss: for some ten points (about half the best stake, with which fewer runs are late), and for a few
# points.
_LOSING = ((0.33, 0.7), (0.08, 0.3))
# No stake may lose everything on a single unit.
_MOST = 0.95
# The prior: the share of docs that flip, and its weight in units. It affects the width of the bounds, not their
# validity.
_FLIPS, _WORTH = 0.05, 200


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a drop so far, as shares, positive for worse."""

    drop: float
    """The estimate: the mean over complete rounds; 0 before the first."""

    interval: Interval
    """At `LEVEL`, valid at any look: the intersection of all so far."""


@dataclass(frozen=True, slots=True)
class Target:
    """An average to bound."""

    scales: Mapping[Doc, float]
    """A doc's contribution to its round's sum per lost point; docs without weight are left out."""

    time: float
    """Mean number of units of a round."""

    most: float
    """The largest contribution of a unit."""

    variance: float
    """The mean square of possible contributions."""


class Wealth:
    """The wealth of both gamblers on an average; the module's docstring has the method."""

    def __init__(self, target: Target, margin: float) -> None:
        self.target, self.margin = target, margin
        self.lower, self.upper = -math.inf, math.inf
        # The largest log wealth so far against no drop, and against a drop equal to the margin.
        self.below = self.beyond = 0.0
        self._sum = self._rounds = 0.0
        self._squares = _FLIPS * _WORTH * target.variance
        self._holding = [[math.log(share), 0.0] for _, share in _HOLDING]
        self._losing = [[math.log(share), 0.0] for _, share in _LOSING]

    @property
    def bounds(self) -> Bounds:
        drop = self._sum / (self._rounds * self.target.time) if self._rounds else 0.0
        return Bounds(drop, Interval(max(-1.0, self.lower), min(1.0, self.upper)))

    def add_round(self, units: Sequence[Sequence[tuple[Doc, float]]]) -> None:
        """Add a complete round: for each changed unit, its docs and their losses."""
        target = self.target
        scales = target.scales
        changes = [math.fsum(scales.get(doc, 0.0) * loss for doc, loss in unit) for unit in units]
        changes = [change for change in changes if change]
        variance = self._squares / (self._rounds * target.time + _WORTH)
        cap = _MOST / target.most
        for (share, _), state in zip(_HOLDING, self._holding, strict=True):
            stake = min(cap, share * self.margin / variance)
            state[0] += math.fsum(math.log1p(-stake * change) for change in changes)
            state[1] += stake * target.time
        for (size, _), state in zip(_LOSING, self._losing, strict=True):
            stake = min(cap, size)
            state[0] += math.fsum(math.log1p(stake * change) for change in changes)
            state[1] -= stake * target.time
        self._sum += math.fsum(changes)
        self._squares += math.fsum(change * change for change in changes)
        self._rounds += 1
        # If bounds would cross, because the truth is outside, the first bound stays.
        self.upper = max(self.lower, _least(self._holding, self.upper))
        self.lower = min(self.upper, -_least([[won, -slope] for won, slope in self._losing], -self.lower))
        self.below = max(self.below, _log_wealth(self._losing, 0.0))
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
SEED = 0
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
    _targets: tuple[Target, ...] = field(repr=False)  # of each task, of the mean, of the mean that weighs tasks alike
    _reach: Mapping[Doc, float] = field(repr=False)


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task so far. ``outcome`` is as for a whole run. ``beyond``: its drop is proven to be larger than its margin,
    which alone decides DON'T SHIP."""

    task: str
    outcome: Outcome
    beyond: bool
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class State:
    """The state of a run after its last complete round."""

    outcome: Literal["SHIP", "DON'T SHIP"] | None
    """SHIP or DON'T SHIP once the gate is decided, before the last doc; else None. It never changes again."""

    docs: int
    """Docs in complete rounds up to the decision."""

    complete: bool
    """Whether all docs were seen without a decision; then `judge.decide` decides on the whole run."""

    mean: Bounds
    unweighted_mean: Bounds
    """The weighted and the unweighted mean drop over tasks."""

    tasks: tuple[TaskState, ...]
    """Each task."""


def plan_rounds(
    tasks: Sequence[PairableDocs], seed: int | str = SEED, batch: int = ROUND, weighting: Weighting = "precision"
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
    weightings = [*([float(task is other) for other in tasks] for task in tasks), shown, [1 / len(tasks)] * len(tasks)]
    names = [task_docs.task for task_docs in tasks]
    # Of a single task, its average and both means are one.
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
    return Target(scales, time, max(largest), math.fsum(scale * scale for scale in largest) / len(mine))


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
        bounded = [
            (id(target), allowed) for target, allowed in zip(plan._targets, [*margins, margin, margin], strict=True)
        ]
        targets = {id(target): target for target in plan._targets}
        self._wealths = {key: Wealth(targets[key[0]], key[1]) for key in bounded}
        *self._tasks, self._mean, self._unweighted_mean = [self._wealths[key] for key in bounded]
        self._outcome: Literal["SHIP", "DON'T SHIP"] | None = None

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

    def list_losses(self) -> list[float]:
        """The loss of each unit so far, in the order of the plan, for `stats.order_p_value`."""
        units = (unit for part in self._plan._rounds for unit in part)
        return [math.fsum(self._seen[doc] for doc in unit) for unit in units if all(doc in self._seen for doc in unit)]

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
                self._outcome = self._decided()
        return State(
            outcome=self._outcome,
            docs=self._plan.ends[self._done - 1] if self._done else 0,
            complete=self._outcome is None and self._done == len(rounds),
            mean=self._mean.bounds,
            unweighted_mean=self._unweighted_mean.bounds,
            tasks=tuple(self._task_states()),
        )

    def _task_states(self) -> Iterator[TaskState]:
        below = correct_by_holm([min(1.0, 2 * math.exp(-wealth.below)) for wealth in self._tasks])
        for task_docs, wealth, p_below, p_beyond in zip(
            self._plan.tasks, self._tasks, below, self._beyond()[1:], strict=True
        ):
            lost = p_below < ALPHA and wealth.bounds.drop > wealth.margin
            outcome: Outcome = "worse" if lost else "undecided"
            if wealth.bounds.interval.upper < wealth.margin:
                outcome = "within margin"
            yield TaskState(task_docs.task, outcome, p_beyond < ALPHA, wealth.bounds)

    def _beyond(self) -> list[float]:
        """The Holm-corrected p values of drops equal to the margin, of the mean and of each task."""
        return correct_by_holm([min(1.0, 2 * math.exp(-wealth.beyond)) for wealth in (self._mean, *self._tasks)])

    def _decided(self) -> Literal["SHIP", "DON'T SHIP"] | None:
        """Decide as `judge.decide`, except UNDECIDED, which only a whole run can be."""
        tasks = list(self._task_states())
        mean, unweighted = self._mean.bounds.interval, self._unweighted_mean.bounds
        if min(self._beyond()) < ALPHA:
            return "DON'T SHIP"
        if mean.upper >= self._margin or any(task.outcome == "worse" for task in tasks):
            return None
        return None if unweighted.drop >= self._margin else "SHIP"
