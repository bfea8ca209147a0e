"""The result of verify: agreement and score of each task, and whether the pack passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from meta_eval.harness.metrics import UNBOUNDED_METRICS
from meta_eval.pack.manifest import BaselineEntry, ReferenceScoreEntry, TaskEntry
from meta_eval.pack.verify.tallies import Tallies, Tally, macro_score

# below: under the required agreement. unfinished: some docs not scored. not checked: nothing to compare. failed: the
# task cannot run.
Status = Literal["passed", "below", "unfinished", "not checked", "failed"]


@dataclass(slots=True)
class TaskProof:
    """The result of a task.

    Attributes:
        entry: Its entry in the manifest.
        status: Only ``passed`` is a pass.
        reason: Why it did not pass; None for a pass.
        min_agreement: The required agreement, 0 to 1.
        tallies: Counts and disagreements; None when nothing was scored.
        scores: All scores of the task's own aggregations, 0 to 1, by ``metric,filter``.
        file: The file of disagreements.
        of_baseline: The run of ``baseline:`` whose verdicts are compared; None for those of the evals dataset.
    """

    entry: TaskEntry
    status: Status
    reason: str | None
    min_agreement: float
    tallies: Tallies | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    file: Path | None = None
    of_baseline: BaselineEntry | None = None

    @property
    def published(self) -> ReferenceScoreEntry | None:
        """The published score to compare with: that of the verdict, of its macro average, or else the first."""
        for metric in (self.entry.primary_metric, self._macro):
            for number in self.entry.reference_scores:
                if number.metric == metric:
                    return number
        return next(iter(self.entry.reference_scores), None)

    @property
    def metric(self) -> str:
        """The ``metric,filter`` of our score: that of the published score, or else the verdict."""
        return self.published.metric if self.published else self.entry.primary_metric

    @property
    def averaging(self) -> str:
        """How our score is averaged: ``macro`` over subtasks, ``micro`` over docs, or as the published score."""
        if self.metric == self._macro:
            return "macro"
        return (self.published.averaging if self.published else None) or "micro"

    @property
    def graded_score(self) -> float | None:
        """Our score of the task by its own aggregation, 0 to 1; None if it is not a share."""
        score = None if self.metric.partition(",")[0] in UNBOUNDED_METRICS else self.scores.get(self.metric)
        return score if score is not None and 0 <= score <= 1 else None

    @property
    def compares_verdicts(self) -> bool:
        """Whether verdicts were compared. The mean of readings is not a score."""
        return self.tallies is not None and self.tallies.metric == self.entry.primary_metric

    def mean(self, which: Callable[[Tally], float | None]) -> float | None:
        """The mean of other verdicts, 0 to 1, averaged like our score; None if they are not in its metric."""
        if self.tallies is None or not self.compares_verdicts:
            return None
        if self.metric == self._macro:
            return macro_score(self.tallies.subtasks, which) if self.tallies.subtasks else which(self.tallies.total)
        return which(self.tallies.total) if self.metric == self.entry.primary_metric else None

    @property
    def _macro(self) -> str:
        metric, _, filter_name = self.entry.primary_metric.partition(",")
        return f"{metric}_macro,{filter_name}"


@dataclass(slots=True)
class Proof:
    """The result of verify for a pack.

    Attributes:
        pack: The folder.
        regraded: The folder of the run whose answers were graded, if any.
        edited: Files of the pack that changed since prepare.
        tasks: By name.
    """

    pack: Path
    regraded: Path | None
    edited: tuple[str, ...] = ()
    tasks: dict[str, TaskProof] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every checked task passed, and at least one was checked."""
        statuses = {report.status for report in self.tasks.values()}
        return "passed" in statuses and statuses <= {"passed", "not checked"}

    @property
    def exit_code(self) -> int:
        """0: passed. 2: a task cannot run, for a reason that you can fix. 1: any other failure."""
        if any(report.status == "failed" for report in self.tasks.values()):
            return 2
        return 0 if self.passed else 1
