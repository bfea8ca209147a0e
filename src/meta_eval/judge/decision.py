"""What is decided of a task, as frozen data with all the figures that a report shows of it.

All scores, drops, bounds and published numbers are shares from 0 to 1. Views write percent and points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from meta_eval.base.plain_data import NOT_WRITTEN, make_plain, written
from meta_eval.base.thresholds import CutAnswers, Outcome
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.judge.own_unit import OwnUnitDrop
from meta_eval.stats import Drop, DropBreakdown, DropPart, Interval

# The interval of a drop of which nothing is known.
_UNKNOWN = Interval(-1.0, 1.0)

# Of a field that JSON has under the drop of its task.
_OF_DROP: Mapping[str, Any] = {**NOT_WRITTEN, "of_drop": True}

# Whose recorded answers and verdicts a run is compared with, where its pack says nothing else.
META = "Meta's"

# What the drop of a task is a drop from.
RECORDED_ANSWERS = f"{META} recorded answers, graded by the pack"
RECORDED_VERDICTS = f"{META} recorded verdicts"
NUMBER = "the published number alone"
RUN_A = "run A"

# What messages call the two runs of a comparison, and a run beside what its pack recorded.
SIDES, SIDES_OF_PACK = ("A", "B"), ("the baseline", "the run")

LEFT_OUT = "left out by the gate"
"""Why nothing is decided of a task that a gate does not judge."""


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
    """How far the baseline is from the reference score. It is due to the graders or the record, never to the copy."""

    task: str
    """Its name."""

    metric: str
    """Our metric, ``metric,filter``."""

    baseline: float | None
    """The score of Meta's recorded answers under our graders; None where there are none."""

    reference: float
    """The reference score, 0 to 1."""

    baseline_minus_reference: float | None
    """None without a baseline."""

    within_rounding: bool
    """Whether the difference is no more than what the published decimals leave open."""

    explanation: str | None
    """Where the difference comes from, in one sentence without a full stop; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a task in one metric, with the reference score that it is compared with."""

    metric: str
    """``metric,filter`` as lm-eval names it."""

    averaging: str
    """``micro``, ``macro``, ``mean of four`` …; in words. Of a task of no pack that has several metrics the metric."""

    docs: int | None
    """Docs that it is the score of; None where nobody wrote it down."""

    value: float | None
    """The score; None where the run has none. Without samples it is lm-eval's own average."""

    interval: Interval | None
    """Its interval at `LEVEL`; without samples by lm-eval's standard error."""

    reference: ReferenceScore | None
    """The published or recorded score that it is compared with; None where there is none."""

    candidate_minus_reference: float | None = None
    """None where the two are not comparable."""

    not_comparable_reason: str | None = None
    """Why they are not, a clause."""

    baseline_difference: BaselineDifference | None = None
    """From the reference score to the baseline that the drop is taken from: the graders' or the record's, and none of
    the run's. None where there is no baseline of known answers.
    """

    score_of_baseline: float | None = None
    """The score of run A over its own docs; None where no runs are compared."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A number beside the drop that decides: a metric, pass@k or maj@k (the verdict on the most frequent answer), or a
    subtask in the metric of single verdicts."""

    name: str
    """``metric,filter``, ``pass@4``, ``maj@4``, or the subtask."""

    docs: int
    """Docs that it is about."""

    value: float
    """Of the candidate, 0 to 1."""

    interval: Interval | None = None
    """Of it, at `LEVEL`; None for a subtask."""

    baseline: float | None = None
    """Of the baseline, over the docs of both. None without one, or if its answers are too few (pass@k) or not as many
    (maj@k)."""

    drop: DropPart | None = None
    """From the baseline, paired doc by doc; None without one."""

    clear: bool | None = None
    """Whether a subtask differs by more than chance would make any subtask differ (Holm over the subtasks); None for
    others."""


