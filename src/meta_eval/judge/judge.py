"""Compares every task of a run with its baseline, and decides over all. Scores from 0 to 1.

`meta_eval.judge.baseline_choice` chooses what a task is compared with; in `meta_eval.judge.compare` it is another
run. The distance from the baseline to the published number is reported beside the drop and is no part of it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

from meta_eval import stats
from meta_eval.base.display import plural
from meta_eval.base.errors import ConfigError
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import SAME_VERDICT, CutAnswers
from meta_eval.harness.doc_results import (
    UNBOUNDED_METRICS,
    DocResult,
    average_figures,
    find_cluster_names,
    find_shared_questions,
)
from meta_eval.harness.lm_eval_run import Choice, Run, find_disputed_metrics
from meta_eval.harness.provenance import GraderFacts
from meta_eval.harness.scores import Scores, compute_scores
from meta_eval.judge.alarms import RaisedAlarm, count_changed_prompts, find_alarms, find_faults, find_run_problems
from meta_eval.judge.baseline_choice import RUN_A, ChosenBaseline, choose_baseline, choose_metric, list_metrics
from meta_eval.judge.conditions import check_conditions
from meta_eval.judge.cut_answers import (
    Clusters,
    compare_cut_rates,
    describe_cut,
    explain_unknown_endings,
    treat_cut_answers,
)
from meta_eval.judge.decide import TaskDrop
from meta_eval.judge.drop_breakdown import break_down_task_drop
from meta_eval.judge.engine_noise import TimedLosses, list_placed_losses, measure_noise
from meta_eval.judge.filters import compute_filter_drops
from meta_eval.judge.gate import Gate, GateTask
from meta_eval.judge.grader_changes import raise_grader_change
from meta_eval.judge.groups import assess_groups, choose_entries, list_decided_names
from meta_eval.judge.judgement import META, AlarmOccurrence, CutSummary, Flips, Judgement, Task
from meta_eval.judge.lacking_docs import has_fixed_order
from meta_eval.judge.metric_comparison import MetricComparison, compare_metrics
from meta_eval.judge.origin_alarms import find_run_origins
from meta_eval.judge.own_unit import OwnUnitDrop, measure_own_unit
from meta_eval.judge.published_scores import (
    list_known_gaps,
    list_other_averages,
    list_scores,
)
from meta_eval.judge.sampled_scores import describe_sampling
from meta_eval.judge.subtask_drops import compute_subtask_drops, describe_subtasks
from meta_eval.judge.task_assessment import TaskAssessment, conclude_judgement
from meta_eval.judge.task_comparison import (
    RunPair,
    TaskComparison,
    build_task_comparison,
    list_fraction_metrics,
)
from meta_eval.judge.task_drop import MeasuredFlips
from meta_eval.judge.unread_answers import split_unread
from meta_eval.pack.baseline import Baseline
from meta_eval.pack.manifest import Manifest


def judge_run(
    run: Run,
    manifest: Manifest | None,
    stored: Baseline | None = None,
    gate: Gate | None = None,
    choice: Choice | None = None,
    evidence: Iterable[RaisedAlarm] = (),
) -> Judgement:
    """Judge every task of the pack and of the run, in the order of their names.

    Call `meta_eval.pack.pack_match.match_pack` first: this function assumes that the docs are the pack's.

    Args:
        run: The run, or its repeats.
        manifest: Its pack. Without it there are scores but no comparison.
        stored: The recorded answers as verify graded and stored them.
        gate: The rules of the decision.
        choice: The tasks to decide on; tasks that it leaves out never count.
        evidence: Alarms of plug-ins (`meta_eval.judge.evidence`).

    Raises:
        ConfigError: The rules name an unknown task, or a baseline run.
    """
    entries, groups, left_out = choose_entries([run], manifest, choice or Choice())
    completed = (gate or Gate()).complete(manifest, [*run.tasks, *entries, *left_out], groups)
    names = sorted({*run.tasks, *entries} - run.faults.keys())
    default_tasks = sorted(entries) if manifest else [*names, *filter(None, run.faults)]
    completed, default_tasks = completed.choose(default_tasks, groups, left_out)
    task_gate = completed.expand_groups(groups)
    decided = task_gate.tasks or default_tasks
    without_run = [name for name in decided if name not in entries or not entries[name].baseline]
    if lacking := [name for name in without_run if task_gate.task_rules(name).baseline_kind == "run"]:
        raise ConfigError(
            f"baseline_kind: run needs a baseline run of {join_names(lacking)}",
            hint="Give both to `meta-eval compare`, or name it as baseline in the configuration",
        )
    shared = find_shared_questions([run.tasks[name].docs for name in decided if name in run.tasks])
    comparisons = [build_task_comparison(name, run.all_runs(name), entries.get(name), stored) for name in names]
    assessments = [assess_task(compared, task_gate, shared) for compared in comparisons]
    assessments += assess_groups(run, assessments, completed)
    decided_names = list_decided_names(completed, groups, assessments, default_tasks)
    run_alarms: list[RaisedAlarm] = [*evidence, *find_faults(run), *find_run_origins(run)]
    return conclude_judgement(
        assessments,
        completed,
        decided_names,
        run_alarms if manifest else [*run_alarms, ("no pack", AlarmOccurrence(None))],
    )


def assess_task(compared: TaskComparison, gate: Gate, shared: frozenset[str]) -> TaskAssessment:
    """Judge a task, without the decision over all.

    Args:
        compared: Its comparison.
        gate: The rules, with those of each task.
        shared: See `shared_questions.find_shared_questions`.
    """
    if not compared.candidate_runs:
        return _assess_missing(compared)
    rule = gate.task_rules(compared.name)

    def clusters(docs: Sequence[DocResult]) -> Sequence[Hashable] | None:
        return find_cluster_names(compared.name, docs, shared)

    chosen, reason = _choose(compared, rule)
    grading = list(_find_grader_change(compared, chosen, rule.margin_fraction or gate.margin_fraction))
    cut_rate = compare_cut_rates(chosen.pair, clusters) if chosen and chosen.pair else None
    cut = _cut(compared, chosen, cut_rate, clusters)
    if cut and chosen and chosen.pair and (how := rule.cut_answers or "graded") != "graded":
        cut = replace(cut, counted=how)
        chosen, reason = _treat_cut(chosen, chosen.pair, how)
    task_drop = _measure_task_drop(compared, chosen, rule, clusters) if chosen else None
    task = _describe_task(compared, chosen, reason, cut, clusters)
    own_unit = _measure_own_unit(compared, rule, clusters) if chosen is None else None
    task = replace(task, own_unit=own_unit)
    alarms = [*_find_task_alarms(compared, chosen, rule, task), *grading]
    if own_unit and not compared.baseline_runs:
        alarms = [(kind, alarmed) for kind, alarmed in alarms if kind != "alone"]
    if chosen is None or chosen.pair is None:
        return TaskAssessment(task, task_drop, tuple(alarms))

    result = compared.candidate_runs[0]
    others = compute_filter_drops(chosen.pair, chosen.metric_key, result.filters, clusters)
    measured = measure_noise(result, task.flips, clusters)
    timed = TimedLosses(measured[1] if measured else (), list_placed_losses(chosen.pair, chosen.metric_key, clusters))
    return TaskAssessment(
        replace(task, noise=measured[0]) if measured else task,
        task_drop,
        tuple(alarms),
        chosen.pair,
        clusters,
        tuple(others),
        timed,
        cut_rate,
        rule.cut_answers or "graded",
        split_unread(chosen.pair, chosen.metric_key),
    )


def _assess_missing(compared: TaskComparison) -> TaskAssessment:
    entry = compared.entry
    subset, docs = (entry.subset, entry.docs) if entry else (None, None)
    task = Task(compared.name, subset, 0, docs, not_compared_reason="it was not run")
    return TaskAssessment(task, None, (("not run", AlarmOccurrence(compared.name)),))


def _choose(compared: TaskComparison, rule: GateTask) -> tuple[ChosenBaseline | None, str | None]:
    """The baseline, or the reason why there is none."""
    if compared.baseline_runs and compared.pair and (rule.baseline_kind or "run") == "run":
        metrics = list_metrics(compared.baseline_runs[0], compared.entry)
        chosen = choose_metric(compared.pair, metrics, RUN_A)
    else:
        chosen = choose_baseline(compared, rule)
    return (None, chosen) if isinstance(chosen, str) else (chosen, None)


def _treat_cut(chosen: ChosenBaseline, pair: RunPair, how: CutAnswers) -> tuple[ChosenBaseline | None, str | None]:
    """The baseline with cut answers counted as the rule says, or the reason why that cannot be."""
    treated = treat_cut_answers(pair, how)
    if reason := explain_unknown_endings(pair, how):
        return None, reason
    if not treated.docs:
        return None, "every doc has an answer that was cut, and these are unscored"
    return replace(chosen, baseline=treated.baseline, candidate=treated.candidate), None


def _describe_task(
    compared: TaskComparison,
    chosen: ChosenBaseline | None,
    reason: str | None,
    cut: CutSummary | None,
    clusters: Clusters,
) -> Task:
    """The task as reports show it, without the noise of its engine."""
    name, entry, metric_key, candidate = compared.name, compared.entry, compared.metric_key, compared.candidate
    result, baseline_run = compared.candidate_runs[0], next(iter(compared.baseline_runs), None)
    chosen_key = chosen.metric_key if chosen else None
    owner = "" if baseline_run else entry.baseline_owner if entry else META
    baseline_answers = compared.baseline_answers
    # The distance to the published score is reported only for the evals dataset's record, not for other baselines.
    record = None if entry and entry.baseline else compared.regraded_answers or compared.recorded_verdicts
    return Task(
        name=name,
        subset=entry.subset if entry else None,
        docs=len(result.docs) or result.provenance.docs_run or 0,
        prepared=entry.docs if entry else baseline_run.provenance.docs_of_task if baseline_run else None,
        runs=len(compared.candidate_runs),
        metric=chosen_key,
        baseline_label=chosen.label if chosen else None,
        not_compared_reason=reason,
        fallback_reason=compared.missing_reason,
        metrics=_compare_metrics(compared, chosen_key or metric_key, clusters),
        flips=_flips(compared.pair, metric_key, owner) if compared.pair and metric_key else None,
        subtasks=describe_subtasks(candidate, metric_key, compared.pair) if metric_key else (),
        scores=list_scores(name, result, candidate, entry, record, chosen_key),
        gaps=list_known_gaps(entry, result),
        cut=cut,
        sampling=describe_sampling(chosen.candidate, chosen.baseline, chosen.metric_key, result.provenance, clusters)
        if chosen
        else None,
        averages=list_other_averages(name, result, entry, baseline_run),
        candidate_figures=average_figures(doc.figures for doc in candidate.docs),
        baseline_figures=average_figures(doc.figures for doc in baseline_answers.docs) if baseline_answers else {},
        source=compared.source,
        drop_breakdown=_break_down_drop(compared, chosen, clusters) if chosen else None,
        lower_is_better=(chosen_key or metric_key or "").partition(",")[0] in result.lower_is_better,
    )


def _find_task_alarms(
    compared: TaskComparison, chosen: ChosenBaseline | None, rule: GateTask, task: Task
) -> list[RaisedAlarm]:
    """The alarms of its runs, of what it is compared with, and of too few docs."""
    # In a comparison of two runs only the docs of the baseline are needed.
    needs_all = rule.min_docs is None or (
        not compared.baseline_runs
        and not (
            chosen and chosen.pair and all(has_fixed_order(run, compared.entry) for run in compared.candidate_runs)
        )
    )
    alarms = find_run_problems(compared.name, compared.candidate_runs, compared.entry, needs_all=needs_all)
    alarms += _find_answer_alarms(compared, compared.metric_key or "", rule, task)
    alarms += _find_baseline_alarms(compared, chosen, task.not_compared_reason)
    if chosen and chosen.pair and rule.min_docs and len(chosen.candidate.docs) < rule.min_docs:
        note = f"{plural(len(chosen.candidate.docs), 'doc')}, and {rule.min_docs:,} are asked for"
        alarms.append(("unfinished", AlarmOccurrence(compared.name, note=note)))
    return alarms


def _find_answer_alarms(compared: TaskComparison, metric_key: str, rule: GateTask, task: Task) -> list[RaisedAlarm]:
    """The alarms of each run's answers, and the conditions of the gate."""
    name, candidate, baseline = compared.name, compared.candidate, compared.baseline_answers
    scores = compared.baseline.scores(metric_key) if compared.baseline else None
    known = (score for score in task.scores if score.candidate_minus_reference is not None)
    published = next((score.reference.value for score in known if score.reference), None)
    expected = scores.value if scores else published
    alarms: list[RaisedAlarm] = []
    for number, run in enumerate(compared.candidate_runs):
        alarms += find_alarms(name, run, candidate, number, metric_key, baseline=baseline, expected=expected)
        alarms += check_conditions(name, candidate.runs[number], metric_key.partition(",")[2], rule.limits)
    return alarms


