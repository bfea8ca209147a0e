"""From runs to a decision: of a run beside its baseline, and of two runs over the same docs. Scores from 0 to 1.

The distance from the baseline to the published number is reported beside the drop and is no part of it.

Of two runs, such as of a model and its quantised version, A is the baseline, and the drop is A - B. Docs are paired by
question and gold (Meta's hashes, or lm-eval's hash of the doc), whatever their numbers. Among duplicates the prompt
decides. Docs that only one run has are left out and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from meta_eval import stats
from meta_eval.base.display import plural
from meta_eval.base.errors import ConfigError
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import CAP, MAX_GEN_TOKS, NAMED, Outcome
from meta_eval.harness.choice import Choice
from meta_eval.harness.compared_settings import describe_changes
from meta_eval.harness.doc_results import DocResult, ResultsError, find_shared_questions
from meta_eval.harness.lm_eval_run import Run, TaskRun, find_disputed_metrics, refuse_without_samples
from meta_eval.harness.provenance import AS_MULTITURN, Provenance
from meta_eval.judge.alarm_kinds import AlarmOccurrence, RaisedAlarm
from meta_eval.judge.alarms import INVALID, find_caveats, find_vetoes, group_alarms
from meta_eval.judge.caps import note_low_caps
from meta_eval.judge.changed_answers import raise_changed
from meta_eval.judge.cut_answers import raise_cut_more
from meta_eval.judge.decide import Decision, RunDecision, decide_outcome
from meta_eval.judge.decision import LEFT_OUT, RUN_A
from meta_eval.judge.doc_pairs import LackingAnswers, RunPair
from meta_eval.judge.drop_breakdown import break_down_mean_drop, break_down_regraded_drop
from meta_eval.judge.drops import is_share, measure_read_docs, measure_task
from meta_eval.judge.further_runs import advise_second_run
from meta_eval.judge.gate import Gate, GateTask
from meta_eval.judge.grader_change import (
    describe_grader_differences,
    find_bound,
    find_grader_changes,
    move_drop,
    raise_grader_change,
)
from meta_eval.judge.groups import choose_entries, list_decided_names, pair_groups
from meta_eval.judge.harness_alignment import (
    SYSTEM_MESSAGE,
    align_runs,
    describe_harnesses,
    describe_prompts,
    name_harness,
)
from meta_eval.judge.own_unit import decide_own_units, explain_scales
from meta_eval.judge.pair import TaskPair, find_verdict_metric, list_fraction_metrics, pair_task
from meta_eval.judge.pair_alarms import (
    find_disagreements,
    find_drift,
    find_same_answers,
)
from meta_eval.judge.read_docs import ReadDrop, describe_read_drop, find_differing
from meta_eval.judge.run_alarms import find_faults, find_run_origins, find_two_bos, has_fixed_order
from meta_eval.judge.score_pair import is_score_alone, pair_scores_alone
from meta_eval.judge.shared_texts import cluster_shared_texts, find_uncounted_texts, note_shared_texts
from meta_eval.pack.baseline import Baseline
from meta_eval.pack.manifest import Manifest


def decide_run(
    run: Run,
    manifest: Manifest | None,
    stored: Baseline | None = None,
    gate: Gate | None = None,
    choice: Choice | None = None,
    evidence: Iterable[RaisedAlarm] = (),
) -> RunDecision:
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
    decided = task_gate.chosen or default_tasks
    run = cluster_shared_texts(run, task_gate)
    without_run = [name for name in decided if name not in entries or not entries[name].baseline]
    if lacking := [name for name in without_run if task_gate.task_rules(name).baseline_kind == "run"]:
        raise ConfigError(
            f"baseline_kind: run needs a baseline run of {join_names(lacking)}",
            hint="Give both to `meta-eval compare`, or name it as baseline in the configuration",
        )
    shared = find_shared_questions([run.tasks[name].docs for name in decided if name in run.tasks])
    pairs = [
        measure_task(pair_task(name, run.all_runs(name), entries.get(name), stored), task_gate, shared)
        for name in names
    ]
    pairs += pair_groups(run, pairs, completed)
    decided_names = list_decided_names(completed, groups, pairs, default_tasks)
    run_alarms: list[RaisedAlarm] = [*evidence, *find_faults(run), *find_run_origins(run)]
    return decide_pairs(
        pairs,
        completed,
        decided_names,
        run_alarms if manifest else [*run_alarms, ("no pack", AlarmOccurrence(None))],
        run,
    )


def decide_pairs(
    pairs: Sequence[TaskPair],
    gate: Gate,
    decided_names: Sequence[str],
    run_alarms: Sequence[RaisedAlarm],
    candidate: Run,
) -> RunDecision:
    """Decide over the named tasks.

    A named group replaces its tasks and nested groups. Other groups are decided too, outside the mean, and can also
    forbid SHIP.

    Args:
        pairs: The tasks, and the groups of the candidate.
        gate: The rules.
        decided_names: The tasks and groups to decide on.
        run_alarms: Alarms of whole runs.
        candidate: The run in question.
    """
    margin = gate.margin_fraction
    members = {pair.name: pair.shown.members for pair in pairs if pair.shown.members}
    in_groups = _list_grouped(members, decided_names)
    reads = _decide_on_read_docs(pairs, gate, decided_names, candidate)
    decided_or_grouped = {*decided_names, *in_groups}
    decided_runs = [candidate.tasks[name] for name in sorted(decided_or_grouped & candidate.tasks.keys())]
    graded = _find_grader_changes(pairs, gate, decided_names)
    run_alarms = [*run_alarms, *graded, *find_uncounted_texts(decided_runs)]
    runs = [run for pair in pairs for run in (*pair.baseline_runs, *pair.candidate_runs)]
    can_regrade = all(run.provenance.harness is None for run in runs)
    alarms = group_alarms(_list_alarms(pairs, margin, run_alarms, reads), can_regrade=can_regrade)
    averaged, others = _choose_decided(pairs, gate, decided_names)
    vetoes = [
        replace(veto, invalid=veto.invalid | {name for name, tasks in members.items() if veto.invalid & set(tasks)})
        for veto in find_vetoes(alarms, decided_or_grouped)
    ]
    without_drop = {pair.name for pair in pairs if not pair.has_drop}
    decision = decide_outcome(
        averaged,
        margin,
        vetoes,
        find_caveats(alarms, decided_or_grouped),
        others,
        gate.cap_fraction or CAP,
        gate.weights or "precision",
        sum(name in without_drop for name in decided_names),
    )
    own_units = _decide_own_units(pairs)
    decided = {task.name: task for task in (*decision.tasks, *decision.groups)}
    tasks = []
    for pair in pairs:
        task = decided.get(pair.name, pair.shown)
        if task.own_unit:
            outcome = own_units[task.name]
            task = replace(task, outcome=outcome, own_unit=replace(task.own_unit, outcome=outcome))
        if pair.has_drop and not task.is_decided:
            reason = "judged as part of its group" if pair.name in in_groups else LEFT_OUT
            task = replace(task, not_compared_reason=reason, is_left_out=True)
        tasks.append(task)
    breakdown = break_down_mean_drop(
        [(task.drop_breakdown, task.weight) for task in tasks if task.drop_breakdown and task.is_decided]
    )
    notes = (*note_low_caps([*averaged, *others], margin, gate.cap_fraction), *note_shared_texts(decided_runs))
    if decision.outcome == "SHIP":
        notes = (*notes, *advise_second_run(averaged, margin, gate.cap_fraction or CAP))
    return RunDecision(
        decision=decision,
        tasks=tuple(sorted(tasks, key=lambda task: task.name)),
        alarms=alarms,
        notes=notes,
        drop_breakdown=breakdown,
    )


def _list_grouped(members: Mapping[str, Sequence[str]], decided_names: Sequence[str]) -> set[str]:
    """The tasks, and groups, that count as a part of a named group."""
    in_groups = {task for name in decided_names for task in members.get(name, ())}
    return in_groups | _overlapping({name: members[name] for name in decided_names if name in members})


def _choose_decided(
    pairs: Sequence[TaskPair], gate: Gate, decided_names: Sequence[str]
) -> tuple[list[TaskPair], list[TaskPair]]:
    """The tasks of the mean, and those that are decided beside it."""
    members = {pair.name: pair.shown.members for pair in pairs if pair.shown.members}
    compared, in_groups = [pair for pair in pairs if pair.has_drop], _list_grouped(members, decided_names)
    averaged = [pair for pair in compared if pair.name in decided_names and pair.name not in in_groups]
    others = [pair for pair in compared if pair.name in decided_names and pair.name in in_groups]
    if not gate.chosen:
        others += [pair for pair in compared if pair.name in members and {*members[pair.name]} <= {*decided_names}]
    return averaged, others


def _decide_on_read_docs(
    pairs: Sequence[TaskPair], gate: Gate, decided_names: Sequence[str], candidate: Run
) -> Iterator[ReadDrop]:
    """The tasks whose answers are empty, cut or not read more often on one side, with the drop over the other docs.

    They forbid SHIP where the whole decision, taken again with these tasks on the docs that were read on both sides,
    finds a loss: DON'T SHIP, or a task that is worse.
    """
    margin = gate.margin_fraction
    lacking = {pair.name: (pair.lacking, pair.margin or margin) for pair in pairs if pair.lacking and pair.has_drop}
    differing = find_differing(lacking)
    read = {pair.name: found for pair in pairs if (found := _measure_read(pair, differing.get(pair.name, ())))}
    if not read:
        return
    tasks = [read.get(pair.name, pair) for pair in pairs if not pair.shown.members]
    tasks += pair_groups(candidate, tasks, gate)
    shown, hidden = (_list_losses(of, gate, decided_names) for of in (pairs, tasks))
    hides_loss = bool(hidden) and not shown
    worse = hidden & read.keys()
    for pair in pairs:
        if pair.name in read:
            kinds = differing[pair.name]
            yield ReadDrop(
                pair.name,
                describe_read_drop(pair, kinds, read[pair.name].drop),
                {kind.kind for kind in kinds} == {"cut"},
                hides_loss and (pair.name in worse or not worse),
            )


def _find_grader_changes(pairs: Sequence[TaskPair], gate: Gate, decided_names: Sequence[str]) -> Iterator[RaisedAlarm]:
    """The tasks that were graded differently on both sides, or may have been.

    Where the drops are moved as far as a changed grader may have moved them, another decision is no decision.
    """
    changes = find_grader_changes({pair.name: pair.twice for pair in pairs if pair.twice})
    outcome = _decide_by_drops(pairs, gate, decided_names).outcome if changes else "UNDECIDED"
    reaches = False
    if outcome != "UNDECIDED":
        worse = outcome == "SHIP"
        bounds = {pair.name: find_bound(pair, changes.get(pair.name), worse=worse) for pair in pairs}
        for pair in pairs:
            if members := pair.shown.members:
                bounds[pair.name] = stats.mean([bounds.get(name, 0.0) for name in members])
        moved = [move_drop(pair, bounds[pair.name], worse=worse) if pair.has_drop else pair for pair in pairs]
        reaches = _decide_by_drops(moved, gate, decided_names).outcome != outcome
    for pair in pairs:
        margin = pair.margin or gate.margin_fraction
        yield from raise_grader_change(pair, margin, changes.get(pair.name), reaches=reaches)


def _decide_by_drops(pairs: Sequence[TaskPair], gate: Gate, decided_names: Sequence[str]) -> Decision:
    """The decision by the drops alone, without alarms."""
    averaged, others = _choose_decided(pairs, gate, decided_names)
    margin, cap, weighting = gate.margin_fraction, gate.cap_fraction or CAP, gate.weights or "precision"
    return decide_outcome(averaged, margin, groups=others, cap=cap, weighting=weighting)


def _list_losses(pairs: Sequence[TaskPair], gate: Gate, decided_names: Sequence[str]) -> set[str | None]:
    """The tasks that are worse by their drops alone, and None if that is a DON'T SHIP."""
    decision = _decide_by_drops(pairs, gate, decided_names)
    worse: set[str | None] = {task.name for task in (*decision.tasks, *decision.groups) if task.outcome == "worse"}
    return worse | {None} if decision.outcome == "DON'T SHIP" else worse


