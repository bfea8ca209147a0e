"""From runs to a decision: of a run beside its baseline, and of two runs over the same docs. Scores from 0 to 1.

The distance from the baseline to the published number is reported beside the drop and is no part of it.

Of two runs, such as of a model and its quantised version, A is the baseline, and the drop is A - B. Docs are paired by
question and gold (Meta's hashes, or lm-eval's hash of the doc), whatever their numbers. Among duplicates the prompt
decides. Docs that only one run has are left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from meta_eval import stats
from meta_eval.base.errors import ConfigError
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import CAP, NAMED, Outcome
from meta_eval.harness.choice import Choice
from meta_eval.harness.doc_results import ResultsError, find_shared_questions
from meta_eval.harness.lm_eval_run import Run, refuse_without_samples
from meta_eval.judge.alarm_kinds import AlarmOccurrence, RaisedAlarm
from meta_eval.judge.alarms import INVALID, find_caveats, find_vetoes, group_alarms
from meta_eval.judge.caps import note_low_caps
from meta_eval.judge.changed_answers import raise_changed
from meta_eval.judge.cut_answers import raise_cut_more
from meta_eval.judge.decide import Decision, RunDecision, decide_outcome
from meta_eval.judge.decision import LEFT_OUT, SIDES, SIDES_OF_PACK
from meta_eval.judge.drop_breakdown import break_down_mean_drop, break_down_regraded_drop
from meta_eval.judge.drops import measure_read_docs, measure_task
from meta_eval.judge.further_runs import advise_second_run
from meta_eval.judge.gate import Gate
from meta_eval.judge.grader_change import (
    find_bound,
    find_grader_changes,
    move_drop,
    raise_grader_change,
)
from meta_eval.judge.groups import choose_entries, list_decided_names, pair_groups
from meta_eval.judge.harness_alignment import (
    align_runs,
    name_harness,
)
from meta_eval.judge.own_unit import decide_own_units, explain_scales
from meta_eval.judge.pair import TaskPair, pair_task
from meta_eval.judge.pair_alarms import (
    find_disagreements,
    find_drift,
    find_same_answers,
)
from meta_eval.judge.read_docs import ReadDrop, describe_read_drop, find_differing
from meta_eval.judge.run_alarms import find_faults, find_run_origins
from meta_eval.judge.score_pair import is_score_alone
from meta_eval.judge.shared_texts import cluster_shared_texts, find_uncounted_texts, note_shared_texts
from meta_eval.pack.baseline import Baseline
from meta_eval.pack.manifest import Manifest, TaskEntry


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
    read = [pair.read for pair in pairs if pair.read]
    runs = [run for sides in read for run in (*sides.baseline_runs, *sides.candidate_runs)]
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
    in_question = [(pair, kinds) for pair in pairs if (kinds := differing.get(pair.name))]
    read = {pair.name: found for pair, kinds in in_question if (found := measure_read_docs(pair, kinds))}
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


def judge(
    baseline: Run | None,
    candidate: Run,
    manifest: Manifest | None = None,
    stored: Baseline | None = None,
    gate: Gate | None = None,
    choice: Choice | None = None,
    *,
    before: tuple[Run, Run] | None = None,
    evidence: Iterable[RaisedAlarm] = (),
) -> RunDecision:
    """Judge a run beside its baseline, task by task in the order of their names.

    Call `meta_eval.pack.pack_match.match_pack` first: the docs of a run are taken for those of its pack.

    Args:
        baseline: Run A; None for what the pack recorded.
        candidate: The run in question, or its repeats.
        manifest: The pack, with the published metric of each task. Without it two runs decide themselves; of one run
            there are scores, and nothing to compare them with.
        stored: The recorded answers as verify graded and stored them.
        gate: The rules of the decision.
        choice: The tasks to decide on; tasks that it leaves out never count.
        before: Both runs with the verdicts in their files, if they were graded again.
        evidence: Alarms of plug-ins (`meta_eval.judge.evidence`).

    Raises:
        ResultsError: Two runs have no task in common, or no task has a doc and a metric in common.
        ConfigError: The rules name an unknown task, or a baseline run that is not there.
    """
    of_pack = baseline is None
    if baseline is None:
        baseline = stored.graded if stored else Run()
    candidate = align_runs(baseline, candidate)
    entries, groups, left_out = choose_entries([baseline, candidate], manifest, choice or Choice())
    tasks = (
        _list_own_tasks(candidate, entries, has_pack=manifest is not None)
        if of_pack
        else _list_common_tasks(baseline, candidate, entries, left_out)
    )
    completed = (gate or Gate()).complete(manifest, [*tasks.known, *entries, *left_out], groups)
    completed, default_tasks = completed.choose(tasks.default, groups, left_out)
    task_gate = completed.expand_groups(groups)
    decided = task_gate.chosen or default_tasks
    if of_pack:
        _check_kinds(decided, entries, task_gate)
    baseline, candidate = (cluster_shared_texts(run, task_gate) for run in (baseline, candidate))
    shared = find_shared_questions([candidate.tasks[name].docs for name in decided if name in candidate.tasks])
    pairs = [
        measure_task(
            pair_task(
                name, candidate.all_runs(name), entries.get(name), stored, baseline.all_runs(name), of_pack=of_pack
            ),
            task_gate,
            shared,
        )
        for name in tasks.judged
    ]
    if not of_pack:
        _refuse_nothing(pairs, baseline, candidate)
    if before:
        pairs = [_add_breakdown(pair, *before) for pair in pairs]
    pairs += pair_groups(candidate, pairs, completed)
    decided_names = list_decided_names(completed, groups, pairs, default_tasks)
    side, names = (None, SIDES_OF_PACK) if of_pack else ("B", SIDES)
    run_alarms: list[RaisedAlarm] = list(evidence)
    explained = {alarmed.task for _, alarmed in run_alarms if alarmed.veto}
    compared = [pair.drop_sides for pair in pairs if pair.drop_sides]
    run_alarms += [*find_faults(baseline, "A"), *find_faults(candidate, side)]
    run_alarms += find_same_answers(baseline, candidate, compared, names, explained)
    run_alarms += [*find_run_origins(baseline, "A"), *find_run_origins(candidate, side)]
    for name, note in tasks.lacking.items():
        run_alarms.append(("not run", AlarmOccurrence(name, note=note, veto=name in decided_names)))
    run_alarms += [("no pack", AlarmOccurrence(None))] if of_pack and manifest is None else []
    return decide_pairs(pairs, completed, decided_names, run_alarms, candidate)


class _Tasks(NamedTuple):
    """The tasks of a judgement by name."""

    judged: Sequence[str]
    """Those that are measured."""

    default: Sequence[str]
    """Those that are decided on where no gate says which."""

    known: Sequence[str]
    """All that a gate may name, besides those of the pack."""

    lacking: Mapping[str, str | None]
    """Those that were not run on a side, with the side that has them, a clause."""


def _list_own_tasks(run: Run, entries: Mapping[str, TaskEntry], *, has_pack: bool) -> _Tasks:
    """The tasks of a run beside its pack: of both."""
    names = sorted({*run.tasks, *entries} - run.faults.keys())
    return _Tasks(names, sorted(entries) if has_pack else [*names, *filter(None, run.faults)], [*run.tasks], {})


def _has_score(run: Run) -> bool:
    return any(score.is_fraction for task in run.tasks.values() for score in task.aggregates.values())


def _list_common_tasks(
    baseline: Run, candidate: Run, entries: Mapping[str, TaskEntry], left_out: frozenset[str]
) -> _Tasks:
    """The tasks of two runs: those of both that have docs, or scores alone."""
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
        if empty := [run for run, with_docs in ((baseline, in_a), (candidate, in_b)) if run.tasks and not with_docs]:
            raise refuse_without_samples(min(empty, key=_has_score).tasks)
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
    faults = {task for run in (baseline, candidate) for task in run.faults if task}
    lacking = sorted(((in_a ^ in_b) | (set(entries) - in_a - in_b)) - faults - left_out)
    sides = {name: "A" if name in in_a else "B" if name in in_b else None for name in lacking}
    # Tasks that are not in the pack, or only in B, are not needed.
    default = sorted({*(in_a & in_b), *(in_a - in_b - left_out), *entries, *(faults - left_out)})
    notes = {name: f"only {side} has samples of it" if side else None for name, side in sides.items()}
    return _Tasks(sorted(in_a & in_b), default, [*in_a, *in_b], notes)


def _check_kinds(decided: Iterable[str], entries: Mapping[str, TaskEntry], gate: Gate) -> None:
    """Refuse a rule that needs a baseline run where the pack has none.

    Raises:
        ConfigError: There is one.
    """
    without_run = [name for name in decided if name not in entries or not entries[name].baseline]
    if lacking := [name for name in without_run if gate.task_rules(name).baseline_kind == "run"]:
        raise ConfigError(
            f"baseline_kind: run needs a baseline run of {join_names(lacking)}",
            hint="Give both to `meta-eval compare`, or name it as baseline in the configuration",
        )


def _refuse_nothing(pairs: Sequence[TaskPair], *runs: Run) -> None:
    """Refuse two runs of which nothing can be compared.

    Raises:
        ResultsError: That is so.
    """
    if any(
        pair.has_drop or pair.shown.averages or pair.shown.own_unit or any(kind in INVALID for kind, _ in pair.alarms)
        for pair in pairs
    ):
        return
    where = " and ".join(str(run.tasks[pairs[0].name].samples_file) for run in runs)
    reasons = "; ".join(f"{pair.name}: {pair.shown.not_compared_reason}" for pair in pairs[:NAMED])
    raise ResultsError(f"nothing to compare: {reasons}", where=where, hint="Run both with one pack")


def _add_breakdown(pair: TaskPair, baseline: Run, candidate: Run) -> TaskPair:
    """Split the difference in the runs' files into the parts of the grader, the model and the prompts."""
    old = pair_task(pair.name, candidate.all_runs(pair.name), None, None, baseline.all_runs(pair.name)).sides
    figures = pair.shown
    if figures.metric is None or old is None or pair.drop_sides is None or pair.clusters is None:
        return pair
    parts = break_down_regraded_drop(old, pair.drop_sides, figures.metric, pair.clusters)
    return replace(pair, figures=replace(figures, drop_breakdown=parts))
