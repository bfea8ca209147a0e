"""Compares two runs over the same docs, such as a model and its quantised version. A is the baseline; the drop is A -
B.

Docs are paired by question and gold (Meta's hashes, or lm-eval's hash of the doc), whatever their numbers. Among
duplicates the prompt decides. Docs that only one run has are left out and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meta_eval.judging.alarms import INVALID, Raised, find_alarms, find_faults
from meta_eval.judging.drafts import Draft, conclude_judgement
from meta_eval.judging.gate import Gate, Rule
from meta_eval.judging.groups import choose_tasks, draft_groups, list_decided_names
from meta_eval.judging.judge import RUN_A, draft_task
from meta_eval.judging.judgement import Alarmed, Judgement
from meta_eval.judging.task_comparison import (
    ScoredRun,
    build_task_comparison,
    find_shared_questions,
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
    rules: Gate | None = None,
    choice: Choice | None = None,
) -> Judgement:
    """Compare two runs, task by task.

    Args:
        baseline: Run A.
        candidate: Run B.
        manifest: The pack of both, with the published metric of each task; without it the runs decide.
        stored: The recorded answers as the pack grades them, for rules that need them.
        rules: The rules of the decision.
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
    entries, groups, left_out = choose_tasks([baseline, candidate], manifest, choice or Choice())
    known = [*in_a, *in_b, *entries, *left_out]
    gate = (rules or Gate()).complete(manifest, known, groups)
    common = sorted(in_a & in_b)
    faults = {task for run in (baseline, candidate) for task in run.faults if task}
    lacking = sorted(((in_a ^ in_b) | (set(entries) - in_a - in_b)) - faults - left_out)
    # Tasks that are not in the pack, or only in B, are not needed.
    asked = sorted({*common, *(in_a - in_b - left_out), *entries, *(faults - left_out)})
    gate, asked = gate.choose(asked, groups, left_out)
    ruled = gate.expand_groups(groups)
    shared = find_shared_questions([baseline.tasks[name].docs for name in common])
    drafts = [
        _task(name, baseline.all_runs(name), candidate.all_runs(name), manifest, stored, ruled.rule_of(name), shared)
        for name in common
    ]
    if not any(draft.evidence or draft.task.averages for draft in drafts):
        where = f"{baseline.tasks[common[0]].samples_file} and {candidate.tasks[common[0]].samples_file}"
        reasons = "; ".join(f"{draft.task.name}: {draft.task.reason}" for draft in drafts[:NAMED])
        raise ResultsError(f"nothing to compare: {reasons}", where=where, hint="Run both with one pack")
    drafts += draft_groups(candidate, drafts, gate)
    decided_names = list_decided_names(gate, groups, drafts, asked)
    raised = [*find_faults(baseline, "A"), *find_faults(candidate, "B")]
    for name in lacking:
        only = "only A has samples of it" if name in in_a else "only B has samples of it" if name in in_b else None
        raised.append(("not run", Alarmed(name, note=only, veto=name in decided_names)))
    return conclude_judgement(drafts, gate, decided_names, raised)


