"""What a report says, as frozen data: what `judge` and `compare` give, and all that a view reads.

All scores, drops, bounds and published numbers are shares from 0 to 1. Views write percent and points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from meta_eval.base.thresholds import CutAnswers
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.judge.decide import Decision, Outcome, TaskDecision
from meta_eval.judge.metric_comparison import MetricComparison
from meta_eval.judge.own_unit import OwnUnitDrop
from meta_eval.stats import DropBreakdown, Interval

# Whose recorded answers and verdicts a run is compared with, where its pack says nothing else.
META = "Meta's"


@dataclass(frozen=True, slots=True)
class ReferenceScore:
    """A number that a score is compared with, and what it measures: a published score, or that of a recorded run."""

    value: float
    benchmark: str
    metric: str | None
    averaging: str | None
    shots: str | None
    source: str
    note: str | None
    origin: Literal["published", "recorded"] = "published"


@dataclass(frozen=True, slots=True)
class BaselineDifference:
    """How far the baseline is from the reference score. It is due to the graders or the record, never to the copy.

    Attributes:
        task: Its name.
        metric: Our metric, ``metric,filter``.
        baseline: The score of Meta's recorded answers under our graders; None where there are none.
        reference: The reference score, 0 to 1.
        baseline_minus_reference: None without a baseline.
        within_rounding: Whether the difference is no more than what the published decimals leave open.
        explanation: Where the difference comes from, in one sentence without a full stop; None where it is not known.
    """

    task: str
    metric: str
    baseline: float | None
    reference: float
    baseline_minus_reference: float | None
    within_rounding: bool
    explanation: str | None


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a task in one metric, with the reference score that it is compared with.

    Attributes:
        metric: ``metric,filter`` as lm-eval names it.
        averaging: ``micro``, ``macro``, ``mean of four`` …; in words. Of a task of no pack that has several metrics
            the metric.
        docs: Docs that it is the score of; None where nobody wrote it down.
        value: The score; None where the run has none. Without samples it is lm-eval's own average.
        interval: Its interval at `LEVEL`; without samples by lm-eval's standard error.
        reference: The published or recorded score that it is compared with; None where there is none.
        candidate_minus_reference: None where the two are not comparable.
        not_comparable_reason: Why they are not, a clause.
        baseline_difference: From the reference score to the baseline that the drop is taken from: the graders' or the
            record's, and none of the run's. None where there is no baseline of known answers.
    """

    metric: str
    averaging: str
    docs: int | None
    value: float | None
    interval: Interval | None
    reference: ReferenceScore | None
    candidate_minus_reference: float | None = None
    not_comparable_reason: str | None = None
    baseline_difference: BaselineDifference | None = None


@dataclass(frozen=True, slots=True)
class AlarmOccurrence:
    """A task that an alarm is about.

    Attributes:
        task, run: Its name, None for the whole run; and ``A`` or ``B``, where two are compared.
        count: Docs that it is true of, ``of`` so many; None where it is of the whole task.
        note: What else there is to say, a clause.
        veto: Whether this forbids SHIP.
    """

    task: str | None
    run: str | None = None
    count: int | None = None
    of: int | None = None
    note: str | None = None
    veto: bool = True


@dataclass(frozen=True, slots=True)
class AlarmKind:
    """A way in which runs go wrong.

    Attributes:
        name: What is wrong, in a few words.
        hint: What it means or what to do, one sentence.
        flag: The flag under which the table of samples finds these docs; None where it cannot.
        first: Whether it is stated before all figures.
        fails: Whether a veto means DON'T SHIP, not only no SHIP.
        invalid: Whether it makes a comparison invalid, so that it says nothing about the model.
        of_two_sides: Whether a run alone says nothing of it.
    """

    name: str
    hint: str
    flag: str | None = None
    first: bool = False
    fails: bool = False
    invalid: bool = False
    of_two_sides: bool = False


# The kind, as `meta_eval.judge.alarms.KINDS` names it or the name of a kind of a plug-in, and what happened.
RaisedAlarm = tuple[str, AlarmOccurrence]


@dataclass(frozen=True, slots=True)
class Alarm:
    """One way in which runs go wrong, and the tasks that it happened to: said before any score.

    Attributes:
        kind: What is wrong, in a few words: ``empty answers``.
        hint: What it means or what to do, one sentence.
        flag: The flag under which the table of samples finds these docs; None where it cannot.
        tasks: In the order of the report.
    """

    kind: str
    hint: str
    flag: str | None
    tasks: tuple[AlarmOccurrence, ...]

    @property
    def veto(self) -> bool:
        return any(task.veto for task in self.tasks)