def _find_baseline_alarms(
    compared: TaskComparison, chosen: ChosenBaseline | None, reason: str | None
) -> list[RaisedAlarm]:
    """The alarm that there is no baseline, or that its prompts were others."""
    name, entry, metric_key = compared.name, compared.entry, compared.metric_key
    if reason:
        # A mean of shares cannot include BLEU or a perplexity, which are shown in their own units.
        occurrence = AlarmOccurrence(name, note=reason, veto=is_share(metric_key))
        return [("alone", occurrence)] if entry or compared.baseline_runs else []
    baseline = chosen.baseline if chosen else None
    if baseline is None or compared.baseline_runs or not entry or not entry.baseline:
        return []
    other = count_changed_prompts(baseline.docs)
    note = f"{other:,} of {len(baseline.docs):,} answers of the baseline had another prompt"
    return [("unlike", AlarmOccurrence(name, note=note))] if other else []


def _find_grader_change(
    compared: TaskComparison, chosen: ChosenBaseline | None, margin: float
) -> Iterator[RaisedAlarm]:
    """The alarm that both sides were graded differently, or may have been."""
    if chosen is None or chosen.pair is None:
        return
    graders, sides = GraderFacts(), ("the baseline", "the run")
    if chosen.label == RUN_A:
        graders, sides = compared.baseline_runs[0].provenance.grader, ("A", "B")
    elif any(doc.answer_hash for doc in chosen.pair.baseline.docs):  # recorded verdicts come without their answers
        graders = GraderFacts(lm_eval=compared.regraded_by)
    both = graders, compared.candidate_runs[0].provenance.grader
    yield from raise_grader_change(compared.name, chosen.pair, chosen.metric_key, both, margin, sides)


