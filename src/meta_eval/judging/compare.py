"""Compares two runs over the same docs, such as a model and its quantised version. A is the baseline; the drop is A -
B.

Docs are paired by question and gold (Meta's hashes, or lm-eval's hash of the doc), whatever their numbers. Among
duplicates the prompt decides. Docs that only one run has are left out and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meta_eval.judging.alarms import INVALID, RaisedAlarm, find_alarms, find_faults
from meta_eval.judging.baseline_choice import RUN_A
from meta_eval.judging.gate import Gate, GateTask
from meta_eval.judging.groups import assess_groups, choose_entries, list_decided_names
from meta_eval.judging.judge import assess_task
from meta_eval.judging.judgement import AlarmOccurrence, Judgement
from meta_eval.judging.origin_alarms import find_run_origins
from meta_eval.judging.shared_questions import find_shared_questions
from meta_eval.judging.task_assessment import TaskAssessment, conclude_judgement
from meta_eval.judging.task_comparison import (
    ScoredRun,
    build_task_comparison,
    find_verdict_metric,
)
from meta_eval.pack.manifest import Manifest
from meta_eval.results.baseline import Baseline
from meta_eval.results.choice import Choice
from meta_eval.results.doc_results import DocResult, ResultsError
from meta_eval.results.lm_eval_run import Run, TaskRun
from meta_eval.results.metrics import UNBOUNDED_METRICS
from meta_eval.results.provenance import Provenance
from meta_eval.thresholds import NAMED


def compare_runs(
    baseline: Run,
    candidate: Run,
    manifest: Manifest | None = None,
    stored: Baseline | None = None,
    gate: Gate | None = None,
    choice: Choice | None = None,
) -> Judgement:
    """Compare two runs, task by task.

    Args:
        baseline: Run A.
        candidate: Run B.
        manifest: The pack of both, with the published metric of each task; without it the runs decide.
        stored: The recorded answers as the pack grades them, for rules that need them.
        gate: The rules of the decision.
        choice: The tasks to decide on; tasks that it leaves out never count.

    Raises:
        ResultsError: The runs have no task in common, or no task has a doc and a metric in common.
        ConfigError: The rules name an unknown task.
    """
    in_a, in_b = ({name for name, task in run.tasks.items() if task.docs} for run in (baseline, candidate))
    if not in_a & in_b:
        raise ResultsError(
            f"the runs have no task in common: {', '.join(sorted(in_a)) or 'none'}, and "
            f"{', '.join(sorted(in_b)) or 'none'}",
            hint="Run lm_eval with --log_samples on at least one common task",
        )
    entries, groups, left_out = choose_entries([baseline, candidate], manifest, choice or Choice())
    names = [*in_a, *in_b, *entries, *left_out]
    completed = (gate or Gate()).complete(manifest, names, groups)
    common = sorted(in_a & in_b)
    faults = {task for run in (baseline, candidate) for task in run.faults if task}
    lacking = sorted(((in_a ^ in_b) | (set(entries) - in_a - in_b)) - faults - left_out)
    # Tasks that are not in the pack, or only in B, are not needed.
    default_tasks = sorted({*common, *(in_a - in_b - left_out), *entries, *(faults - left_out)})
    completed, default_tasks = completed.choose(default_tasks, groups, left_out)
    task_gate = completed.expand_groups(groups)
    shared = find_shared_questions([baseline.tasks[name].docs for name in common])
    assessments = [
        _assess_task(
            name,
            baseline.all_runs(name),
            candidate.all_runs(name),
            manifest,
            stored,
            task_gate.task_rules(name),
            shared,
        )
        for name in common
    ]
    if not any(assessment.task_drop or assessment.task.averages for assessment in assessments):
        where = f"{baseline.tasks[common[0]].samples_file} and {candidate.tasks[common[0]].samples_file}"
        reasons = "; ".join(
            f"{assessment.task.name}: {assessment.task.not_compared_reason}" for assessment in assessments[:NAMED]
        )
        raise ResultsError(f"nothing to compare: {reasons}", where=where, hint="Run both with one pack")
    assessments += assess_groups(candidate, assessments, completed)
    decided_names = list_decided_names(completed, groups, assessments, default_tasks)
    run_alarms: list[RaisedAlarm] = [*find_faults(baseline, "A"), *find_faults(candidate, "B")]
    run_alarms += [*find_run_origins(baseline, "A"), *find_run_origins(candidate, "B")]
    for name in lacking:
        only = "only A has samples of it" if name in in_a else "only B has samples of it" if name in in_b else None
        run_alarms.append(("not run", AlarmOccurrence(name, note=only, veto=name in decided_names)))
    return conclude_judgement(assessments, completed, decided_names, run_alarms)


def _assess_task(
    name: str,
    baseline_runs: Sequence[TaskRun],
    candidate_runs: Sequence[TaskRun],
    manifest: Manifest | None,
    stored: Baseline | None,
    rule: GateTask,
    shared: frozenset[str],
) -> TaskAssessment:
    entry = manifest.tasks.get(name) if manifest else None
    metric_key = find_verdict_metric(baseline_runs[0], entry)
    compared = build_task_comparison(name, candidate_runs, entry, stored, baseline_runs)
    assessment = assess_task(compared, rule, shared)
    pairs = list(zip(compared.pair.baseline.docs, compared.pair.candidate.docs, strict=True)) if compared.pair else []
    if not pairs:
        return _without_decision(assessment, "the runs have no doc in common")
    if metric_key is None or metric_key.partition(",")[0] in UNBOUNDED_METRICS:
        # A mean of shares cannot include it, so it is shown in its own unit.
        return _without_decision(assessment, "none of its metrics is a share", veto=False)
    if assessment.task_drop is None and rule.baseline_kind in (None, "run"):
        by_cut_answers = assessment.task.cut is not None and rule.cut_answers in ("wrong", "unscored")
        return _without_decision(
            assessment,
            assessment.task.not_compared_reason
            if by_cut_answers
            else "the runs have no metric in common that is a share",
        )
    alarms: list[RaisedAlarm] = [(kind, replace(alarmed, run="B")) for kind, alarmed in assessment.alarms]
    candidate = ScoredRun([candidate_runs[0].docs], candidate_runs[0].lower_is_better)
    for number, task_run in enumerate(baseline_runs):
        assert compared.baseline is not None  # noqa: S101 (these are its runs)
        alarms += [
            (kind, replace(alarmed, run="A"))
            for kind, alarmed in find_alarms(
                name, task_run, compared.baseline, number, metric_key, baseline=candidate, expected=None
            )
        ]
    differences = _describe_differences(baseline_runs[0].provenance, candidate_runs[0].provenance, pairs)
    if assessment.task.baseline_label in (None, RUN_A):
        # A deviation from the pack that both runs share is not a difference between them.
        alarms = [(kind, replace(alarmed, veto=alarmed.veto and kind not in INVALID)) for kind, alarmed in alarms]
        alarms += [("unlike", AlarmOccurrence(name, note=differences))] if differences else []
    elif differences:
        alarms.append(("unlike", AlarmOccurrence(name, note=differences, veto=False)))
    counts = [len(runs[0].docs) - len(pairs) for runs in (baseline_runs, candidate_runs)]
    left_out = [
        f"{count:,} {'doc' if count == 1 else 'docs'} only in {run}"
        for run, count in zip("AB", counts, strict=True)
        if count
    ]
    if left_out:
        alarms.append(("one side", AlarmOccurrence(name, note=" and ".join(left_out), veto=rule.min_docs is None)))
    prepared = assessment.task.prepared
    if entry is None and rule.min_docs is None and (prepared is None or len(pairs) < prepared) and not left_out:
        note = f"{len(pairs)} of {prepared or 'an unknown number of'} docs were run"
        alarms.append(("unfinished", AlarmOccurrence(name, note=note)))
    return replace(assessment, task=replace(assessment.task, docs=len(pairs)), alarms=tuple(alarms))


def _without_decision(assessment: TaskAssessment, reason: str | None, *, veto: bool = True) -> TaskAssessment:
    """Show a task without deciding on it."""
    alarms: tuple[RaisedAlarm, ...] = (("alone", AlarmOccurrence(assessment.task.name, note=reason, veto=veto)),)
    return TaskAssessment(
        replace(assessment.task, not_compared_reason=reason, metric=None, baseline_label=None), None, alarms
    )


def _describe_differences(
    baseline: Provenance, candidate: Provenance, pairs: Sequence[tuple[DocResult, ...]]
) -> str | None:
    """Name the difference, other than the model, that makes the comparison invalid; None if there is none."""
    prompts = sum(not a.shares_prompt_with(b) for a, b in pairs)
    differences = [f"{prompts:,} of {len(pairs):,} docs had another prompt in B"] if prompts else []
    if None not in (baseline.shots, candidate.shots) and baseline.shots != candidate.shots:
        differences.append(f"{baseline.shots} shots in A, {candidate.shots} in B")
    names = sorted({*baseline.decoding, *candidate.decoding})
    settings: list[tuple[str, object, object]] = [
        ("a chat template", baseline.chat_template, candidate.chat_template),
        ("a system instruction", baseline.system_instruction, candidate.system_instruction),
        *((name, baseline.decoding.get(name), candidate.decoding.get(name)) for name in names),
    ]
    differences += [
        f"{what}: {_format_setting(a)} in A, {_format_setting(b)} in B" for what, a, b in settings if a != b
    ]
    return "; ".join(differences) or None


def _format_setting(setting: object) -> str:
    """A setting in a few words: ``none``, ``yes``, ``0.7``."""
    if setting is None or isinstance(setting, bool):
        return "yes" if setting else "none"
    return f"{setting:g}" if isinstance(setting, float) else f"{setting!s:.60}"
