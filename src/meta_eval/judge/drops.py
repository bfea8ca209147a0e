"""Chooses the baseline of a task, and measures its drop, its alarms and the figures that a report shows of it.

The baseline of a task is the first of these that exists:

1. **Meta's recorded answers**, graded by the pack's own graders (`meta_eval.pack.baseline`): doc by doc, in the
   published metric.
2. **Meta's recorded verdicts**, doc by doc, if they are in that metric and come from a program. With a judge model's
   verdicts, differences between graders would count as losses of the run.
3. **The published score** alone, if it was measured under the same settings.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from meta_eval import stats
from meta_eval.base.display import plural
from meta_eval.base.thresholds import MIN_RECORDED, SAME_VERDICT, CutAnswers
from meta_eval.harness.doc_results import DocResult, average_figures, find_cluster_names
from meta_eval.harness.lm_eval_run import TaskRun, find_disputed_metrics
from meta_eval.harness.provenance import GraderFacts
from meta_eval.harness.scores import ScoredRun, compute_scores
from meta_eval.judge.alarm_kinds import AlarmOccurrence, RaisedAlarm
from meta_eval.judge.changed_answers import list_changed
from meta_eval.judge.cut_answers import compare_cut_rates, describe_cut, explain_unknown_endings, treat_cut_answers
from meta_eval.judge.decision import (
    META,
    NUMBER,
    RECORDED_ANSWERS,
    RECORDED_VERDICTS,
    RUN_A,
    SIDES,
    SIDES_OF_PACK,
    CutSummary,
    Flips,
    Measure,
    TaskDecision,
)
from meta_eval.judge.doc_pairs import (
    Clusters,
    GradedTwice,
    LackingAnswers,
    RunPair,
    TimedLosses,
    make_number_key,
    pair_docs,
    pair_scores,
)
from meta_eval.judge.drop_breakdown import break_down_task_drop
from meta_eval.judge.figures import (
    compare_metrics,
    compute_subtask_drops,
    describe_subtasks,
    explain_incomparable,
    list_known_gaps,
    list_other_averages,
    list_scores,
    measure_sampling,
)
from meta_eval.judge.gate import Gate, GateTask, check_conditions, exceed_limits
from meta_eval.judge.grader_change import compare_graders
from meta_eval.judge.harness_alignment import describe_harnesses
from meta_eval.judge.own_unit import OwnUnitDrop, measure_own_unit
from meta_eval.judge.pair import (
    MeasuredDrop,
    MeasuredFlips,
    TaskPair,
    TaskSides,
    find_samples,
    find_verdict_metric,
    is_share,
    list_fraction_metrics,
)
from meta_eval.judge.pair_alarms import compute_filter_drops, list_placed_losses, measure_noise
from meta_eval.judge.read_docs import keep_read_docs, list_lacking
from meta_eval.judge.run_alarms import count_changed_prompts, find_alarms, find_run_problems, has_fixed_order
from meta_eval.judge.run_differences import compare_two_runs
from meta_eval.judge.score_pair import is_score_alone, pair_scores_alone
from meta_eval.pack.manifest import TaskEntry


def measure_task(read: TaskSides, gate: Gate, shared: frozenset[str]) -> TaskPair:
    """Measure the drop of a task, its alarms and the figures that a report shows, without the decision over all.

    Args:
        read: The task as it was read.
        gate: The rules, with those of each task.
        shared: See `doc_results.find_shared_questions`.
    """
    if not read.candidate_runs:
        subset, docs = (read.entry.subset, read.entry.docs) if read.entry else (None, None)
        missing = TaskDecision(read.name, subset, 0, docs, not_compared_reason="it was not run")
        return TaskPair(read.name, figures=missing, alarms=(("not run", AlarmOccurrence(read.name)),))
    rule, result = gate.task_rules(read.name), read.candidate_runs[0]
    if not read.of_pack and is_score_alone(read.baseline_runs[0], result):
        return pair_scores_alone(read, rule)

    def clusters(docs: Sequence[DocResult]) -> Sequence[Hashable] | None:
        return find_cluster_names(read.name, docs, shared)

    chosen, reason = _choose(read, rule)
    twice, chosen = _compare_graders(read, chosen) if chosen else (None, None)
    cut_rate = compare_cut_rates(chosen.sides, clusters) if chosen and chosen.sides else None
    cut = _cut(read, chosen, cut_rate, clusters)
    if cut and chosen and chosen.sides and (how := rule.cut_answers or "graded") != "graded":
        cut = replace(cut, counted=how)
        chosen, reason = _treat_cut(chosen, chosen.sides, how)
    own_unit = _measure_own_unit(read, rule, clusters) if chosen is None else None
    flips = _count_flips(read)
    noise = measure_noise(result, flips, clusters) if chosen and chosen.sides else None
    shown = _describe_task(read, chosen, cut, clusters)
    figures = replace(
        shown, not_compared_reason=reason, own_unit=own_unit, flips=flips, noise=noise[0] if noise else None
    )
    alarms = _find_task_alarms(read, chosen, rule, figures)
    if own_unit:
        alarms = [(kind, alarmed) for kind, alarmed in alarms if kind != "alone"]
    if not read.of_pack:
        figures, alarms, is_compared = compare_two_runs(read, figures, alarms, rule, is_measured=chosen is not None)
        if not is_compared:
            return TaskPair(read.name, figures=figures, alarms=tuple(alarms))
    sides, key = (chosen.sides, chosen.metric_key) if chosen else (None, "")
    return TaskPair(
        read.name,
        margin=rule.margin_fraction,
        cap=rule.cap_fraction,
        **(vars(_measure_drop(read, chosen, clusters)) if chosen else {}),
        read=read,
        alarms=tuple(alarms),
        drop_sides=sides,
        clusters=clusters if sides else None,
        filters=tuple(compute_filter_drops(sides, key, result.filters, clusters)) if sides else (),
        timed=TimedLosses(noise[1] if noise else (), list_placed_losses(sides, key, clusters)) if sides else None,
        cut_rate=cut_rate if sides else None,
        twice=twice,
        changed=list_changed(sides, key) if sides else (),
        lacking=list_lacking(sides, key, clusters) if sides else (),
        figures=figures,
    )


def measure_read_docs(pair: TaskPair, kinds: Sequence[LackingAnswers]) -> TaskPair | None:
    """The task with the drop over the docs whose answers lack nothing of these kinds on either side; None without."""
    sides, metric_key, clusters = pair.drop_sides, pair.shown.metric, pair.clusters
    docs = keep_read_docs(sides, metric_key, kinds) if sides and metric_key else None
    if docs is None or metric_key is None or clusters is None or pair.read is None:
        return None
    if pair_scores(docs, metric_key) is None:
        return None
    chosen = ChosenBaseline(pair.shown.baseline_label or "", metric_key, docs.candidate, docs.baseline)
    return replace(pair, **vars(_measure_drop(pair.read, chosen, clusters)), drop_sides=docs)


def _choose(pair: TaskSides, rule: GateTask) -> tuple[ChosenBaseline | None, str | None]:
    """The baseline, or the reason why there is none."""
    if pair.sides and not pair.of_pack and (rule.baseline_kind or "run") == "run":
        metrics = list_possible_metrics(pair.baseline_runs[0], pair.entry)
        chosen = choose_metric(pair.sides, metrics, RUN_A)
    else:
        chosen = choose_baseline(pair, rule)
    return (None, chosen) if isinstance(chosen, str) else (chosen, None)


def _treat_cut(chosen: ChosenBaseline, sides: RunPair, how: CutAnswers) -> tuple[ChosenBaseline | None, str | None]:
    """The baseline with cut answers counted as the rule says, or the reason why that cannot be."""
    treated = treat_cut_answers(sides, how)
    if reason := explain_unknown_endings(sides, how):
        return None, reason
    if not treated.docs:
        return None, "every doc has an answer that was cut, and these are unscored"
    return replace(chosen, baseline=treated.baseline, candidate=treated.candidate), None


def _describe_task(
    pair: TaskSides, chosen: ChosenBaseline | None, cut: CutSummary | None, clusters: Clusters
) -> TaskDecision:
    """The task as reports show it, without flips, noise and a drop in a unit of its own."""
    name, entry, metric_key, candidate = pair.name, pair.entry, pair.metric_key, pair.candidate
    result, run_a = pair.candidate_runs[0], None if pair.of_pack else pair.baseline_runs[0]
    chosen_key = chosen.metric_key if chosen else None
    # The distance to the published score is reported only for the evals dataset's record, not for other baselines.
    record = None if entry and entry.baseline else pair.regraded_answers or pair.recorded_verdicts
    return TaskDecision(
        name=name,
        subset=entry.subset if entry else None,
        docs=len(result.docs) or result.provenance.docs_run or 0,
        prepared=entry.docs if entry else run_a.provenance.docs_of_task if run_a else None,
        runs=len(pair.candidate_runs),
        metric=chosen_key,
        baseline_label=chosen.label if chosen else None,
        fallback_reason=pair.missing_reason,
        metrics=_compare_metrics(pair, chosen_key or metric_key, clusters),
        subtasks=describe_subtasks(candidate, metric_key, pair.sides) if metric_key else (),
        scores=list_scores(name, result, candidate, entry, record, chosen_key, pair.baseline if run_a else None),
        gaps=list_known_gaps(entry, result),
        cut=cut,
        sampling=measure_sampling(chosen.candidate, chosen.baseline, chosen.metric_key, result.provenance, clusters)
        if chosen
        else None,
        averages=list_other_averages(name, result, entry, run_a),
        figures={
            side: average_figures(doc.figures for doc in scored.docs) if scored else {}
            for side, scored in (("candidate", candidate), ("baseline", pair.baseline_answers))
        },
        source=find_samples(pair, metric_key) if metric_key else None,
        drop_breakdown=_break_down_drop(pair, chosen, clusters) if chosen else None,
        lower_is_better=(chosen_key or metric_key or "").partition(",")[0] in result.lower_is_better,
    )


def _find_task_alarms(
    pair: TaskSides, chosen: ChosenBaseline | None, rule: GateTask, figures: TaskDecision
) -> list[RaisedAlarm]:
    """The alarms of its runs, of what it is compared with, and of too few docs."""
    # In a comparison of two runs only the docs of the baseline are needed.
    needs_all = rule.min_docs is None or (
        pair.of_pack
        and not (chosen and chosen.sides and all(has_fixed_order(run, pair.entry) for run in pair.candidate_runs))
    )
    alarms = find_run_problems(pair.name, pair.candidate_runs, pair.entry, needs_all=needs_all)
    alarms += _find_answer_alarms(pair, pair.metric_key or "", rule, figures)
    alarms += _find_baseline_alarms(pair, chosen, figures.not_compared_reason)
    if chosen and chosen.sides and rule.min_docs and len(chosen.candidate.docs) < rule.min_docs:
        note = f"{plural(len(chosen.candidate.docs), 'doc')}, and {rule.min_docs:,} are asked for"
        alarms.append(("unfinished", AlarmOccurrence(pair.name, note=note)))
    return alarms


def _find_answer_alarms(pair: TaskSides, metric_key: str, rule: GateTask, figures: TaskDecision) -> list[RaisedAlarm]:
    """The alarms of each run's answers, and the conditions of the gate."""
    name, candidate, baseline = pair.name, pair.candidate, pair.baseline_answers
    scores = pair.baseline.scores(metric_key) if pair.baseline else None
    known = (score for score in figures.scores if score.candidate_minus_reference is not None)
    published = next((score.reference.value for score in known if score.reference), None)
    expected = scores.value if scores else published
    alarms: list[RaisedAlarm] = []
    for number, run in enumerate(pair.candidate_runs):
        alarms += find_alarms(name, run, candidate, number, metric_key, beside=baseline, expected=expected)
        docs, filter_name = candidate.runs[number], metric_key.partition(",")[2]
        pairs = pair.pair_docs_of_run(number) if rule.limits else []
        alarms += check_conditions(name, docs, filter_name, rule.limits, pairs)
    return [*alarms, *_find_alarms_of_baseline(pair, rule)]