@dataclass(frozen=True, slots=True)
class CutSummary:
    """Answers that were cut (at their limit, by a content filter, or empty), and the scores with and without them.

    What is left out is not left out by chance: long answers are of hard questions. The baseline's score of the same
    docs is what the score without them is to be compared with.
    """

    metric: str
    """``metric,filter``."""

    docs: int
    """Docs of which an answer was cut, of several runs in one of them."""

    of: int
    """Docs that have a score."""

    score: float
    """Of all of them, as they were graded."""

    without: float | None
    """Of those that were cut in neither model; None if there are none."""

    baseline: float | None
    """The baseline's score of the same docs; None without a baseline."""

    as_wrong: float | None = None
    """Of all docs, with cut answers as wrong; None where nobody computed it."""

    baseline_docs: int | None = None
    """Docs that were cut in the baseline. None without a baseline, or if it is unknown how some of its answers ended;
    `baseline`, `drop_as_wrong` and `drop_without` are then None too.
    """

    more: DropPart | None = None
    """How much more often the candidate's answers are cut; None where that is not known of every answer."""

    drop: DropPart | None = None
    """As the answers were graded; None without a baseline."""

    drop_as_wrong: DropPart | None = None
    """With cut answers as wrong; None without a baseline."""

    drop_without: DropPart | None = None
    """Of the docs that were cut in neither; None where none is left."""

    docs_without: int = 0
    """How many those are."""

    empty: int = 0
    baseline_empty: int = 0
    """Of ``docs`` and ``baseline_docs`` those whose answer is empty."""

    counted: CutAnswers = "graded"
    """What the decision's drop does with cut answers (`meta_eval.judge.cut_answers`)."""

    thinking: int = 0
    """Of ``docs`` those cut before the end of their reasoning."""

    baseline_thinking: int | None = None
    """Of ``baseline_docs`` the same."""

    @property
    def differ_by_empty(self) -> bool:
        """Whether most of the difference between both sides is of empty answers."""
        more, more_empty = self.docs - (self.baseline_docs or 0), self.empty - self.baseline_empty
        return 2 * abs(more - more_empty) < abs(more)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampled answers."""

    answers: int
    """Graded answers to each doc of the candidate."""

    baseline_answers: int | None
    """Those of the baseline; None for a published score."""

    is_sampled: bool
    """Whether the run says that it drew answers at a temperature."""

    scores: tuple[Measure, ...]
    """Pass@k and maj@k; the score of the task is the mean over answers."""


@dataclass(frozen=True, slots=True)
class Flips:
    """Docs on which the verdicts of baseline and candidate differ; of several runs the newest."""

    baseline: str
    """Whose verdicts the baseline's are: ``A``, ``Meta's``, or ``the record's``."""

    candidate: str
    """Whose the candidate's are: ``B``, or ``ours``."""

    compared: int
    """Docs with both."""

    baseline_only: int
    """Docs to which only the baseline gives the point (of other scores: the higher one)."""

    candidate_only: int
    """The other way round."""

    json_also: ClassVar = ("agreed",)

    @property
    def agreed(self) -> int:
        return self.compared - self.baseline_only - self.candidate_only


@dataclass(frozen=True, slots=True)
class EngineNoise:
    """Docs that flip between two answers of one run: what the engine does by itself."""

    docs: int
    """Docs with two answers."""

    lost: int
    """Of them those whose second answer is worse."""

    won: int
    """Those whose second answer is better."""

    interval: Interval
    """Of the share that flips, at `LEVEL`; docs of one cluster are not independent."""

    explained: float | None
    """The share of the flips between baseline and candidate that this noise explains, at most 1; None where nothing
    flips there.
    """

    explained_interval: Interval | None
    """Of it, by ``interval``."""

    json_also: ClassVar = ("flipped",)

    @property
    def flipped(self) -> float:
        """The share of docs that flips."""
        return (self.lost + self.won) / self.docs


@dataclass(frozen=True, slots=True)
class LmEvalAverage:
    """lm-eval's own average: of a task in a metric that is not a fraction (perplexity, BLEU), or of a group."""

    name: str
    """The task or group."""

    metric: str
    """``metric,filter`` as lm-eval names it."""

    value: float
    """The average; of a share from 0 to 1."""

    interval: Interval | None
    """Its interval at `LEVEL`, by lm-eval's standard error; None where it gave none."""

    is_fraction: bool
    """Whether it is from 0 to 1."""

    baseline: float | None = None
    """What it is compared with: run A's, or what was recorded; None where there is nothing."""

    baseline_label: str = ""
    """Whose that is: ``A``, or ``recorded``."""

    lower_is_better: bool = False
    """Whether less is known to be better."""


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
class RepeatPlan:
    """The runs that would settle an undecided question.

    It assumes that the true drop is the estimate (0 for a gain), and that a decision is wanted four times out of five
    (`POWER`). There are no more docs. Repeats reduce the noise of engines, not the uncertainty from the selection of
    docs.
    """

    runs: tuple[tuple[str, int], ...] = field(metadata=written(dict))
    """Total runs that each task needs; a repeatable baseline needs as many. Empty if `MAX_PLANNED_RUNS` runs of
    everything do not suffice.
    """

    provable_margin: float
    """The smallest margin that the present runs are within: the upper end of the interval. Choosing it now would be
    after the fact; it is for the next comparison.
    """

    best_possible_margin: float
    """The smallest margin that unlimited repeats could show."""

    supposed: float
    """The drop that is taken to be true."""

    times_docs: float | None
    """How many times as many docs of this kind would settle it without repeats, at most `MAX_TIMES_DOCS`; None if more
    would be needed, or ``supposed`` is no smaller than the margin.
    """

    measured: bool
    """Whether the engine's noise was measured. If not, all flips count as noise, which is the best case: ``runs`` and
    ``best_possible_margin`` are then lower limits, and an A/A pair would measure the noise.
    """


