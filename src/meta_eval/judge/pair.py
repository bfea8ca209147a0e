"""A task in baseline and candidate: what was read of both, which doc of one is which doc of the other, and the drop.

The candidate is the model in question. Its baseline is another run, or what Meta or a recorded run recorded: recorded
answers and verdicts are docs like any other. Several runs of a model have the same docs in the same order; their scores
are averaged doc by doc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from meta_eval import stats
from meta_eval.base.thresholds import SAME_VERDICT
from meta_eval.harness.doc_results import (
    COUNTED,
    LOWER_IS_BETTER,
    UNBOUNDED_METRICS,
    DocResult,
    FilterResult,
    MetricValue,
)
from meta_eval.harness.sample_parser import read_recorded_verdicts, restore_recorded_docs
from meta_eval.harness.scores import ScoredRun, is_fraction, leaves_unit_interval, list_metric_keys
from meta_eval.judge.alarm_kinds import RaisedAlarm
from meta_eval.judge.decision import SampleSource, TaskDecision
from meta_eval.judge.doc_pairs import (
    ChangedAnswers,
    Clusters,
    FilterDrop,
    GradedTwice,
    Key,
    LackingAnswers,
    RunPair,
    TimedLosses,
    make_number_key,
    make_prompt_key,
    make_question_key,
    pair_docs,
)
from meta_eval.stats import Drop

if TYPE_CHECKING:
    from meta_eval.harness.lm_eval_run import TaskRun
    from meta_eval.pack.baseline import Baseline
    from meta_eval.pack.manifest import TaskEntry


@dataclass(frozen=True, slots=True)
class MeasuredFlips:
    """How often two answers of one model to a doc differ."""

    share: float
    """The losses and gains between both answers together, as a share of the score."""

    docs: int
    """The number of docs, each counted as often as it was compared."""


@dataclass(frozen=True, kw_only=True)
class MeasuredDrop:
    """The drop of a task, with what is known of its noise."""

    measured_drop: Drop | None = None
    """From `stats.paired_drop`, or `stats.unpaired_drop` if the baseline's answers are unknown; None if nothing is
    compared.
    """

    repeats: int = 1
    """Number of runs of the candidate that the drop averages."""

    baseline_repeats: int | None = None
    """Number of runs of the baseline that it averages; None if the baseline cannot be repeated, like Meta's recorded
    answers.
    """

    runs: stats.RunSpread | None = None
    """How the runs of a side differ; None without repeats."""

    subtasks: Mapping[str, Drop] = field(default_factory=dict)
    """The drop of each subtask, if there are several."""

    measured_flips: MeasuredFlips | None = None
    """The flips between two answers of one model; None if no model answered twice."""

    newest: Drop | None = None
    """The drop between the newest runs; None if the drop averages no runs."""

    @property
    def drop(self) -> Drop:
        """The drop of a task that has one."""
        assert self.measured_drop is not None  # noqa: S101 (asked of no other)
        return self.measured_drop


@dataclass(frozen=True, slots=True)
class TaskSides:
    """A task as it was read on both sides, before anything is measured."""

    name: str
    """The task."""

    entry: TaskEntry | None = None
    """What the pack says of it."""

    candidate_runs: tuple[TaskRun, ...] = ()
    """Runs of the candidate, the newest first; none where the task was not run."""

    baseline_runs: tuple[TaskRun, ...] = ()
    """Runs of the baseline, the newest first; none where nobody's answers are known."""

    of_pack: bool = False
    """Whether the baseline is what its pack recorded, or published: with this the pack's own checks compare settings
    and numbers of docs."""

    metric_key: str | None = None
    """The ``metric,filter`` of single verdicts; None where there is none."""

    candidate: ScoredRun = field(default_factory=lambda: ScoredRun(()))
    """The scores of ``candidate_runs``."""

    baseline: ScoredRun | None = None
    """What the candidate is compared with doc by doc: the baseline's runs, else what was recorded."""

    sides: RunPair | None = None
    """``baseline`` and ``candidate``, of the docs that both have."""

    regraded_answers: ScoredRun | None = None
    """The recorded answers, as the pack grades them."""

    recorded_verdicts: ScoredRun | None = None
    """The recorded verdicts, in the metric of single verdicts."""

    recorded_run: ScoredRun | None = None
    """The scores that a recorded run was given then, in every metric."""

    missing_reason: str | None = None
    """Why there are no recorded answers, a clause."""

    def pair_docs_of_run(self, run: int) -> list[tuple[DocResult, DocResult]]:
        """The docs that the baseline and a run of the candidate have: those of the newest run of the baseline, and the
        same of this run."""
        return list(zip(self.sides.baseline.docs, self.sides.candidate.runs[run], strict=True)) if self.sides else []

    @property
    def baseline_answers(self) -> ScoredRun | None:
        """Answers of the baseline's runs."""
        return self.baseline if self.baseline_runs else None