def _find_alarms_of_baseline(pair: TaskSides, rule: GateTask) -> Iterator[RaisedAlarm]:
    """The same of the baseline's answers: of its runs, or of what was recorded. A limit of the gate that they exceed is
    no loss of the candidate."""
    answers, newest = pair.baseline_answers or pair.recorded_verdicts, pair.candidate_runs[0]
    if answers is None:
        return
    side = "the baseline" if pair.of_pack else "A"
    metric_key = (
        find_verdict_metric(pair.baseline_runs[0], pair.entry) if pair.baseline_runs else pair.metric_key
    ) or ""
    beside = ScoredRun([newest.docs], newest.lower_is_better)
    for number, docs in enumerate(answers.runs):
        run = pair.baseline_runs[number] if pair.baseline_runs else None
        alarms = [
            *find_alarms(
                pair.name,
                run,
                answers,
                number,
                metric_key,
                beside=beside,
                expected=None,
                is_candidate=False,
                of_pack=pair.of_pack,
            ),
            *exceed_limits(pair.name, docs, metric_key.partition(",")[2], rule.limits),
        ]
        yield from ((kind, replace(alarmed, run=side)) for kind, alarmed in alarms)


def _find_baseline_alarms(pair: TaskSides, chosen: ChosenBaseline | None, reason: str | None) -> list[RaisedAlarm]:
    """The alarm that there is no baseline, or that its prompts were others."""
    name, entry, metric_key = pair.name, pair.entry, pair.metric_key
    if reason:
        # A mean of shares cannot include BLEU or a perplexity, which are shown in their own units.
        occurrence = AlarmOccurrence(name, note=reason, veto=is_share(metric_key))
        return [("alone", occurrence)] if entry or not pair.of_pack else []
    baseline = chosen.baseline if chosen else None
    if baseline is None or not pair.of_pack:
        return []
    newest = pair.candidate_runs[0].provenance
    notes = [describe_harnesses(run.provenance, newest, SIDES_OF_PACK) for run in pair.baseline_runs[:1]]
    if entry and entry.baseline:
        other = count_changed_prompts(baseline.docs)
        notes += [f"{other:,} of {len(baseline.docs):,} answers of the baseline had another prompt"] if other else []
        notes += dict.fromkeys(run.other_settings for run in entry.baseline)
    known = [note for note in notes if note]
    return [("unlike", AlarmOccurrence(name, note="; ".join(known)))] if known else []