def _task(
    name: str,
    baseline_runs: Sequence[TaskRun],
    candidate_runs: Sequence[TaskRun],
    manifest: Manifest | None,
    stored: Baseline | None,
    rule: Rule,
    shared: frozenset[str],
) -> Draft:
    entry = manifest.tasks.get(name) if manifest else None
    metric_key = find_verdict_metric(baseline_runs[0], entry)
    compared = build_task_comparison(name, candidate_runs, entry, stored, baseline_runs)
    draft = draft_task(compared, rule, shared)
    pairs = list(zip(compared.pair.baseline.docs, compared.pair.candidate.docs, strict=True)) if compared.pair else []
    if not pairs:
        return _without(draft, "the runs have no doc in common")
    if metric_key is None or metric_key.partition(",")[0] in UNBOUNDED_METRICS:
        # A mean of shares cannot include it, so it is shown in its own unit.
        return _without(draft, "none of its metrics is a share", veto=False)
    if draft.evidence is None and rule.against in (None, "baseline"):
        unscored = draft.task.cut is not None and rule.cut_answers == "unscored"
        return _without(draft, draft.task.reason if unscored else "the runs have no metric in common that is a share")
    raised: list[Raised] = [(kind, replace(alarmed, run="B")) for kind, alarmed in draft.raised]
    candidate = ScoredRun([candidate_runs[0].docs], candidate_runs[0].lower_is_better)
    for number, task_run in enumerate(baseline_runs):
        assert compared.baseline is not None  # noqa: S101 (these are its runs)
        raised += [
            (kind, replace(alarmed, run="A"))
            for kind, alarmed in find_alarms(
                name, task_run, compared.baseline, number, metric_key, baseline=candidate, expected=None
            )
        ]
    unlike = _unlike(baseline_runs[0].provenance, candidate_runs[0].provenance, pairs)
    if draft.task.baseline_label in (None, RUN_A):
        # A deviation from the pack that both runs share is not a difference between them.
        raised = [(kind, replace(alarmed, veto=alarmed.veto and kind not in INVALID)) for kind, alarmed in raised]
        raised += [("unlike", Alarmed(name, note=unlike))] if unlike else []
    elif unlike:
        raised.append(("unlike", Alarmed(name, note=unlike, veto=False)))
    counts = [len(runs[0].docs) - len(pairs) for runs in (baseline_runs, candidate_runs)]
    left_out = [
        f"{count:,} {'doc' if count == 1 else 'docs'} only in {run}"
        for run, count in zip("AB", counts, strict=True)
        if count
    ]
    if left_out:
        raised.append(("one side", Alarmed(name, note=" and ".join(left_out), veto=rule.min_docs is None)))
    prepared = draft.task.prepared
    if entry is None and rule.min_docs is None and (prepared is None or len(pairs) < prepared) and not left_out:
        note = f"{len(pairs)} of {prepared or 'an unknown number of'} docs were run"
        raised.append(("unfinished", Alarmed(name, note=note)))
    return replace(draft, task=replace(draft.task, docs=len(pairs)), raised=tuple(raised))


def _without(draft: Draft, reason: str | None, *, veto: bool = True) -> Draft:
    """Show a task without deciding on it."""
    raised: tuple[Raised, ...] = (("alone", Alarmed(draft.task.name, note=reason, veto=veto)),)
    return Draft(replace(draft.task, reason=reason, metric=None, baseline_label=None), None, raised)


def _unlike(baseline: Provenance, candidate: Provenance, pairs: Sequence[tuple[DocResult, ...]]) -> str | None:
    """Name the difference, other than the model, that makes the comparison invalid; None if there is none."""
    prompts = sum(not a.same_prompt(b) for a, b in pairs)
    differences = [f"{prompts:,} of {len(pairs):,} docs had another prompt in B"] if prompts else []
    if None not in (baseline.shots, candidate.shots) and baseline.shots != candidate.shots:
        differences.append(f"{baseline.shots} shots in A, {candidate.shots} in B")
    names = sorted({*baseline.decoding, *candidate.decoding})
    settings: list[tuple[str, object, object]] = [
        ("a chat template", baseline.chat_template, candidate.chat_template),
        ("a system instruction", baseline.system_instruction, candidate.system_instruction),
        *((name, baseline.decoding.get(name), candidate.decoding.get(name)) for name in names),
    ]
    differences += [f"{what}: {_of(a)} in A, {_of(b)} in B" for what, a, b in settings if a != b]
    return "; ".join(differences) or None


def _of(setting: object) -> str:
    """A setting in a few words: ``none``, ``yes``, ``0.7``."""
    if setting is None or isinstance(setting, bool):
        return "yes" if setting else "none"
    return f"{setting:g}" if isinstance(setting, float) else f"{setting!s:.60}"
