"""Compares two runs over the same docs, such as a model and its quantised version. A is the baseline; the drop is A -
B.

Docs are paired by question and gold (Meta's hashes, or lm-eval's hash of the doc), whatever their numbers. Among
duplicates the prompt decides. Docs that only one run has are left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from meta_eval.base.thresholds import NAMED
from meta_eval.harness.choice import Choice
from meta_eval.harness.doc_results import DocResult, ResultsError
from meta_eval.harness.lm_eval_run import Run, TaskRun, refuse_without_samples
from meta_eval.harness.provenance import Provenance
from meta_eval.harness.scores import ScoredRun
from meta_eval.harness.shared_questions import find_shared_questions
from meta_eval.harness.task_run import find_disputed_metrics
from meta_eval.judge.alarms import INVALID, OF_TWO_SIDES, find_alarms, find_faults
from meta_eval.judge.baseline import RUN_A
from meta_eval.judge.decide import Judgement
from meta_eval.judge.decision import AlarmOccurrence, RaisedAlarm
from meta_eval.judge.drop_breakdown import break_down_regraded_drop
from meta_eval.judge.gate import Gate
from meta_eval.judge.groups import choose_entries, list_decided_names, pair_groups
from meta_eval.judge.judge import decide_pairs
from meta_eval.judge.lacking_docs import has_fixed_order
from meta_eval.judge.measure import is_share, measure_task
from meta_eval.judge.origin_alarms import find_run_origins
from meta_eval.judge.pair import TaskPair, find_verdict_metric, pair_task
from meta_eval.judge.same_answers import find_same_answers
from meta_eval.judge.two_bos import find_two_bos
from meta_eval.pack.baseline import Baseline
from meta_eval.pack.manifest import Manifest


def compare_runs(
    baseline: Run,
    candidate: Run,
    manifest: Manifest | None = None,
    stored: Baseline | None = None,
    gate: Gate | None = None,
    choice: Choice | None = None,
    *,
    before: tuple[Run, Run] | None = None,
    evidence: Iterable[RaisedAlarm] = (),
) -> Judgement:
    """Compare two runs, task by task.

    Args:
        baseline: Run A.
        candidate: Run B.
        manifest: The pack of both, with the published metric of each task; without it the runs decide.
        stored: The recorded answers as the pack grades them, for rules that need them.
        gate: The rules of the decision.
        choice: The tasks to decide on; tasks that it leaves out never count.
        before: Both runs with the verdicts in their files, if they were graded again.
        evidence: Alarms of plug-ins (`meta_eval.judge.evidence`).

    Raises:
        ResultsError: The runs have no task in common, or no task has a doc and a metric in common.
        ConfigError: The rules name an unknown task.
    """
    in_a, in_b = ({name for name, task in run.tasks.items() if task.docs} for run in (baseline, candidate))
    if not in_a & in_b:
        for run, with_docs in ((baseline, in_a), (candidate, in_b)):
            if run.tasks and not with_docs:
                raise refuse_without_samples(run.tasks)
        raise ResultsError(
            f"the runs have no task in common: {', '.join(sorted(in_a))}, and {', '.join(sorted(in_b))}",
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
    pairs = [
        _measure_task(
            name,
            baseline.all_runs(name),
            candidate.all_runs(name),
            manifest,
            stored,
            task_gate,
            shared,
        )
        for name in common
    ]
    if not any(
        pair.has_drop or pair.shown.averages or any(kind in INVALID for kind, _ in pair.alarms) for pair in pairs
    ):
        where = f"{baseline.tasks[common[0]].samples_file} and {candidate.tasks[common[0]].samples_file}"
        reasons = "; ".join(f"{pair.name}: {pair.shown.not_compared_reason}" for pair in pairs[:NAMED])
        raise ResultsError(f"nothing to compare: {reasons}", where=where, hint="Run both with one pack")
    if before:
        pairs = [_add_breakdown(pair, *before) for pair in pairs]
    pairs += pair_groups(candidate, pairs, completed)
    decided_names = list_decided_names(completed, groups, pairs, default_tasks)
    compared = [pair.drop_sides for pair in pairs if pair.drop_sides]
    run_alarms: list[RaisedAlarm] = [*evidence, *find_faults(baseline, "A"), *find_faults(candidate, "B")]
    run_alarms += find_same_answers(baseline, candidate, compared)
    run_alarms += [*find_run_origins(baseline, "A"), *find_run_origins(candidate, "B")]
    for name in lacking:
        only = "only A has samples of it" if name in in_a else "only B has samples of it" if name in in_b else None
        run_alarms.append(("not run", AlarmOccurrence(name, note=only, veto=name in decided_names)))
    return decide_pairs(pairs, completed, decided_names, run_alarms)


def _measure_task(
    name: str,
    baseline_runs: Sequence[TaskRun],
    candidate_runs: Sequence[TaskRun],
    manifest: Manifest | None,
    stored: Baseline | None,
    gate: Gate,
    shared: frozenset[str],
) -> TaskPair:
    rule = gate.task_rules(name)
    entry = manifest.tasks.get(name) if manifest else None
    metric_key = find_verdict_metric(baseline_runs[0], entry)
    pair = measure_task(pair_task(name, candidate_runs, entry, stored, baseline_runs), gate, shared)
    docs = list(zip(pair.sides.baseline.docs, pair.sides.candidate.docs, strict=True)) if pair.sides else []
    if not docs:
        return _without_decision(pair, "the runs have no doc in common")
    figures = pair.shown
    own_unit = figures.own_unit
    if not pair.has_drop and own_unit is None and not is_share(metric_key):
        return _without_decision(pair, "none of its metrics is a share, and no other is in both runs")
    if not pair.has_drop and own_unit is None and rule.baseline_kind in (None, "run"):
        by_cut_answers = figures.cut is not None and rule.cut_answers in ("wrong", "unscored")
        return _without_decision(
            pair,
            figures.not_compared_reason if by_cut_answers else "the runs have no metric in common that is a share",
        )
    of_two_sides = [raised for raised in pair.alarms if raised[0] in OF_TWO_SIDES]
    is_run_compared = figures.baseline_label in (None, RUN_A)
    metric = own_unit.metric if own_unit else figures.metric
    disputed = _explain_disputed_metric(metric, baseline_runs, candidate_runs)
    if disputed and is_run_compared:
        pair = replace(pair, figures=replace(figures, flips=None, own_unit=None))
        return _without_decision(pair, disputed, kind="unlike")
    alarms: list[RaisedAlarm] = [
        (kind, replace(alarmed, run="B"))
        for kind, alarmed in pair.alarms
        if kind not in OF_TWO_SIDES and (own_unit is None or kind != "alone")
    ]
    candidate = ScoredRun([candidate_runs[0].docs], candidate_runs[0].lower_is_better)
    for number, task_run in enumerate(baseline_runs):
        assert pair.baseline is not None  # noqa: S101 (these are its runs)
        alarms += [
            (kind, replace(alarmed, run="A"))
            for kind, alarmed in find_alarms(
                name, task_run, pair.baseline, number, metric_key or "", baseline=candidate, expected=None
            )
        ]
    differences = _describe_differences(baseline_runs[0].provenance, candidate_runs[0].provenance, docs)
    if is_run_compared:
        # A deviation from the pack that both runs share is not a difference between them.
        alarms = [(kind, replace(alarmed, veto=alarmed.veto and kind not in INVALID)) for kind, alarmed in alarms]
        alarms += [("unlike", AlarmOccurrence(name, note=differences))] if differences else []
        alarms = _mark_two_bos(alarms, baseline_runs)
    elif differences:
        alarms.append(("unlike", AlarmOccurrence(name, note=differences, veto=False)))
    alarms += of_two_sides
    counts = [len(runs[0].docs) - len(docs) for runs in (baseline_runs, candidate_runs)]
    left_out = [
        f"{count:,} {'doc' if count == 1 else 'docs'} only in {run}"
        for run, count in zip("AB", counts, strict=True)
        if count
    ]
    if left_out:
        # Docs that A has and B did not answer may be B's losses, so no number of others makes up for them.
        is_lacking = counts[0] > 0 and not all(has_fixed_order(run, entry) for run in candidate_runs)
        veto = rule.min_docs is None or is_lacking
        alarms.append(("one side", AlarmOccurrence(name, note=" and ".join(left_out), veto=veto)))
    prepared = figures.prepared
    if entry is None and rule.min_docs is None and (prepared is None or len(docs) < prepared) and not left_out:
        note = f"{len(docs)} of {prepared or 'an unknown number of'} docs were run"
        alarms.append(("unfinished", AlarmOccurrence(name, note=note)))
    figures = replace(figures, docs=len(docs))
    if own_unit:
        figures = replace(
            figures, metric=None, baseline_label=None, not_compared_reason="none of its metrics is a share"
        )
    return replace(pair, figures=figures, alarms=tuple(alarms))


def _add_breakdown(pair: TaskPair, baseline: Run, candidate: Run) -> TaskPair:
    """Split the difference in the runs' files into the parts of the grader, the model and the prompts."""
    old = pair_task(pair.name, candidate.all_runs(pair.name), None, None, baseline.all_runs(pair.name)).sides
    figures = pair.shown
    if figures.metric is None or old is None or pair.drop_sides is None or pair.clusters is None:
        return pair
    parts = break_down_regraded_drop(old, pair.drop_sides, figures.metric, pair.clusters)
    return replace(pair, figures=replace(figures, drop_breakdown=parts))