def is_share(metric_key: str | None) -> bool:
    """Whether a metric may be a share from 0 to 1, by its name."""
    return metric_key is not None and metric_key.partition(",")[0] not in UNBOUNDED_METRICS


def _measure_own_unit(compared: TaskComparison, rule: GateTask, clusters: Clusters) -> OwnUnitDrop | None:
    """The drop of a task that is no share, from the runs of a baseline or from what was recorded."""
    if not compared.candidate_runs or not (compared.baseline_runs or compared.pair):
        return None
    runs = [*compared.baseline_runs[:1], compared.candidate_runs[0]]
    if set.intersection(*(set(list_fraction_metrics(run)) for run in runs)):
        return None
    sides = (compared.pair.baseline.runs, compared.pair.candidate.runs) if compared.pair else None
    return measure_own_unit(
        compared.baseline_runs,
        compared.candidate_runs,
        sides,
        compared.metric_key,
        compared.candidate.lower_is_better,
        rule.margin,
        clusters,
    )


def _cut(
    compared: TaskComparison, chosen: ChosenBaseline | None, rate: stats.Drop | None, clusters: Clusters
) -> CutSummary | None:
    """The scores with and without cut answers, in the metric of the drop where there is one."""
    metric_key, pair = (chosen.metric_key, chosen.pair) if chosen else (compared.metric_key, compared.pair)
    return describe_cut(compared.candidate, pair, metric_key, rate, clusters) if metric_key else None