def _compare_graders(pair: TaskSides, chosen: ChosenBaseline) -> tuple[GradedTwice | None, ChosenBaseline]:
    """The docs whose answers are the same on both sides, and the sides with these docs as ties."""
    if chosen.sides is None:
        return None, chosen
    sides = SIDES if chosen.label == RUN_A else SIDES_OF_PACK
    # Recorded verdicts come without their answers, and nobody knows what graded them.
    is_graded = chosen.label == RUN_A or (pair.of_pack and any(doc.answer_hash for doc in chosen.sides.baseline.docs))
    graders = pair.baseline_runs[0].provenance.grader if is_graded and pair.baseline_runs else GraderFacts()
    both = graders, pair.candidate_runs[0].provenance.grader
    twice, tied = compare_graders(chosen.sides, chosen.metric_key, both, sides)
    return twice, replace(chosen, candidate=tied.candidate)


def _measure_own_unit(pair: TaskSides, rule: GateTask, clusters: Clusters) -> OwnUnitDrop | None:
    """The drop of a task that is no share, from the runs of a baseline or from what was recorded."""
    if not pair.candidate_runs or not (pair.baseline_runs or pair.sides):
        return None
    runs = [*pair.baseline_runs[:1], pair.candidate_runs[0]]
    if set.intersection(*(set(list_fraction_metrics(run)) for run in runs)):
        return None
    docs = (pair.sides.baseline.runs, pair.sides.candidate.runs) if pair.sides else None
    return measure_own_unit(
        pair.baseline_runs,
        pair.candidate_runs,
        docs,
        pair.metric_key,
        pair.candidate.lower_is_better,
        rule.margin,
        clusters,
    )


