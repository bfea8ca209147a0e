"""Judges the newest run of a history by all runs before it.

Each task has a chart (`run_chart`), and so has the mean over tasks. Half of the false alarms may come
from the mean, the other half from the tasks together. A run need not have all docs of a task: the runs are compared by
the docs that they share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from meta_eval.plugins.nightly.run_chart import ENOUGH_RUNS, ChartPoint, average_run_length, draw_chart, find_limits
from meta_eval.plugins.nightly.run_history import PastRun
from meta_eval.sockets import ConfigError, plural

if TYPE_CHECKING:
    import numpy.typing as npt


def read_alarm_rate(alarms: float, runs: float) -> float:
    """The average number of runs from one false alarm to the next.

    Args:
        alarms, runs: A year.

    Raises:
        ConfigError: They give fewer than 10 or more than a million runs.
    """
    if not 10 <= runs / alarms <= 1e6:
        raise ConfigError(
            f"{alarms:g} a year of {runs:g} runs is one in {runs / alarms:,.3g}", where="false alarms",
            hint="Name a rate between one in 10 and one in 1,000,000 runs: --false-alarms, --runs-a-year",
        )  # fmt: skip
    return runs / alarms


_Outcome = Literal["no alarm", "alarm", "too few runs"]

# A run that lacks more of a task's docs than this share is not on its chart: it is much noisier than the others.
_MISSING = 0.2

# A doc is called unsteady with at least this many runs, and this share of either verdict.
_ENOUGH_RUNS, _EITHER = 4, 0.25

_SAME_TIME = "{} runs have the time {}. They are in the order of their files' paths, and {} counts as the newest"

# Rounds of fitting runs and docs in turn, and the change of a doc's value that ends them.
_ROUNDS, _CLOSE = 200, 1e-10

# A shift in standard deviations that no run hides.
_LARGE = 20.0

# A plan of docs is for an alarm within so many runs, on average.
PLANNED_RUNS = 5


@dataclass(frozen=True, slots=True)
class DocFlips:
    """How the docs of a task change between runs."""

    docs: int
    """Number of docs."""

    changed: int
    """Number of docs that ever changed."""

    unsteady: tuple[str, ...]
    """The docs that go either way, least steady first."""

    expected: float
    """Standard deviation of a run's score that independent flips explain."""

    seen: float
    """Standard deviation of the runs' scores."""


@dataclass(frozen=True, slots=True)
class Chart:
    """The runs of a task, or of the mean over tasks."""

    name: str
    """The task; ``mean`` for the mean over tasks."""

    runs: tuple[int, ...]
    """The places of its runs in the history."""

    points: tuple[ChartPoint, ...]
    """A point for each."""

    docs: int
    """The number of docs that runs are compared by."""

    runs_per_alarm: float
    """What its limits are for."""

    flips: DocFlips | None
    """Of the runs without an alarm. None for the mean, and with a single run."""

    @property
    def is_alarmed(self) -> bool:
        """Whether its newest run is part of an alarm."""
        return self.points[-1].state != "ok"

    @property
    def alarm(self) -> tuple[int, ChartPoint] | None:
        """The place of the newest alarm among its points, and that point; None if there is none now."""
        if not self.is_alarmed:
            return None
        return next((at, point) for at, point in reversed(list(enumerate(self.points))) if point.change is not None)

    @property
    def is_enough(self) -> bool:
        """Whether it has the runs that an alarm needs."""
        return len(self.points) >= ENOUGH_RUNS

    def find_docs_needed(self, drop: float) -> int | None:
        """The docs with which a lasting drop raises an alarm within `PLANNED_RUNS`; None if no number suffices or it is
        unknown.

        Args:
            drop: From 0 to 1.
        """
        from scipy.optimize import brentq

        if self.flips is None or drop <= 0:
            return None
        limits = find_limits(self.runs_per_alarm, self._correlation)
        if average_run_length(limits, _LARGE) > PLANNED_RUNS:
            return None
        shift = brentq(lambda shift: average_run_length(limits, shift) - PLANNED_RUNS, 0.0, _LARGE)
        needed = (drop * self._kept / shift) ** 2
        by_docs = self.flips.expected**2
        shared = max(0.0, self.flips.seen**2 - by_docs)
        return math.ceil(by_docs * self.docs / (needed - shared)) if needed > shared else None

    def find_runs_needed(self, drop: float) -> float | None:
        """The average number of runs until a lasting drop raises an alarm; None if unknown.

        Args:
            drop: From 0 to 1.
        """
        if self.flips is None:
            return None
        spread = max(self.flips.seen, self.flips.expected, 1 / self.docs)
        limits = find_limits(self.runs_per_alarm, self._correlation)
        return average_run_length(limits, drop / spread * self._kept)

    @property
    def _correlation(self) -> float:
        return self.points[-1].correlation

    @property
    def _kept(self) -> float:
        """The part of a lasting drop that a run adds to what the run before it said, in its own standard deviations."""
        return math.sqrt((1 - self._correlation) / (1 + self._correlation))