def _measure_read(pair: TaskPair, kinds: Sequence[LackingAnswers]) -> TaskPair | None:
    return measure_read_docs(pair, kinds) if kinds else None


def _list_alarms(
    pairs: Sequence[TaskPair], margin: float, run_alarms: Sequence[RaisedAlarm], reads: Iterable[ReadDrop]
) -> Iterator[RaisedAlarm]:
    """The alarms of tasks and runs, with those that need all tasks. A difference of cut answers says more than their
    number, and as much as the drop over the docs that were read, unless that shows a loss."""
    cut_more = list(
        raise_cut_more(
            {
                pair.name: (pair.cut_rate, pair.shown.cut, pair.shown.cut.counted)
                for pair in pairs
                if pair.cut_rate and pair.shown.cut
            }
        )
    )
    yield from find_drift(pair.timed for pair in pairs if pair.timed)
    yield from run_alarms
    yield from cut_more
    tasks_cut_more = {alarmed.task for _, alarmed in cut_more}
    for read in reads:
        if read.veto or not read.is_cut_alone or read.task not in tasks_cut_more:
            yield "unread", AlarmOccurrence(read.task, note=read.note, veto=read.veto)
    for pair in pairs:
        for kind, alarmed in pair.alarms:
            if kind != "limit" or alarmed.task not in tasks_cut_more:
                yield kind, alarmed
    yield from raise_changed(pairs, {pair.name: pair.margin or margin for pair in pairs})
    yield from find_disagreements({pair.name: (pair.filters, pair.margin or margin) for pair in pairs if pair.filters})
    yield from _find_own_unit_alarms(pairs)