def _cut(
    pair: TaskSides, chosen: ChosenBaseline | None, rate: stats.Drop | None, clusters: Clusters
) -> CutSummary | None:
    """The scores with and without cut answers, in the metric of the drop where there is one."""
    metric_key, sides = (chosen.metric_key, chosen.sides) if chosen else (pair.metric_key, pair.sides)
    return describe_cut(pair.candidate, sides, metric_key, rate, clusters) if metric_key else None


def _compare_metrics(pair: TaskSides, metric_key: str | None, clusters: Clusters) -> tuple[Measure, ...]:
    if metric_key is None or not pair.candidate_runs[0].is_chat:
        return ()
    candidate, both = pair.candidate, pair.sides
    docs = (both.baseline.runs, both.candidate.runs) if both and both.docs else None
    disputed = find_disputed_metrics(*pair.candidate_runs, *pair.baseline_runs)
    return compare_metrics(candidate.runs, docs, metric_key, candidate.lower_is_better, clusters, disputed)


def _break_down_drop(pair: TaskSides, chosen: ChosenBaseline, clusters: Clusters) -> stats.DropBreakdown | None:
    if not pair.of_pack or pair.recorded_run is None or pair.regraded_answers is None:
        return None
    return break_down_task_drop(
        pair.recorded_run,
        pair.regraded_answers,
        pair.candidate,
        chosen.metric_key,
        clusters,
    )