@dataclass(frozen=True, slots=True)
class TaskPair(MeasuredDrop):
    """A task in baseline and candidate, measured: what decides on it, and what was found."""

    name: str
    """The task."""

    # What decides on its drop

    margin: float | None = None
    """The largest allowed drop of this task; None for the decision's margin."""

    cap: float | None = None
    """The limit of the worse end of this task's interval; None for the decision's cap."""

    # What was found

    read: TaskSides | None = None
    """What it was measured from; None for a group."""

    alarms: tuple[RaisedAlarm, ...] = ()
    """Its alarms."""

    drop_sides: RunPair | None = None
    """The paired docs as the drop takes them; None for a published score."""

    clusters: Clusters | None = None
    """The clusters of its docs."""

    filters: tuple[FilterDrop, ...] = ()
    """The drops by its other filters."""

    timed: TimedLosses | None = None
    """Losses from early to late answers."""

    cut_rate: Drop | None = None
    """How much more often the candidate's answers are cut; None where that is unknown."""

    twice: GradedTwice | None = None
    """The docs with the same answers on both sides; None for a published score."""

    changed: tuple[ChangedAnswers, ...] = ()
    """Traits that answers have on one side alone."""

    lacking: tuple[LackingAnswers, ...] = ()
    """The answers that are empty, cut or not read, by kind."""

    figures: TaskDecision | None = None
    """What a report shows of it, without the decision."""

    @property
    def has_drop(self) -> bool:
        """Whether anything is compared that a mean can include."""
        return self.measured_drop is not None

    @property
    def newest_drop(self) -> Drop:
        """The drop of single runs."""
        return self.newest or self.drop

    @property
    def shown(self) -> TaskDecision:
        """What a report shows of a task that was measured."""
        return self.figures or TaskDecision(self.name)


def pair_task(
    name: str,
    runs: Sequence[TaskRun],
    entry: TaskEntry | None,
    stored: Baseline | None,
    baseline_runs: Sequence[TaskRun] = (),
    *,
    of_pack: bool = False,
) -> TaskSides:
    """Find what a task is compared with, and pair the docs.

    Args:
        name: The task.
        runs: Of the candidate, the newest first.
        entry: What the pack says of the task.
        stored: What verify stored of the pack.
        baseline_runs: Of the baseline.
        of_pack: Whether these are the pack's recorded answers.
    """
    result = runs[0] if runs else None
    metric_key = find_verdict_metric(result, entry)
    lower = _find_lower_is_better([*runs, *(() if of_pack else baseline_runs)])
    candidate = ScoredRun([run.docs for run in runs], lower)
    if result is None:
        return TaskSides(name, entry=entry, of_pack=of_pack)
    graded, as_recorded = [run.all_runs(name) for run in (stored.graded, stored.recorded)] if stored else ((), ())
    regraded = ScoredRun([run.docs for run in graded], lower) if graded else None
    recorded_run = recorded_verdicts = ScoredRun([run.docs for run in as_recorded], lower) if as_recorded else None
    if recorded_run is None:
        if metric_key:
            reading = find_reading(result, entry)
            recorded_verdicts = read_verdict_run(result.docs, metric_key, entry, reading, lower)
        if entry is not None and entry.record is not None and (restored := restore_recorded_docs(result.docs)):
            recorded_run = ScoredRun([restored], lower)
    baseline = ScoredRun([run.docs for run in baseline_runs], lower) if baseline_runs else recorded_verdicts
    sides = None
    if baseline:
        content_key = _make_content_key(baseline, candidate)
        keys = (make_number_key,) if of_pack else (make_prompt_key, make_question_key, content_key)
        sides = pair_docs(baseline, candidate, *keys)
    return TaskSides(
        name,
        entry=entry,
        candidate_runs=tuple(runs),
        baseline_runs=tuple(baseline_runs),
        of_pack=of_pack,
        metric_key=metric_key,
        candidate=candidate,
        baseline=baseline,
        sides=sides,
        regraded_answers=regraded,
        recorded_verdicts=recorded_verdicts,
        recorded_run=recorded_run,
        missing_reason=stored.missing_reasons.get(name) if stored and of_pack else None,
    )


def _find_lower_is_better(runs: Sequence[TaskRun]) -> frozenset[str]:
    """The metrics of which less is better, by the first file that says so, else by their names."""
    if not runs:
        return LOWER_IS_BETTER
    said = {metric: higher for run in reversed(runs) for metric, higher in run.higher_is_better.items()}
    return runs[0].lower_is_better - said.keys() | {metric for metric, higher in said.items() if not higher}