def _decide_own_units(pairs: Sequence[TaskPair]) -> dict[str, Outcome]:
    return decide_own_units({pair.name: pair.shown.own_unit for pair in pairs if pair.shown.own_unit})


def _find_own_unit_alarms(pairs: Sequence[TaskPair]) -> Iterator[RaisedAlarm]:
    """What forbids SHIP in tasks that are no shares: a drop beyond the limit, or a margin that is not shown to hold."""
    outcomes = _decide_own_units(pairs)
    for pair in pairs:
        drop, name = pair.shown.own_unit, pair.name
        if drop is None or outcomes[name] == "within margin" or (outcomes[name] == "undecided" and not drop.has_margin):
            continue
        failed = "unit failed" if drop.has_margin else "unit worse"
        kind = "unit open" if outcomes[name] == "undecided" else failed
        yield kind, AlarmOccurrence(name, note=drop.describe())


def _overlapping(groups: Mapping[str, Sequence[str]]) -> set[str]:
    """The groups that share a task with a larger group. A mean must count each doc once."""
    counted: set[str] = set()
    overlapping = set()
    for name in sorted(groups, key=lambda group: (-len(groups[group]), group)):
        if counted.isdisjoint(groups[name]):
            counted.update(groups[name])
        else:
            overlapping.add(name)
    return overlapping


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
) -> RunDecision:
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
    candidate = align_runs(baseline, candidate)
    alone = {
        name
        for name in baseline.tasks.keys() & candidate.tasks.keys()
        if is_score_alone(baseline.tasks[name], candidate.tasks[name])
    }
    in_a, in_b = ({name for name, task in run.tasks.items() if task.docs} | alone for run in (baseline, candidate))
    if not in_a & in_b:
        for name in sorted(baseline.tasks.keys() & candidate.tasks.keys()):
            of_a, of_b = baseline.tasks[name], candidate.tasks[name]
            if reason := explain_scales(of_a, of_b, of_b.aggregates):
                raise ResultsError(reason, where=name, hint="Write both as shares from 0 to 1")
        for run, with_docs in ((baseline, in_a), (candidate, in_b)):
            if run.tasks and not with_docs:
                raise refuse_without_samples(run.tasks)
        for side, run, with_docs in (("A", baseline, in_a), ("B", candidate, in_b)):
            if not with_docs and run.left_out:
                has, other = join_names(sorted(run.left_out), 12), min(in_a | in_b, default="TASK")
                raise ConfigError(
                    f"leaves nothing of {side}, which has {has}", where="--tasks",
                    hint=f"To take two tasks for the same name both: --tasks {other},{min(run.left_out)}",
                )  # fmt: skip
        a, b = map(name_harness, (baseline, candidate))
        others = "" if a == b else f"; A is a run of {a}, B of {b}"
        raise ResultsError(
            f"the runs have no task in common: {', '.join(sorted(in_a))}, and {', '.join(sorted(in_b))}{others}",
            hint="Choose a single task of each with --tasks, which are then taken for the same" if others
            else "Run lm_eval with --log_samples on at least one common task",
        )  # fmt: skip
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
    baseline, candidate = (cluster_shared_texts(run, task_gate) for run in (baseline, candidate))
    shared = find_shared_questions([baseline.tasks[name].docs for name in common])
    pairs = [
        _pair_scores_alone(name, baseline.tasks[name], candidate.tasks[name], task_gate)
        if name in alone
        else _measure_task(
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
        pair.has_drop or pair.shown.averages or pair.shown.own_unit or any(kind in INVALID for kind, _ in pair.alarms)
        for pair in pairs
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
    return decide_pairs(pairs, completed, decided_names, run_alarms, candidate)


def _pair_scores_alone(name: str, baseline: TaskRun, candidate: TaskRun, gate: Gate) -> TaskPair:
    """See `pair_scores_alone`. What the results files say of shots and settings is compared all the same."""
    pair = pair_scores_alone(baseline, candidate, gate.task_rules(name))
    a, b, alarms = baseline.provenance, candidate.provenance, list(pair.alarms)
    if differences := _describe_differences(a, b, ()):
        alarms.append(("unlike", AlarmOccurrence(name, note=differences)))
    if graders := [*describe_grader_differences(a.grader, b.grader, pair.shown.metric or "", ("A", "B"))]:
        alarms.append(("grader", AlarmOccurrence(name, note="; ".join(graders), veto=False)))
    return replace(pair, alarms=tuple(alarms))


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
    pair = measure_task(pair_task(name, candidate_runs, entry, stored, baseline_runs), gate, shared)
    figures, own_unit, sides = pair.shown, pair.shown.own_unit, pair.sides
    if not (sides and sides.docs):
        golds = _count_other_golds(pair, sides)
        more = f" with the same right answer: {plural(golds, 'doc')} have another one in B" if golds else ""
        return _without_decision(pair, f"the runs have no doc in common{more}")
    if not pair.has_drop and own_unit is None and (reason := _explain_no_drop(pair, rule)):
        return _without_decision(pair, reason)
    metric = own_unit.metric if own_unit else figures.metric
    disputed = _explain_disputed_metric(metric, baseline_runs, candidate_runs)
    if disputed is None:
        runs = baseline_runs[0], candidate_runs[0]
        verdicts = (find_verdict_metric(run, pair.entry) for run in runs)
        disputed = explain_scales(*runs, dict.fromkeys(filter(None, (metric, *verdicts))))
    if disputed and _compares_runs(pair):
        pair = replace(pair, figures=replace(figures, flips=None, own_unit=None))
        return _without_decision(pair, disputed, kind="unlike")
    alarms = [*_list_alarms_of_runs(pair), *_find_lacking_docs(pair, sides, rule)]
    figures = replace(figures, docs=len(sides.docs))
    if own_unit:
        figures = replace(
            figures, metric=None, baseline_label=None, not_compared_reason="none of its metrics is a share"
        )
    return replace(pair, figures=figures, alarms=tuple(alarms))


def _compares_runs(pair: TaskPair) -> bool:
    """Whether the drop is from run A, and not from what was recorded."""
    return pair.shown.baseline_label in (None, RUN_A)


def _explain_no_drop(pair: TaskPair, rule: GateTask) -> str | None:
    """Why a task has no drop; None where a rule says what it is compared with."""
    figures = pair.shown
    if not is_share(find_verdict_metric(pair.baseline_runs[0], pair.entry)):
        return "none of its metrics is a share, and no other is in both runs"
    if rule.baseline_kind not in (None, "run"):
        return None
    if figures.cut is not None and rule.cut_answers in ("wrong", "unscored"):
        return figures.not_compared_reason
    return f"the runs have no metric in common that is a share: {_describe_metrics(pair)}"


def _describe_metrics(pair: TaskPair) -> str:
    """The shares of both runs; of a metric that both have with other filters, these."""
    of_a, of_b = (list_fraction_metrics(runs[0]) for runs in (pair.baseline_runs, pair.candidate_runs))
    for metric, _, name in (key.partition(",") for key in of_a):
        if others := [key.partition(",")[2] for key in of_b if key.startswith(f"{metric},")]:
            return f"{metric} is of the filter {name} in A, of {join_names(others, NAMED)} in B"
    return " and ".join(f"{join_names(keys, NAMED) or 'none'} in {side}" for side, keys in (("A", of_a), ("B", of_b)))


def _list_alarms_of_runs(pair: TaskPair) -> list[RaisedAlarm]:
    """The alarms of B, of A, and of what differs between them."""
    name, baseline_runs = pair.name, pair.baseline_runs
    alarms: list[RaisedAlarm] = [
        (kind, replace(alarmed, run=alarmed.run or "B"))
        for kind, alarmed in pair.alarms
        if pair.shown.own_unit is None or kind != "alone"
    ]
    newest, pairs = pair.candidate_runs[0], pair.pair_docs_of_run(0)
    differences = _describe_differences(
        baseline_runs[0].provenance, newest.provenance, pairs, describe_prompts(baseline_runs[0], newest, pairs)
    )
    if _compares_runs(pair):
        # A deviation from the pack that both runs share is not a difference between them.
        alarms = [(kind, replace(alarmed, veto=alarmed.veto and kind not in INVALID)) for kind, alarmed in alarms]
        alarms += [("unlike", AlarmOccurrence(name, note=differences))] if differences else []
        alarms = _mark_two_bos(alarms, baseline_runs)
    elif differences:
        alarms.append(("unlike", AlarmOccurrence(name, note=differences, veto=False)))
    return alarms


def _find_lacking_docs(pair: TaskPair, sides: RunPair, rule: GateTask) -> Iterator[RaisedAlarm]:
    """Docs whose right answer is another one, that only one run has, or that neither has."""
    docs, prepared = len(sides.docs), pair.shown.prepared
    golds = _count_other_golds(pair, sides)
    counts = [len(runs[0].docs) - docs - golds for runs in (pair.baseline_runs, pair.candidate_runs)]
    if golds:
        note = f"{golds:,} of {len(pair.candidate_runs[0].docs):,} docs have another right answer in B"
        yield "golds", AlarmOccurrence(pair.name, note=note, veto=rule.min_docs is None)
    left_out = [f"{plural(count, 'doc')} only in {run}" for run, count in zip("AB", counts, strict=True) if count]
    if left_out:
        # Docs that A has and B did not answer may be B's losses, so no number of others makes up for them.
        is_lacking = counts[0] > 0 and not all(has_fixed_order(run, pair.entry) for run in pair.candidate_runs)
        veto = rule.min_docs is None or is_lacking
        yield "one side", AlarmOccurrence(pair.name, note=" and ".join(left_out), veto=veto)
    elif not golds and pair.entry is None and rule.min_docs is None and (prepared is None or docs < prepared):
        note = f"{docs} of {prepared or 'an unknown number of'} docs were run"
        yield "unfinished", AlarmOccurrence(pair.name, note=note)


def _count_other_golds(pair: TaskPair, sides: RunPair | None) -> int:
    """The docs that are not paired, and whose prompt one doc of each run has: their right answers differ."""
    paired: list[set[int]] = [{doc.doc_id for doc in side.docs} for side in sides] if sides else [set(), set()]
    golds: list[dict[str | None, str]] = []
    for runs, ids in zip((pair.baseline_runs, pair.candidate_runs), paired, strict=True):
        counts = Counter(doc.sent_hash for doc in runs[0].docs)
        alone = (doc for doc in runs[0].docs if doc.doc_id not in ids and counts[doc.sent_hash] == 1)
        golds.append({doc.sent_hash: doc.gold for doc in alone})
    return sum(golds[0][sent] != golds[1][sent] for sent in golds[0].keys() & golds[1].keys())


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
    baseline: Provenance, candidate: Provenance, pairs: Sequence[tuple[DocResult, ...]], of_prompts: Sequence[str] = ()
) -> str | None:
    """Name the difference, other than the model, that makes the comparison invalid; None if there is none.

    Args:
        baseline, candidate: The runs.
        pairs: The paired docs.
        of_prompts: What differs between their prompts.
    """
    prompts = sum(not a.shares_prompt_with(b) for a, b in pairs)
    says_system = any(part.startswith(SYSTEM_MESSAGE) for part in of_prompts)
    harnesses = describe_harnesses(baseline, candidate)
    differences = [harnesses] if harnesses else []
    differences += [f"{prompts:,} of {len(pairs):,} docs had another prompt in B", *of_prompts] if prompts else []
    if None not in (baseline.shots, candidate.shots) and baseline.shots != candidate.shots:
        differences.append(f"{baseline.shots} shots in A, {candidate.shots} in B")
    differences += [
        change
        for a, b in (
            tuple(
                {
                    "a chat template": side.chat_template or None,
                    "a system instruction": (side.system_instruction and not says_system) or None,
                }
                for side in (baseline, candidate)
            ),
            (_list_decoding(baseline, candidate), _list_decoding(candidate, baseline)),
            _list_further_settings(baseline, candidate, may_differ=bool(prompts) or not pairs),
        )
        for change in describe_changes(a, b)
    ]
    return "; ".join(differences) or None


def _list_further_settings(
    baseline: Provenance, candidate: Provenance, *, may_differ: bool
) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """The settings of one harness that no other has; none where one side's are unknown. How examples are sent is a
    setting only where prompts may differ."""
    a, b = baseline.settings, candidate.settings
    if a is None or b is None or baseline.harness != candidate.harness:
        return {}, {}
    idle = () if may_differ else (AS_MULTITURN,)
    return {name: a[name] for name in a if name not in idle}, {name: b[name] for name in b if name not in idle}


def _list_decoding(of: Provenance, other: Provenance) -> dict[str, object]:
    """The settings of generation, with lm-eval's limit of tokens where the other has another."""
    has_default = of.harness is None and "max_gen_toks" in other.decoding
    return {**({"max_gen_toks": MAX_GEN_TOKS} if has_default else {}), **of.decoding}