def _measure_drop(read: TaskSides, chosen: ChosenBaseline, clusters: Clusters) -> MeasuredDrop:
    candidate = chosen.candidate.scores(chosen.metric_key)
    assert candidate is not None  # noqa: S101 (that is how it was chosen)
    names = clusters([chosen.candidate.docs[position] for position in candidate.doc_indices])
    sides = [
        [scores.paired_contributions for scores in side.scores_by_run(chosen.metric_key)] if side else []
        for side in (chosen.baseline, chosen.candidate)
    ]
    if chosen.baseline:
        measured = measure_run_drop(sides[0], sides[1], candidate.labels, names)
    else:
        drop = stats.unpaired_drop(chosen.published, candidate.contributions, candidate.labels, names)
        runs = stats.measure_runs((), sides[1], candidate.labels, names)
        measured = MeasuredDrop(measured_drop=replace(drop, run_variance=runs.of_drop if runs else 0.0), runs=runs)
    drop, newest = measured.drop, measured.newest
    if candidate.lower_is_better:
        drop, newest = drop.invert(), newest and newest.invert()
    return MeasuredDrop(
        measured_drop=drop,
        runs=measured.runs,
        measured_flips=_add_flips_of_rerun(measured.measured_flips, read.candidate_runs[0]),
        newest=newest,
        repeats=len(chosen.candidate.runs),
        baseline_repeats=len(read.baseline_runs) if chosen.label == RUN_A else None,
        subtasks=compute_subtask_drops(chosen.candidate, chosen.metric_key, chosen.sides),
    )