@dataclass(frozen=True, slots=True)
class DropEstimate:
    """A drop, positive for worse, with its interval at `LEVEL`."""

    value: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class CutSummary:
    """Answers that were cut (at their limit, by a content filter, or empty), and the scores with and without them.

    What is left out is not left out by chance: long answers are of hard questions. The baseline's score of the same
    docs is what the score without them is to be compared with.

    Attributes:
        metric: ``metric,filter``.
        docs: Docs of which an answer was cut, of several runs in one of them.
        of: Docs that have a score.
        score: Of all of them, as they were graded.
        without: Of those that were cut in neither model; None if there are none.
        baseline: The baseline's score of the same docs; None without a baseline.
        as_wrong: Of all docs, with cut answers as wrong; None where nobody computed it.
        baseline_docs: Docs that were cut in the baseline. None without a baseline, or if it is unknown how some of its
            answers ended; `baseline`, `drop_as_wrong` and `drop_without` are then None too.
        more: How much more often the candidate's answers are cut; None where that is not known of every answer.
        drop, drop_as_wrong: As the answers were graded, and with cut ones as wrong; None without a baseline.
        drop_without: Of the docs that were cut in neither; None where none is left.
        docs_without: How many those are.
        counted: What the decision's drop does with cut answers (`meta_eval.judge.cut_answers`).
        thinking, baseline_thinking: Of ``docs`` and ``baseline_docs`` those cut before the end of their reasoning.
    """

    metric: str
    docs: int
    of: int
    score: float
    without: float | None
    baseline: float | None
    as_wrong: float | None = None
    baseline_docs: int | None = None
    more: DropEstimate | None = None
    drop: DropEstimate | None = None
    drop_as_wrong: DropEstimate | None = None
    drop_without: DropEstimate | None = None
    docs_without: int = 0
    counted: CutAnswers = "graded"
    thinking: int = 0
    baseline_thinking: int | None = None


