"""Two runs over the same docs, such as a model and its quantised twin: A is what B's drop is a drop from.

A doc of one run is the doc of the other that has the same question and gold by Meta's hashes, or lm-eval's of the whole
doc, whatever its number is; of several the one with the same prompt. What only one run has is left out, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meta_eval.judging.alarms import INVALID, Raised, find_alarms
from meta_eval.judging.drafts import Draft, conclude_judgement
from meta_eval.judging.gate import Gate, Rule
from meta_eval.judging.groups import choose_tasks, draft_groups, list_decided_names
from meta_eval.judging.judge import RUN_A, draft_task
from meta_eval.judging.judgement import Alarmed, Judgement
from meta_eval.judging.sides import ScoredRun, build_sides, shared_questions, verdict_spec
from meta_eval.pack.manifest import Manifest
from meta_eval.results.baseline import Baseline
from meta_eval.results.choice import Choice
from meta_eval.results.doc_results import Doc, ResultsError
from meta_eval.results.lm_eval_run import Run, TaskRun
from meta_eval.results.metrics import NO_SHARE
from meta_eval.results.provenance import Provenance
from meta_eval.thresholds import NAMED


def compare_runs(
    before: Run,
    after: Run,
    manifest: Manifest | None = None,
    baseline: Baseline | None = None,
    rules: Gate | None = None,
    choice: Choice | None = None,
) -> Judgement:
    """Compare two runs, task by task.

    Args:
        before: The baseline, A.
        after: What is compared with it, B.
        manifest: The pack of both, which names each task's published metric; else the runs say it.
        baseline: Meta's recorded answers, for rules that ask for them.
        rules: What is asked.
        choice: Of which tasks; what is left out is no part of the decision, whatever the rules say.

    Raises:
        ResultsError: The runs have no task in common, or no task has a doc and a metric in common.
        ConfigError: The rules name a task that is not there.
    """
    first, second = ({task for task, task_run in run.tasks.items() if task_run.docs} for run in (before, after))
    if not first & second:
        raise ResultsError(
            f"the runs have no task in common: {', '.join(sorted(first)) or 'none'}, and "
            f"{', '.join(sorted(second)) or 'none'}",
            hint="Run lm_eval with --log_samples on at least one common task",
        )
    entries, groups, left_out = choose_tasks([before, after], manifest, choice or Choice())
    known = [*first, *second, *entries, *left_out]
    gate = (rules or Gate()).complete(manifest, known, groups).leave_out(left_out)
    common = sorted(first & second)
    lacking = sorted((first ^ second) | (set(entries) - first - second))
    # What the pack does not have, or B has besides, nobody asked for.
    asked = sorted({*common, *(first - second), *entries})
    gate.list_tasks([*asked, *groups])
    ruled = gate.expand_groups(groups)
    shared = shared_questions([before.tasks[name].docs for name in common])
    drafts = [
        _task(name, before.all_runs(name), after.all_runs(name), manifest, baseline, ruled.rule_of(name), shared)
        for name in common
    ]
    if not any(draft.evidence or draft.task.averages for draft in drafts):
        where = f"{before.tasks[common[0]].samples_file} and {after.tasks[common[0]].samples_file}"
        reasons = "; ".join(f"{draft.task.name}: {draft.task.reason}" for draft in drafts[:NAMED])
        raise ResultsError(f"nothing to compare: {reasons}", where=where, hint="Run both with one pack")
    drafts += draft_groups(after, drafts, gate)
    decided_names = list_decided_names(gate, groups, drafts, asked)
    raised: list[Raised] = []
    for name in lacking:
        only = "only A has samples of it" if name in first else "only B has samples of it" if name in second else None
        raised.append(("not run", Alarmed(name, note=only, veto=name in decided_names)))
    return conclude_judgement(drafts, gate, decided_names, raised)


def _task(
    name: str,
    before: Sequence[TaskRun],
    after: Sequence[TaskRun],
    manifest: Manifest | None,
    baseline: Baseline | None,
    rule: Rule,
    shared: frozenset[str],
) -> Draft:
    entry = manifest.tasks.get(name) if manifest else None
    spec = verdict_spec(before[0], entry)
    sides = build_sides(name, after, entry, baseline, before)
    draft = draft_task(sides, rule, shared)
    pairs = list(zip(sides.pair[0].docs, sides.pair[1].docs, strict=True)) if sides.pair else []
    if not pairs:
        return _without(draft, "the runs have no doc in common")
    if spec is None or spec.partition(",")[0] in NO_SHARE:
        # It has nothing that a mean of shares could take in, and is shown in its own unit.
        return _without(draft, "none of its metrics is a share", veto=False)
    if draft.evidence is None and rule.against in (None, "baseline"):
        return _without(draft, "the runs have no metric in common that is a share")
    raised: list[Raised] = [(kind, replace(alarmed, run="B")) for kind, alarmed in draft.raised]
    a = sides.first
    for number, task_run in enumerate(before):
        assert a is not None  # noqa: S101 (it is the side of ``before``)
        other = ScoredRun([after[0].docs], after[0].lower_is_better)
        raised += [
            (kind, replace(alarmed, run="A"))
            for kind, alarmed in find_alarms(name, task_run, a, number, spec, baseline=other, reference=None)
        ]
    unlike = _unlike(before[0].provenance, after[0].provenance, pairs)
    if draft.task.against in (None, RUN_A):
        # What both do otherwise than the pack asks is no difference between them; what only one does is one.
        raised = [(kind, replace(alarmed, veto=alarmed.veto and kind not in INVALID)) for kind, alarmed in raised]
        raised += [("unlike", Alarmed(name, note=unlike))] if unlike else []
    elif unlike:
        raised.append(("unlike", Alarmed(name, note=unlike, veto=False)))
    counts = [len(before[0].docs) - len(pairs), len(after[0].docs) - len(pairs)]
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


def _without(draft: Draft, reason: str, *, veto: bool = True) -> Draft:
    """A task that is shown and not decided on."""
    raised: tuple[Raised, ...] = (("alone", Alarmed(draft.task.name, note=reason, veto=veto)),)
    return Draft(replace(draft.task, reason=reason, metric=None, against=None), None, raised)


def _unlike(before: Provenance, after: Provenance, pairs: Sequence[tuple[Doc, ...]]) -> str | None:
    """Name what differs apart from the model and makes the comparison invalid; None for nothing."""
    prompts = sum(not a.same_prompt(b) for a, b in pairs)
    differences = [f"{prompts:,} of {len(pairs):,} docs had another prompt in B"] if prompts else []
    if None not in (before.shots, after.shots) and before.shots != after.shots:
        differences.append(f"{before.shots} shots in A, {after.shots} in B")
    names = sorted({*before.decoding, *after.decoding})
    settings: list[tuple[str, object, object]] = [
        ("a chat template", before.chat_template, after.chat_template),
        ("a system instruction", before.system_instruction, after.system_instruction),
        *((name, before.decoding.get(name), after.decoding.get(name)) for name in names),
    ]
    differences += [f"{what}: {_of(a)} in A, {_of(b)} in B" for what, a, b in settings if a != b]
    return "; ".join(differences) or None


def _of(setting: object) -> str:
    """A setting in a few words: ``none``, ``yes``, ``0.7``."""
    if setting is None or isinstance(setting, bool):
        return "yes" if setting else "none"
    return f"{setting:g}" if isinstance(setting, float) else f"{setting!s:.60}"
