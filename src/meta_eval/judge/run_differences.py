"""What differs between two runs of a task besides the model, and which docs only one of them has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from meta_eval.base.display import plural
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import MAX_GEN_TOKS, NAMED
from meta_eval.harness.compared_settings import describe_changes
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.lm_eval_run import TaskRun, find_disputed_metrics
from meta_eval.harness.provenance import AS_MULTITURN, Provenance
from meta_eval.judge.alarm_kinds import AlarmOccurrence, RaisedAlarm
from meta_eval.judge.alarms import INVALID
from meta_eval.judge.decision import RUN_A, TaskDecision
from meta_eval.judge.doc_pairs import RunPair
from meta_eval.judge.gate import GateTask
from meta_eval.judge.harness_alignment import (
    SYSTEM_MESSAGE,
    describe_harnesses,
    describe_prompts,
)
from meta_eval.judge.own_unit import explain_scales
from meta_eval.judge.pair import TaskSides, find_verdict_metric, is_share, list_fraction_metrics
from meta_eval.judge.run_alarms import find_two_bos, has_fixed_order


def compare_two_runs(
    read: TaskSides, figures: TaskDecision, alarms: list[RaisedAlarm], rule: GateTask, *, is_measured: bool
) -> tuple[TaskDecision, list[RaisedAlarm], bool]:
    """What is shown of a task of two runs, with the alarms of what differs between them.

    Args:
        read: The task as it was read.
        figures: What is shown of it.
        alarms: Those of B, and of the answers of A.
        rule: The rule of the gate.
        is_measured: Whether it has a drop.

    Returns:
        Both, and whether anything is compared.
    """
    own_unit, sides, runs = figures.own_unit, read.sides, (read.baseline_runs[0], read.candidate_runs[0])
    if not (sides and sides.docs):
        golds = _count_other_golds(read, sides)
        more = f" with the same right answer: {plural(golds, 'doc')} have another one in B" if golds else ""
        return _show_alone(figures, f"the runs have no doc in common{more}")
    if not is_measured and own_unit is None and (reason := _explain_no_drop(read, figures, rule)):
        return _show_alone(figures, reason)
    # Of a drop from what was recorded the runs are no sides.
    is_of_runs = figures.baseline_label in (None, RUN_A)
    if is_of_runs and (disputed := explain_disputed_metric(read, own_unit.metric if own_unit else figures.metric)):
        return _show_alone(replace(figures, flips=None, own_unit=None), disputed, kind="unlike")
    pairs = read.pair_docs_of_run(0)
    differences = describe_differences(runs[0].provenance, runs[1].provenance, pairs, describe_prompts(*runs, pairs))
    found: list[RaisedAlarm] = [(kind, replace(alarmed, run=alarmed.run or "B")) for kind, alarmed in alarms]
    if is_of_runs:
        # A deviation from the pack that both runs share is not a difference between them.
        found = [(kind, replace(alarmed, veto=alarmed.veto and kind not in INVALID)) for kind, alarmed in found]
    found += [("unlike", AlarmOccurrence(read.name, note=differences, veto=is_of_runs))] if differences else []
    if is_of_runs:
        found = _mark_two_bos(found, read.baseline_runs)
    found += _find_lacking_docs(read, sides, figures.prepared, rule)
    figures = replace(figures, docs=len(sides.docs))
    if own_unit:
        reason = "none of its metrics is a share"
        figures = replace(figures, metric=None, baseline_label=None, not_compared_reason=reason)
    return figures, found, True


def _explain_no_drop(pair: TaskSides, figures: TaskDecision, rule: GateTask) -> str | None:
    """Why a task has no drop; None where a rule says what it is compared with."""
    if not is_share(find_verdict_metric(pair.baseline_runs[0], pair.entry)):
        return "none of its metrics is a share, and no other is in both runs"
    if rule.baseline_kind not in (None, "run"):
        return None
    if figures.cut is not None and rule.cut_answers in ("wrong", "unscored"):
        return figures.not_compared_reason
    runs = pair.baseline_runs[0], pair.candidate_runs[0]
    verdicts = {*filter(None, (find_verdict_metric(run, pair.entry) for run in runs))}
    if len(verdicts) > 1 and {*list_fraction_metrics(runs[0])} & {*list_fraction_metrics(runs[1])}:
        return f"the runs have other verdicts, {join_names(sorted(verdicts), NAMED)}"
    return f"the runs have no metric in common that is a share: {_describe_metrics(pair)}"


def _describe_metrics(pair: TaskSides) -> str:
    """The shares of both runs; of a metric that both have with other filters, these."""
    of_a, of_b = (list_fraction_metrics(runs[0]) for runs in (pair.baseline_runs, pair.candidate_runs))
    for metric, _, name in (key.partition(",") for key in of_a):
        if others := [key.partition(",")[2] for key in of_b if key.startswith(f"{metric},")]:
            return f"{metric} is of the filter {name} in A, of {join_names(others, NAMED)} in B"
    return " and ".join(f"{join_names(keys, NAMED) or 'none'} in {side}" for side, keys in (("A", of_a), ("B", of_b)))


def _find_lacking_docs(pair: TaskSides, sides: RunPair, prepared: int | None, rule: GateTask) -> Iterator[RaisedAlarm]:
    """Docs whose right answer is another one, that only one run has, or that neither has."""
    docs = len(sides.docs)
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


def _count_other_golds(pair: TaskSides, sides: RunPair | None) -> int:
    """The docs that are not paired, and whose prompt one doc of each run has: their right answers differ."""
    paired: list[set[int]] = [{doc.doc_id for doc in side.docs} for side in sides] if sides else [set(), set()]
    golds: list[dict[str | None, str]] = []
    for runs, ids in zip((pair.baseline_runs, pair.candidate_runs), paired, strict=True):
        left = [doc for doc in runs[0].docs if doc.doc_id not in ids]
        counts = Counter(doc.sent_hash for doc in runs[0].docs) if left else Counter()
        golds.append({doc.sent_hash: doc.gold for doc in left if counts[doc.sent_hash] == 1})
    return sum(golds[0][sent] != golds[1][sent] for sent in golds[0].keys() & golds[1].keys())


def _mark_two_bos(alarms: list[RaisedAlarm], baseline_runs: Sequence[TaskRun]) -> list[RaisedAlarm]:
    """Two BOS on one side make the comparison invalid; on both sides they are no difference."""
    in_a = next(filter(None, map(find_two_bos, baseline_runs)), None)
    in_b = any(kind == "two bos" for kind, _ in alarms)
    marked: list[RaisedAlarm] = [
        (kind, replace(alarmed, veto=in_a is None) if kind == "two bos" else alarmed) for kind, alarmed in alarms
    ]
    return [("two bos", replace(in_a, run="A", veto=not in_b)), *marked] if in_a else marked


def explain_disputed_metric(read: TaskSides, metric_key: str | None) -> str | None:
    """Why a drop in this metric has no sign, or no scale; None where the files agree on it."""
    metric, runs = (metric_key or "").partition(",")[0], (read.baseline_runs, read.candidate_runs)
    if metric in find_disputed_metrics(*read.baseline_runs, *read.candidate_runs):
        a, b = (next(run.higher_is_better[metric] for run in side if metric in run.higher_is_better) for side in runs)
        return f"higher_is_better of {metric} is {str(a).lower()} in A and {str(b).lower()} in B, so a drop has no sign"
    verdicts = (find_verdict_metric(side[0], read.entry) for side in runs)
    return explain_scales(runs[0][0], runs[1][0], dict.fromkeys(filter(None, (metric_key, *verdicts))))


def _show_alone(
    figures: TaskDecision, reason: str | None, *, kind: str = "alone"
) -> tuple[TaskDecision, list[RaisedAlarm], bool]:
    """A task that is shown, and not decided on."""
    alone = replace(figures, not_compared_reason=reason, metric=None, baseline_label=None)
    return alone, [(kind, AlarmOccurrence(figures.name, note=reason, veto=True))], False


def describe_differences(
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
    first, second = baseline.prompt_texts, candidate.prompt_texts
    if not pairs:  # of docs, their prompts tell
        others = sorted(name for name in first.keys() & second.keys() if first[name] != second[name])
        differences += [f"another {name.replace('_', ' ')} in B" for name in others]
    differences += [
        change
        for a, b in (
            tuple(
                {
                    "a chat template": side.chat_template or None,
                    "a system instruction": (side.system_instruction and not says_system) or None,
                }
                for side in (baseline, candidate)
                if None not in (baseline.chat_template, candidate.chat_template)
            )
            or ({}, {}),
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
    """The settings of generation, with lm-eval's limit of tokens where the other has another; none where one side's are
    unknown."""
    if not all(side.results_file or side.harness or side.decoding for side in (of, other)):
        return {}
    has_default = of.harness is None and "max_gen_toks" in other.decoding
    return {**({"max_gen_toks": MAX_GEN_TOKS} if has_default else {}), **of.decoding}