def _compare_metrics(
    compared: TaskComparison, metric_key: str | None, clusters: Clusters
) -> tuple[MetricComparison, ...]:
    if metric_key is None or not compared.candidate_runs[0].is_chat:
        return ()
    candidate, pair = compared.candidate, compared.pair
    sides = (pair.baseline.runs, pair.candidate.runs) if pair and pair.docs else None
    disputed = find_disputed_metrics(*compared.candidate_runs, *compared.baseline_runs)
    return compare_metrics(candidate.runs, sides, metric_key, candidate.lower_is_better, clusters, disputed)


def _break_down_drop(
    compared: TaskComparison, chosen: ChosenBaseline, clusters: Clusters
) -> stats.DropBreakdown | None:
    if compared.baseline_runs or compared.recorded_run is None or compared.regraded_answers is None:
        return None
    return break_down_task_drop(
        compared.recorded_run,
        compared.regraded_answers,
        compared.candidate,
        chosen.metric_key,
        clusters,
    )


def _measure_task_drop(
    compared: TaskComparison, chosen: ChosenBaseline, rule: GateTask, clusters: Clusters
) -> TaskDrop:
    candidate = chosen.candidate.scores(chosen.metric_key)
    assert candidate is not None  # noqa: S101 (that is how it was chosen)
    names = clusters([chosen.candidate.docs[position] for position in candidate.doc_indices])
    baseline = chosen.baseline.scores(chosen.metric_key) if chosen.baseline else None
    drop = (
        stats.unpaired_drop(chosen.published, candidate.contributions, candidate.labels, names)
        if baseline is None
        else stats.paired_drop(baseline.paired_contributions, candidate.paired_contributions, candidate.labels, names)
    )
    drop = drop.invert() if candidate.lower_is_better else drop
    noise, spread = _measure_runs(chosen, candidate.labels)
    drop = replace(drop, runs=spread)
    baseline_repeats = len(compared.baseline_runs) if chosen.label == RUN_A else None
    subtasks = compute_subtask_drops(chosen.candidate, chosen.metric_key, chosen.pair)
    repeats = len(chosen.candidate.runs)
    return TaskDrop(
        compared.name, drop, rule.margin_fraction, repeats, baseline_repeats, noise, rule.cap_fraction, subtasks,
        _measure_flips(compared, chosen), _measure_newest_drop(chosen, names),
    )  # fmt: skip


