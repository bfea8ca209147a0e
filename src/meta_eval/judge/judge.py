"""Judges a run: every task beside its baseline, and a decision over all. Scores from 0 to 1.

`meta_eval.judge.baseline` chooses what a task is compared with; in `meta_eval.judge.compare` it is another run. The
distance from the baseline to the published number is reported beside the drop and is no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from meta_eval.base.errors import ConfigError
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import CAP
from meta_eval.harness.choice import Choice
from meta_eval.harness.lm_eval_run import Run
from meta_eval.harness.shared_questions import find_shared_questions
from meta_eval.judge.alarms import find_caveats, find_faults, find_vetoes, group_alarms
from meta_eval.judge.caps import note_low_caps
from meta_eval.judge.cut_answers import raise_cut_more
from meta_eval.judge.decide import Judgement, decide_outcome
from meta_eval.judge.decision import AlarmOccurrence, Outcome, RaisedAlarm
from meta_eval.judge.drop_breakdown import break_down_mean_drop
from meta_eval.judge.engine_noise import find_drift
from meta_eval.judge.filters import find_disagreements
from meta_eval.judge.further_runs import advise_second_run
from meta_eval.judge.gate import Gate
from meta_eval.judge.groups import choose_entries, list_decided_names, pair_groups
from meta_eval.judge.measure import measure_task
from meta_eval.judge.origin_alarms import find_run_origins
from meta_eval.judge.own_unit import decide_own_units
from meta_eval.judge.pair import (
    TaskPair,
    pair_task,
)
from meta_eval.judge.unread_answers import find_unread_drop
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
    )


def decide_pairs(
    pairs: Sequence[TaskPair],
    gate: Gate,
    decided_names: Sequence[str],
    run_alarms: Sequence[RaisedAlarm],
) -> Judgement:
    """Decide over the named tasks.

    A named group replaces its tasks and nested groups. Other groups are decided too, outside the mean, and can also
    forbid SHIP.
    """
    margin = gate.margin_fraction
    members = {pair.name: pair.shown.members for pair in pairs if pair.shown.members}
    compared = {pair.name: pair for pair in pairs if pair.has_drop}
    in_groups = {task for name in decided_names for task in members.get(name, ())}
    in_groups |= _overlapping({name: members[name] for name in decided_names if name in members})
    alarms = group_alarms(_list_alarms(pairs, margin, run_alarms))
    averaged = [pair for name, pair in compared.items() if name in decided_names and name not in in_groups]
    others = [pair for name, pair in compared.items() if name in decided_names and name in in_groups]
    if not gate.tasks:
        complete_groups = {name for name, tasks in members.items() if {*tasks} <= {*decided_names}}
        others += [pair for name, pair in compared.items() if name in complete_groups]
    decided_or_grouped = {*decided_names, *in_groups}
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
            task = replace(task, not_compared_reason="it is not asked for")
        tasks.append(task)
    breakdown = break_down_mean_drop(
        [(task.drop_breakdown, task.weight) for task in tasks if task.drop_breakdown and task.is_decided]
    )
    notes = tuple(note_low_caps([*averaged, *others], margin, gate.cap_fraction))
    if decision.outcome == "SHIP":
        notes = (*notes, *advise_second_run(averaged, margin, gate.cap_fraction or CAP))
    return Judgement(
        decision=decision,
        tasks=tuple(sorted(tasks, key=lambda task: task.name)),
        alarms=alarms,
        notes=notes,
        drop_breakdown=breakdown,
    )


def _list_alarms(pairs: Sequence[TaskPair], margin: float, run_alarms: Sequence[RaisedAlarm]) -> Iterator[RaisedAlarm]:
    """The alarms of tasks and runs, with those that need all tasks. A difference of cut answers says more than their
    number."""
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
    for pair in pairs:
        unread = find_unread_drop(pair.name, pair.unread, pair.margin or margin)
        for kind, alarmed in (*pair.alarms, *unread):
            if kind != "limit" or alarmed.task not in tasks_cut_more:
                yield kind, alarmed
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