def measure_run_drop(
    baseline: Sequence[Sequence[float]],
    candidate: Sequence[Sequence[float]],
    labels: Sequence[Hashable] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> MeasuredDrop:
    """Measure the drop between the means of the runs of both sides, and how the runs of a side differ.

    Args:
        baseline, candidate: Of each run, the newest first, what each doc contributes to its score, from 0 to 1.
        labels: The subtask of each doc, where the metric is an average over subtasks.
        clusters: The cluster of each doc; None if docs are independent.
    """
    drop = stats.paired_drop(stats.average_runs(baseline), stats.average_runs(candidate), labels, clusters)
    runs = stats.measure_runs(baseline, candidate, labels, clusters)
    if runs is None:
        return MeasuredDrop(measured_drop=drop)
    return MeasuredDrop(
        measured_drop=replace(drop, run_variance=runs.of_drop),
        runs=runs,
        measured_flips=MeasuredFlips(runs.flips, runs.freedom * drop.docs),
        newest=stats.paired_drop(baseline[0], candidate[0], labels, clusters),
        repeats=len(candidate),
        baseline_repeats=len(baseline),
    )


def _add_flips_of_rerun(flips: MeasuredFlips | None, newest: TaskRun) -> MeasuredFlips | None:
    """The flips between answers of one model: of its runs, and of answers that were asked again."""
    rerun = newest.provenance.rerun
    scores = compute_scores(newest.docs, rerun.metric, newest.lower_is_better) if rerun else None
    if rerun is None or scores is None:
        return flips
    changes = [
        abs(value - rerun.values[newest.docs[place].doc_id])
        for place, value in zip(scores.doc_indices, scores.doc_scores, strict=True)
        if newest.docs[place].doc_id in rerun.values
    ]
    known = [(flips.share, flips.docs)] if flips else []
    known += [(stats.mean(changes), len(changes))] if changes else []
    docs = sum(count for _, count in known)
    return MeasuredFlips(math.fsum(share * count for share, count in known) / docs, docs) if docs else None


# Doc by doc


def _count_flips(read: TaskSides) -> Flips | None:
    """Count the docs whose single verdicts differ, with the owner of each side."""
    if read.sides is None or read.metric_key is None:
        return None
    baseline, candidate = (scored.scores_of_run(0, read.metric_key) for scored in read.sides)
    if baseline is None or candidate is None or baseline.doc_indices != candidate.doc_indices:
        return None
    changes = [b - a for a, b in zip(baseline.verdicts, candidate.verdicts, strict=True)]
    down, up = sum(change < -SAME_VERDICT for change in changes), sum(change > SAME_VERDICT for change in changes)
    recorded = read.entry.baseline_owner if read.entry else META
    return Flips(*((recorded, "ours") if read.of_pack else SIDES), len(changes), down, up)


@dataclass(frozen=True, slots=True)
class ChosenBaseline:
    """The pair in ``metric_key``, over the same docs; for a published score alone, all docs of the candidate."""

    label: str
    metric_key: str
    candidate: ScoredRun
    baseline: ScoredRun | None = None
    published: float = 0.0

    @property
    def sides(self) -> RunPair | None:
        """Both; None for a published score."""
        return RunPair(self.baseline, self.candidate) if self.baseline else None


def choose_baseline(pair: TaskSides, rule: GateTask) -> ChosenBaseline | str:
    """Choose the baseline among Meta's data; else return the reason why there is none."""
    result, candidate, entry = pair.candidate_runs[0], pair.candidate, pair.entry
    if entry is None:
        return "no pack says what it is to be compared with"
    if not result.docs:
        return "there are no samples: run lm_eval with --log_samples"
    metrics = list_possible_metrics(result, entry)
    few = None
    if rule.baseline_kind != "published":
        verdicts = pair.recorded_verdicts if entry.graded_by == "program" or entry.baseline else None
        for label, baseline in ((RECORDED_ANSWERS, pair.regraded_answers), (RECORDED_VERDICTS, verdicts)):
            if baseline is not None:
                sides = pair_docs(baseline, candidate, make_number_key)
                chosen = choose_metric(sides, metrics, label.replace(f"{META} recorded", entry.baseline_owner_recorded))
                if len(sides.baseline.docs) < MIN_RECORDED * len(candidate.docs):
                    few = f"only {len(sides.baseline.docs):,} of {len(candidate.docs):,} docs have a recorded answer"
                elif not isinstance(chosen, str):
                    return chosen
        if rule.baseline_kind == "recorded":
            return few or "there are no recorded answers or verdicts to compare it with"
    nothing = _describe_nothing(pair, entry)
    for number in entry.reference_scores:
        if (reason := explain_incomparable(result, candidate, entry, number)) is None:
            return ChosenBaseline(NUMBER, number.metric, candidate, published=number.value / 100)
        nothing = reason
    return few or nothing


def _describe_nothing(pair: TaskSides, entry: TaskEntry) -> str:
    """Why there is no baseline, where no number was tried."""
    if not entry.record:
        return "no number was published for this subset"
    if pair.regraded_answers is None and pair.recorded_verdicts is None:
        return "no answer to its docs is recorded"
    return "no recorded score of it is a share"


def choose_metric(sides: RunPair, metrics: Sequence[str], label: str) -> ChosenBaseline | str:
    """Choose the first metric that both sides have; else return the reason why there is none."""
    for metric_key in metrics:
        if pair_scores(sides, metric_key) is not None:
            return ChosenBaseline(label, metric_key, sides.candidate, sides.baseline)
    return "there is no metric that both have and that is a share"


def list_possible_metrics(result: TaskRun, entry: TaskEntry | None) -> list[str]:
    """Possible metrics for the drop, in order of preference: metrics with a published score first."""
    numbers = sorted(entry.reference_scores, key=lambda number: not number.same_settings) if entry else ()
    published = [number.metric for number in numbers] if entry else list(result.published_metrics)
    verdict = find_verdict_metric(result, entry)
    return [*published, *([verdict] if verdict else ())]