def read_verdict_run(
    docs: Sequence[DocResult],
    metric_key: str,
    entry: TaskEntry | None,
    reading: str | None,
    lower_is_better: frozenset[str] = LOWER_IS_BETTER,
) -> ScoredRun | None:
    """Meta's recorded verdicts, in the metric of single verdicts and its macro average.

    Of the docs that have one. They are published with few decimals: where the candidate's is the same but for that, it
    is taken. None where there is none, or where they are no shares.
    """
    metric, _, name = metric_key.partition(",")
    verdicts, _ = read_recorded_verdicts(
        [doc.recorded_is_correct for doc in docs], [doc.recorded_metrics for doc in docs],
        (entry.recorded_metric if entry else None) or metric, reading,
    )  # fmt: skip
    recorded_docs = []
    for doc, recorded in zip(docs, verdicts, strict=True):
        if recorded is None or name not in doc.filter_results:
            continue
        if not 0 <= recorded <= 1:
            return None
        metrics = doc.filter_results[name].metrics
        recorded_metrics = {
            key: _match_shape(metrics[key], recorded) for key in (metric, f"{metric}_macro") if key in metrics
        }
        recorded_docs.append(doc.with_recorded({name: FilterResult(None, recorded_metrics, 0, 0)}))
    return ScoredRun([recorded_docs], lower_is_better) if recorded_docs else None


def _match_shape(candidate: MetricValue, recorded: float) -> MetricValue:
    """The recorded verdict in the shape of the candidate's."""
    if isinstance(candidate, tuple) and len(candidate) == 2 and isinstance(candidate[1], float):
        return (candidate[0], _match_shape(candidate[1], recorded))  # type: ignore[return-value]
    return candidate if isinstance(candidate, float) and abs(candidate - recorded) <= SAME_VERDICT else recorded


def _make_content_key(baseline: ScoredRun, candidate: ScoredRun) -> Key:
    """What the model was given and the right answer, where one doc of each alone has them: a dataset that got
    another column has other docs by lm-eval's hashes, and asks the same."""
    counts: list[Counter[Hashable]] = []

    def key(doc: DocResult) -> Hashable:
        if not counts:  # seldom: two runs of one pack have the same hashes
            counts.extend(Counter((doc.sent_hash, doc.gold) for doc in run.docs) for run in (baseline, candidate))
        content = doc.sent_hash, doc.gold
        return content if doc.sent_hash and all(count[content] == 1 for count in counts) else object()

    return key


def find_verdict_metric(result: TaskRun | None, entry: TaskEntry | None) -> str | None:
    """The ``metric,filter`` that tells whether an answer is right: the pack's, the run's, else its first fraction.

    None where there is none, as of a task of perplexities alone.
    """
    if entry is not None:
        return entry.primary_metric
    if result is None or not result.docs:
        return None
    return result.primary_metric or next(iter(list_fraction_metrics(result)), None)


def find_reading(result: TaskRun | None, entry: TaskEntry | None) -> str | None:
    """The ``metric,filter`` that Meta's ``is_correct`` is the like of where it is no verdict; None where it is one."""
    return entry.is_correct_metric if entry is not None else result.is_correct_metric if result is not None else None


def is_share(metric_key: str | None) -> bool:
    """Whether a metric may be a share from 0 to 1, by its name."""
    return metric_key is not None and metric_key.partition(",")[0] not in UNBOUNDED_METRICS


def list_fraction_metrics(result: TaskRun) -> list[str]:
    """Every ``metric,filter`` of a run that is a score from 0 to 1: of its docs, else of lm-eval's averages."""
    if "fractions" not in result.known:
        keys = [key for key in list_metric_keys(result.docs) if key.partition(",")[0] not in COUNTED]
        of_docs = [key for key in keys if is_fraction(result.docs, key)]
        averages = [
            key for key, aggregate in result.aggregates.items()
            if aggregate.is_fraction and key not in of_docs and key.partition(",")[0] not in COUNTED
            and not leaves_unit_interval(result.docs, key)
        ]  # fmt: skip
        result.known["fractions"] = of_docs + averages
    return result.known["fractions"]


def find_samples(pair: TaskSides, metric_key: str) -> SampleSource:
    """Where the samples of a task are."""
    recorded = pair.regraded_answers or pair.recorded_verdicts
    recorded_scores = recorded.scores_of_run(0, metric_key) if recorded else None
    verdicts: dict[Hashable, float] = {}
    if recorded and recorded_scores:
        numbered = zip(recorded_scores.doc_indices, recorded_scores.verdicts, strict=True)
        verdicts = {make_number_key(recorded.docs[at]): value for at, value in numbered}
    if pair.sides and not pair.of_pack:
        docs = tuple(zip(pair.sides.baseline.docs, pair.sides.candidate.docs, strict=True))
        runs = pair.baseline_runs[0], pair.candidate_runs[0]
        return SampleSource(metric_key, runs, docs, tuple(verdicts.get(make_number_key(doc)) for _, doc in docs))
    own_docs = pair.candidate.docs
    recorded_verdicts = tuple(map(verdicts.get, map(make_number_key, own_docs)))
    others = frozenset(doc.doc_id for doc in (recorded.docs if recorded else ()) if doc.prompt_matches is False)
    has_baseline_run = pair.entry is not None and pair.entry.baseline is not None
    return SampleSource(
        metric_key,
        pair.candidate_runs[:1],
        tuple((doc,) for doc in own_docs),
        recorded_verdicts,
        not has_baseline_run,
        others if has_baseline_run else frozenset(),
    )