@dataclass(frozen=True, slots=True)
class HistoryJudgement:
    """What a history says of its newest run."""

    outcome: _Outcome
    """``alarm`` if any chart has one."""

    runs: tuple[PastRun, ...]
    """The runs since the last accepted change, oldest first."""

    charts: tuple[Chart, ...]
    """That of the mean first, if there are several tasks."""

    notes: tuple[str, ...]
    """What does not count, and why."""

    other_model: str = ""
    """Since when the runs are of another model, a clause; empty if they are not."""


def judge_history(history: Sequence[PastRun], runs_per_alarm: float) -> HistoryJudgement:
    """Judge the newest run.

    Args:
        history: Oldest first; at least one.
        runs_per_alarm: The average number of runs from one false alarm to the next, over all charts.
    """
    start = max((place for place, run in enumerate(history) if run.new_level), default=0)
    runs = tuple(history[start:])
    newest = runs[-1]
    same = [run.label for run in runs if run.time == newest.time]
    notes = [_SAME_TIME.format(len(same), newest.time, newest.label)] if len(same) > 1 else []
    several = len(newest.tasks) > 1
    each = runs_per_alarm * (2 * len(newest.tasks) if several else 1)
    charts, scores = [], {}
    for task, verdicts in newest.tasks.items():
        metric, places, left_out = verdicts.metric, [], 0
        for place, run in enumerate(runs):
            other = run.tasks.get(task)
            if other is not None and other.metric == metric and _has_docs(other.docs, verdicts.docs):
                places.append(place)
            else:
                left_out += 1
        if left_out:
            notes.append(f"{task}: {left_out} of {len(runs)} runs lack it, its metric {metric}, or many of its docs")
        tables = [runs[place].tasks[task].docs for place in places]
        docs, table, of_runs = compare_with_history(tables)
        partial = sum(len(run) < len(docs) for run in tables)
        if partial:
            notes.append(
                f"{task}: {partial} of {plural(len(tables), 'run')} lack some docs, and are compared by the others"
            )
        points = draw_chart(of_runs, each, len(tables) / sum(map(len, tables)))
        unchanged = [place for place, point in enumerate(points) if point.state == "ok"] or list(range(len(points)))
        scores[task] = dict(zip(places, of_runs, strict=True))
        flips = _flips(docs, table[unchanged], [of_runs[place] for place in unchanged])
        charts.append(Chart(task, tuple(places), tuple(points), len(docs), each, flips))
    if several:
        charts.insert(0, _mean_chart(scores, charts, runs_per_alarm * 2))
    short = [chart for chart in charts if not chart.is_enough]
    enough = len(short) < len(charts)
    if enough:
        notes += [f"{chart.name}: {len(chart.points)} of the {ENOUGH_RUNS} runs that an alarm needs" for chart in short]
    alarmed = any(chart.is_alarmed for chart in charts)
    outcome: _Outcome = "alarm" if alarmed else "no alarm" if enough else "too few runs"
    return HistoryJudgement(outcome, runs, tuple(charts), tuple(notes), _name_model(runs))