@dataclass(frozen=True, slots=True)
class SampledScore:
    """pass@k or maj@k (the verdict on the most frequent answer).

    Attributes:
        name: ``pass@4``, ``maj@4``.
        value: Of the candidate, 0 to 1.
        interval: Of it, at `LEVEL`.
        baseline: Of the baseline; None without one, or if its answers are too few (pass@k) or not as many (maj@k).
        drop: From the baseline, paired doc by doc; None without one.
    """

    name: str
    value: float
    interval: Interval
    baseline: float | None
    drop: DropEstimate | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampled answers.

    Attributes:
        answers: Graded answers to each doc of the candidate.
        baseline_answers: Those of the baseline; None for a published score.
        is_sampled: Whether the run says that it drew answers at a temperature.
        scores: pass@k and maj@k; the score of the task is the mean over answers.
    """

    answers: int
    baseline_answers: int | None
    is_sampled: bool
    scores: tuple[SampledScore, ...]


@dataclass(frozen=True, slots=True)
class Flips:
    """Docs on which the verdicts of baseline and candidate differ; of several runs the newest.

    Attributes:
        baseline: Whose verdicts the baseline's are: ``A``, ``Meta's``, or ``the record's``.
        candidate: Whose the candidate's are: ``B``, or ``ours``.
        compared: Docs with both.
        baseline_only: Docs to which only the baseline gives the point (of other scores: the higher one).
        candidate_only: The other way round.
    """

    baseline: str
    candidate: str
    compared: int
    baseline_only: int
    candidate_only: int

    @property
    def agreed(self) -> int:
        return self.compared - self.baseline_only - self.candidate_only


@dataclass(frozen=True, slots=True)
class EngineNoise:
    """Docs that flip between two answers of one run: what the engine does by itself.

    Attributes:
        docs: Docs with two answers.
        lost, won: Of them those whose second answer is worse, and better.
        interval: Of the share that flips, at `LEVEL`; docs of one cluster are not independent.
        explained: The share of the flips between baseline and candidate that this noise explains, at most 1; None
            where nothing flips there.
        explained_interval: Of it, by ``interval``.
    """

    docs: int
    lost: int
    won: int
    interval: Interval
    explained: float | None
    explained_interval: Interval | None

    @property
    def flipped(self) -> float:
        """The share of docs that flips."""
        return (self.lost + self.won) / self.docs


@dataclass(frozen=True, slots=True)
class Subtask:
    """One subtask, in the metric of single verdicts.

    Attributes:
        name: Its name.
        docs: Its docs.
        value: The score.
        baseline: The baseline's score on the same docs; None where there is none.
        clear: Whether the difference is larger than chance would make that of any subtask (Holm over the subtasks).
    """

    name: str
    docs: int
    value: float
    baseline: float | None
    clear: bool


@dataclass(frozen=True, slots=True)
class LmEvalAverage:
    """lm-eval's own average: of a task in a metric that is not a fraction (perplexity, BLEU), or of a group.

    Attributes:
        name: The task or group.
        metric: ``metric,filter`` as lm-eval names it.
        value: The average; of a share from 0 to 1.
        interval: Its interval at `LEVEL`, by lm-eval's standard error; None where it gave none.
        is_fraction: Whether it is from 0 to 1.
        baseline: What it is compared with: run A's, or what was recorded; None where there is nothing.
        baseline_label: Whose that is: ``A``, or ``recorded``.
        lower_is_better: Whether less is known to be better.
    """

    name: str
    metric: str
    value: float
    interval: Interval | None
    is_fraction: bool
    baseline: float | None = None
    baseline_label: str = ""
    lower_is_better: bool = False


@dataclass(frozen=True, slots=True)
class SampleSource:
    """Where the samples of a task are: one run, or A and B, and for each sample its doc in each of them.

    ``recorded`` is the recorded verdict on each, None where there is none; ``metric`` the ``metric,filter`` of every
    verdict; ``texts`` whether the recorded answers of the samples are those that ``recorded`` judges;
    ``other_prompt_docs`` the numbers of the docs whose recorded answer is to another prompt than the pack's.
    """

    metric: str
    runs: tuple[TaskRun, ...]
    docs: tuple[tuple[DocResult, ...], ...]
    recorded: tuple[float | None, ...]
    texts: bool = True
    other_prompt_docs: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Task:
    """One task.

    Attributes:
        name: The task.
        subset: The details subset that its docs come from.
        docs: Docs that were scored.
        prepared: Docs of the pack; None where no pack was named.
        runs: Runs that are averaged.
        metric: The ``metric,filter`` of the drop, if any.
        lower_is_better: Whether a lower score is better.
        members: The tasks of a group.
        own_unit: The drop of a task that is no share.
        baseline_label: What the drop is a drop from, in words; None where there is none.
        not_compared_reason: Why nothing is compared, a clause.
        fallback_reason: Why Meta's recorded answers are not the baseline, a clause; None if they or a run are.
        decision: The drop and its outcome, if it is compared and asked for.
        scores: Each metric that answers a published number, in the order of the pack.
        metrics: Of chat requests all metrics under the drop's filter, if several.
        flips: Doc by doc.
        noise: Flips between two answers of the candidate, if docs were asked twice.
        cut: Answers that were cut; None where none was, or nobody knows.
        sampling: Several or drawn answers to each doc; None for a single greedy answer.
        gaps: Known reasons why a number may differ, a sentence each.
        subtasks: By name; empty where there is only one.
        averages: Its metrics that are no shares.
        candidate_figures, baseline_figures: The mean figures of answers (`meta_eval.harness.doc_results`), by key.
        source: Where its samples are.
        drop_breakdown: The parts of the drop from a recorded run that verify graded.
    """

    name: str
    subset: str | None
    docs: int
    prepared: int | None
    runs: int = 1
    metric: str | None = None
    baseline_label: str | None = None
    not_compared_reason: str | None = None
    fallback_reason: str | None = None
    decision: TaskDecision | None = None
    scores: tuple[Score, ...] = ()
    metrics: tuple[MetricComparison, ...] = ()
    flips: Flips | None = None
    noise: EngineNoise | None = None
    cut: CutSummary | None = None
    sampling: Sampling | None = None
    gaps: tuple[str, ...] = ()
    subtasks: tuple[Subtask, ...] = ()
    averages: tuple[LmEvalAverage, ...] = ()
    candidate_figures: Mapping[str, float] = field(default_factory=dict)
    baseline_figures: Mapping[str, float] = field(default_factory=dict)
    source: SampleSource | None = None
    drop_breakdown: DropBreakdown | None = None
    lower_is_better: bool = False
    members: tuple[str, ...] = ()
    own_unit: OwnUnitDrop | None = None

    @property
    def outcome(self) -> Outcome:
        judged = self.decision or self.own_unit
        return judged.outcome if judged else "undecided"


@dataclass(frozen=True, slots=True)
class Judgement:
    """All that is judged: the decision, alarms by kind (vetoes first), tasks, notes, and the parts of the mean drop."""

    decision: Decision
    alarms: tuple[Alarm, ...]
    tasks: tuple[Task, ...]
    notes: tuple[str, ...] = ()
    drop_breakdown: DropBreakdown | None = None