@dataclass(frozen=True, slots=True)
class TaskDecision:
    """What is decided of a task, and the figures that a report shows of it.

    `meta_eval.judge.decide` has the rule. A task that is not decided has the outcome ``undecided``, no drop, and the
    reason.
    """

    name: str
    """The task."""

    subset: str | None = None
    """The details subset that its docs come from."""

    docs: int = 0
    """Docs that were scored."""

    prepared: int | None = None
    """Docs of the pack; None where no pack was named."""

    runs: int = 1
    """Runs that are averaged."""

    metric: str | None = None
    """The ``metric,filter`` of the drop, if any."""

    baseline_label: str | None = None
    """What the drop is a drop from, in words; None where there is none."""

    not_compared_reason: str | None = None
    """Why nothing is compared, a clause."""

    is_left_out: bool = field(default=False, metadata=NOT_WRITTEN)
    """Whether the gate does not judge it: its scores are shown, and nothing else is said of it."""

    fallback_reason: str | None = None
    """Why Meta's recorded answers are not the baseline, a clause; None if they or a run are."""

    # The decision

    outcome: Outcome = "undecided"
    """See `meta_eval.judge.decide`; of a task that is no share that of ``own_unit``."""

    decided_drop: Drop | None = field(default=None, metadata=NOT_WRITTEN)
    """The drop, positive for worse; None if it is not decided on."""

    interval: Interval = field(default=_UNKNOWN, metadata=NOT_WRITTEN)
    """The interval of the drop at `LEVEL`, which decides."""

    margin: float = field(default=0.0, metadata=_OF_DROP)
    """The largest allowed drop."""

    cap: float = field(default=0.0, metadata=_OF_DROP)
    """The limit of the interval's worse end for SHIP."""

    p: float = field(default=1.0, metadata=_OF_DROP)
    """Two-sided p value of no drop; below 5 % exactly if the interval excludes 0."""

    p_corrected: float = field(default=1.0, metadata=_OF_DROP)
    """After Holm's correction over the tasks."""

    detectable_drop: float = field(default=0.0, metadata=_OF_DROP)
    """The smallest true drop that such docs detect four times out of five, at Holm's first step, so it holds whatever
    the other tasks are.
    """

    weight: float = field(default=0.0, metadata=_OF_DROP)
    """The task's weight in the mean drop."""

    remark: str | None = field(default=None, metadata=_OF_DROP)
    """A further remark, a sentence without a full stop; None for none."""

    repeats_needed: RepeatPlan | None = field(default=None, metadata=_OF_DROP)
    """The runs that would show it to be within the margin; None if the interval does not contain the margin."""

    # Figures

    scores: tuple[Score, ...] = ()
    """Each metric that answers a published number, in the order of the pack."""

    metrics: tuple[Measure, ...] = ()
    """Of chat requests all metrics under the drop's filter, if several."""

    flips: Flips | None = None
    """Doc by doc."""

    noise: EngineNoise | None = field(
        default=None, metadata=written(lambda noise: {"noise": noise} if noise else {}, spread=True)
    )
    """Flips between two answers of the candidate, if docs were asked twice."""

    cut: CutSummary | None = None
    """Answers that were cut; None where none was, or nobody knows."""

    sampling: Sampling | None = None
    """Several or drawn answers to each doc; None for a single greedy answer."""

    gaps: tuple[str, ...] = ()
    """Known reasons why a number may differ, a sentence each."""

    subtasks: tuple[Measure, ...] = ()
    """By name; empty where there is only one."""

    averages: tuple[LmEvalAverage, ...] = ()
    """Its metrics that are no shares."""

    figures: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: {"candidate": {}, "baseline": {}})
    """The mean `FIGURES` of the answers of the newest run of each side, by key."""

    source: SampleSource | None = field(default=None, metadata=NOT_WRITTEN)
    """Where its samples are."""

    drop_breakdown: DropBreakdown | None = None
    """The parts of the drop from a recorded run that verify graded."""

    lower_is_better: bool = field(default=False, metadata=NOT_WRITTEN)
    """Whether a lower score is better."""

    members: tuple[str, ...] = ()
    """The tasks of a group."""

    own_unit: OwnUnitDrop | None = None
    """The drop of a task that is no share."""

    proven: bool = field(default=False, metadata=NOT_WRITTEN)
    """Whether its drop is proven larger than its margin, which alone means DON'T SHIP."""

    json_also: ClassVar = ("json_drop",)

    @property
    def is_beyond_margin(self) -> bool:
        """Whether it fails the run by itself: proven beyond its margin, as a share or in its own unit."""
        return self.proven or (self.own_unit is not None and self.own_unit.has_margin and self.outcome == "worse")

    @property
    def is_decided(self) -> bool:
        """Whether it has a drop that is decided on."""
        return self.decided_drop is not None

    @property
    def drop(self) -> Drop:
        """The drop of a task that is decided."""
        assert self.decided_drop is not None  # noqa: S101 (asked of no other)
        return self.decided_drop

    @property
    def json_drop(self) -> dict[str, Any] | None:
        """The drop as JSON has it, with the fields that decide on it; None if it is not decided on."""
        drop = self.decided_drop
        own = {each.name: getattr(self, each.name) for each in fields(self) if "of_drop" in each.metadata}
        return None if drop is None else {
            **make_plain(drop), **own, "paired": drop.paired, "docs": drop.docs, "clusters": drop.clusters,
            "recovery": drop.recovery, "recovery_interval": drop.recovery_interval(),
        }  # fmt: skip