def _mark_two_bos(alarms: list[RaisedAlarm], baseline_runs: Sequence[TaskRun]) -> list[RaisedAlarm]:
    """Two BOS on one side make the comparison invalid; on both sides they are no difference."""
    in_a = next(filter(None, map(find_two_bos, baseline_runs)), None)
    in_b = any(kind == "two bos" for kind, _ in alarms)
    marked: list[RaisedAlarm] = [
        (kind, replace(alarmed, veto=in_a is None) if kind == "two bos" else alarmed) for kind, alarmed in alarms
    ]
    return [("two bos", replace(in_a, run="A", veto=not in_b)), *marked] if in_a else marked


def _explain_disputed_metric(
    metric_key: str | None, baseline_runs: Sequence[TaskRun], candidate_runs: Sequence[TaskRun]
) -> str | None:
    """Why a drop in this metric has no sign; None where the files agree on it."""
    metric = (metric_key or "").partition(",")[0]
    if metric not in find_disputed_metrics(*baseline_runs, *candidate_runs):
        return None
    a, b = (
        next(run.higher_is_better[metric] for run in runs if metric in run.higher_is_better)
        for runs in (baseline_runs, candidate_runs)
    )
    return f"higher_is_better of {metric} is {str(a).lower()} in A and {str(b).lower()} in B, so a drop has no sign"


def _without_decision(pair: TaskPair, reason: str | None, *, kind: str = "alone") -> TaskPair:
    """Show a task without deciding on it."""
    figures = replace(pair.shown, not_compared_reason=reason, metric=None, baseline_label=None)
    alarms: tuple[RaisedAlarm, ...] = ((kind, AlarmOccurrence(pair.name, note=reason, veto=True)),)
    return TaskPair(pair.name, figures=figures, alarms=alarms)


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