def _measure_newest_drop(chosen: ChosenBaseline, clusters: Sequence[Hashable] | None) -> stats.Drop | None:
    """The drop between the newest runs; None if each side has one run."""
    sides = _list_scores(chosen)
    if not all(sides) or max(map(len, sides)) == 1:
        return None
    baseline, candidate = (side[0] for side in sides)
    drop = stats.paired_drop(baseline.paired_contributions, candidate.paired_contributions, candidate.labels, clusters)
    return drop.invert() if candidate.lower_is_better else drop


def _measure_flips(compared: TaskComparison, chosen: ChosenBaseline) -> MeasuredFlips | None:
    """The flips between answers of one model: of the newest run and its repeats, and of answers that were asked again.

    Each repeat is paired with the newest run of its side.
    """
    flips = []
    for side in _list_scores(chosen):
        for again in side[1:]:
            drop = stats.paired_drop(side[0].paired_contributions, again.paired_contributions, again.labels)
            flips.append((drop.lost + drop.won, drop.docs))
    newest = compared.candidate_runs[0]
    rerun = newest.provenance.rerun
    scores = compute_scores(newest.docs, rerun.metric, newest.lower_is_better) if rerun else None
    if rerun and scores:
        changes = [
            abs(value - rerun.values[newest.docs[place].doc_id])
            for place, value in zip(scores.doc_indices, scores.doc_scores, strict=True)
            if newest.docs[place].doc_id in rerun.values
        ]
        flips += [(stats.mean(changes), len(changes))] if changes else []
    docs = sum(count for _, count in flips)
    return MeasuredFlips(math.fsum(share * count for share, count in flips) / docs, docs) if docs else None


def _list_scores(chosen: ChosenBaseline) -> list[list[Scores]]:
    """The scores of every run of the baseline and of the candidate."""
    return [scored.scores_by_run(chosen.metric_key) if scored else [] for scored in (chosen.baseline, chosen.candidate)]


def _measure_runs(
    chosen: ChosenBaseline, labels: Sequence[str | None] | None
) -> tuple[float | None, stats.RunSpread | None]:
    """The variance of one run's score by the engine, and how runs differ; None where each side has one run."""
    sides = [[scores.paired_contributions for scores in side] for side in _list_scores(chosen)]
    repeated = [side for side in sides if len(side) > 1]
    return (stats.run_noise(repeated[-1], labels) if repeated else None), stats.measure_runs(sides[0], sides[1], labels)


# Doc by doc


def _flips(pair: RunPair, metric_key: str, owner: str) -> Flips | None:
    """Count flips. ``owner`` labels the recorded side (``Meta's``); empty if two runs are compared."""
    baseline, candidate = (scored.scores_of_run(0, metric_key) for scored in pair)
    if baseline is None or candidate is None or baseline.doc_indices != candidate.doc_indices:
        return None
    changes = [b - a for a, b in zip(baseline.verdicts, candidate.verdicts, strict=True)]
    down, up = sum(change < -SAME_VERDICT for change in changes), sum(change > SAME_VERDICT for change in changes)
    return Flips(*((owner, "ours") if owner else ("A", "B")), len(changes), down, up)