def _has_docs(docs: Mapping[str, float], wanted: Mapping[str, float]) -> bool:
    common = len(docs.keys() & wanted.keys())
    return common >= (1 - _MISSING) * max(len(docs), len(wanted))


def _name_model(runs: Sequence[PastRun]) -> str:
    """Since when the runs are of another model than those before."""
    named = [run for run in runs if run.model]
    changes = [(before, run) for before, run in pairwise(named) if before.model != run.model]
    if not changes:
        return ""
    before, run = changes[-1]
    return f"since {run.label} the model is {run.model}, and before {before.model}"


def compare_with_history(tables: Sequence[Mapping[str, float]]) -> tuple[list[str], npt.NDArray[Any], list[float]]:
    """The score of each run on all docs, of which it may lack some.

    Each verdict is the sum of a value of the run and a value of the doc, fitted by least squares (two-way analysis of
    unbalanced data; among others Scheffé 1959, The Analysis of Variance, section 4.4). So two runs are compared by the
    docs that they share, and a run that lacks hard docs does not look better.

    Args:
        tables: The verdicts of each run by doc.

    Returns:
        The docs of any run; runs x docs: the verdicts, nan where there is none; and the score of each run.
    """
    import numpy as np

    docs = sorted(set().union(*tables))
    table = np.array([[run.get(doc, math.nan) for doc in docs] for run in tables])
    has = ~np.isnan(table)
    if has.all():
        return docs, table, [_mean(row) for row in table.tolist()]
    verdicts, per_run, per_doc = np.where(has, table, 0.0), has.sum(axis=1), has.sum(axis=0)
    of_docs = verdicts.sum(axis=0) / per_doc
    for _ in range(_ROUNDS):
        of_runs = (verdicts - has * of_docs).sum(axis=1) / per_run
        fitted = (verdicts - has * of_runs[:, None]).sum(axis=0) / per_doc
        change, of_docs = float(np.abs(fitted - of_docs).max()), fitted
        if change < _CLOSE:
            break
    return docs, table, [float(score) for score in of_runs + of_docs.mean()]


def _mean_chart(scores: Mapping[str, Mapping[int, float]], charts: Sequence[Chart], runs_per_alarm: float) -> Chart:
    """The chart of the mean over tasks, each with the same weight, by the runs that have all of them."""
    places = sorted(set.intersection(*(set(of_task) for of_task in scores.values())))
    means = [_mean([of_task[place] for of_task in scores.values()]) for place in places]
    docs = sum(chart.docs for chart in charts)
    return Chart("mean", tuple(places), tuple(draw_chart(means, runs_per_alarm, 1 / docs)), docs, runs_per_alarm, None)


def _flips(docs: Sequence[str], table: npt.NDArray[Any], scores: Sequence[float]) -> DocFlips | None:
    import numpy as np

    if len(table) < 2:
        return None
    counts = (~np.isnan(table)).sum(axis=0)
    sums = np.nansum(table, axis=0)
    shares = sums / np.maximum(counts, 1)
    squares = np.nansum((table - shares) ** 2, axis=0)
    variances = np.where(counts > 1, squares / np.maximum(counts - 1, 1), 0.0)
    steadiness = np.where(counts >= _ENOUGH_RUNS, np.abs(shares - 0.5), 0.5)
    order = np.lexsort((np.arange(len(docs)), steadiness))
    unsteady = tuple(docs[at] for at in order if steadiness[at] <= 0.5 - _EITHER)
    return DocFlips(
        len(docs), int(np.count_nonzero(variances)), unsteady,
        expected=math.sqrt(float(variances.sum())) / len(docs), seen=float(np.std(scores, ddof=1)),
    )  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
