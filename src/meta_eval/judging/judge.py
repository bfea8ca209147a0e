"""Does it hold? Every task of a run beside a baseline, and one decision over all; scores from 0 to 1.

What a task's drop is a drop from, the first of these that there is:

1. **Meta's recorded answers**, graded by the pack's own graders (`meta_eval.results.baseline`): doc by doc, in the
   published metric.
2. **Meta's recorded verdicts**, doc by doc, where they are verdicts in that metric and a program's: a judge model's
   would charge the run with what only the graders differ in.
3. **The published number** alone, where it was measured as these docs are.

What the baseline itself differs from the published number by is said beside it (`numbers.baseline_distance`), and no
part of the drop. `meta_eval.judging.compare` takes another run instead of these; what follows is the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from meta_eval import stats
from meta_eval.judging.alarms import count_changed_prompts, find_alarms, find_run_problems
from meta_eval.judging.conditions import check_conditions
from meta_eval.judging.decide import TaskDrop
from meta_eval.judging.drafts import Draft, conclude_judgement
from meta_eval.judging.drop_breakdown import decompose_task_drop
from meta_eval.judging.filters import filter_drops
from meta_eval.judging.gate import Gate, Rule
from meta_eval.judging.groups import choose_tasks, draft_groups, list_decided_names
from meta_eval.judging.judgement import META, Alarmed, Cut, Flips, Judgement, Task
from meta_eval.judging.numbers import (
    explain_incomparable,
    list_known_gaps,
    list_other_averages,
    list_scores,
    score_without_cut,
)
from meta_eval.judging.sides import (
    ScoredRun,
    Sides,
    align_sides,
    build_sides,
    number_key,
    paired_scores,
    shared_questions,
    verdict_spec,
)
from meta_eval.judging.subtask_drops import describe_subtasks, subtask_drops
from meta_eval.messages.errors import ConfigError
from meta_eval.pack.manifest import Manifest, TaskEntry
from meta_eval.results.baseline import Baseline
from meta_eval.results.choice import Choice
from meta_eval.results.doc_results import Doc
from meta_eval.results.lm_eval_run import Run, TaskRun
from meta_eval.thresholds import MIN_RECORDED, SAME_VERDICT

ANSWERS = f"{META} recorded answers, graded by the pack"
VERDICTS = f"{META} recorded verdicts"
NUMBER = "the published number alone"
RUN_A = "run A"


def judge_run(
    run: Run,
    manifest: Manifest | None,
    baseline: Baseline | None = None,
    rules: Gate | None = None,
    choice: Choice | None = None,
) -> Judgement:
    """Judge every task of the pack and of the run, in the order of their names.

    Call `meta_eval.results.lm_eval_run.check_pack` first: this takes the docs for those of the pack.

    Args:
        run: The run, or several of them.
        manifest: Its pack. Without one there are scores, and nothing that they are compared with.
        baseline: Meta's recorded answers as the pack grades them.
        rules: What is asked.
        choice: Of which tasks; what is left out is no part of the decision, whatever the rules say.

    Raises:
        ConfigError: The rules name a task that is not there, or a baseline run.
    """
    entries, groups, left_out = choose_tasks([run], manifest, choice or Choice())
    gate = (rules or Gate()).complete(manifest, [*run.tasks, *entries, *left_out], groups).leave_out(left_out)
    names = sorted({*run.tasks, *entries})
    asked = sorted(entries) if manifest else names
    gate.list_tasks([*asked, *groups])
    ruled = gate.expand_groups(groups)
    named = {name for name, entry in entries.items() if entry.baseline is not None}
    if any(ruled.rule_of(name).against == "baseline" and name not in named for name in ruled.tasks or asked):
        raise ConfigError(
            "against: baseline needs a baseline run",
            hint="Give both to `meta-eval compare`, or name it as baseline in the configuration",
        )
    shared = shared_questions([run.tasks[name].docs for name in ruled.tasks or asked if name in run.tasks])
    sides = [build_sides(name, run.all_runs(name), entries.get(name), baseline) for name in names]
    drafts = [draft_task(task_sides, ruled.rule_of(task_sides.name), shared) for task_sides in sides]
    drafts += draft_groups(run, drafts, gate)
    decided_names = list_decided_names(gate, groups, drafts, asked)
    return conclude_judgement(drafts, gate, decided_names, [] if manifest else [("no pack", Alarmed(None))])


def draft_task(sides: Sides, rule: Rule, shared: frozenset[str]) -> Draft:
    """Judge a task but for the decision over all.

    Args:
        sides: Its sides.
        rule: What is asked of it.
        shared: See `sides.shared_questions`.
    """
    name, entry, spec, before = sides.name, sides.entry, sides.spec, sides.before
    if not sides.runs:
        task = Task(name, entry.subset if entry else None, 0, entry.docs if entry else None, reason="it was not run")
        return Draft(task, None, (("not run", Alarmed(name)),))
    result = sides.runs[0]
    if before and sides.pair and (rule.against or "baseline") == "baseline":
        choice = _paired(sides.pair, _metrics(before[0], entry), RUN_A)
    else:
        choice = _reference(sides, rule)
    reference, reason = (None, choice) if isinstance(choice, str) else (choice, None)
    evidence = _evidence(sides, reference, rule, shared) if reference else None
    owner = "" if before else entry.whose if entry else META
    drop_spec = reference.spec if reference else spec
    task = Task(
        name=name,
        subset=entry.subset if entry else None,
        docs=len(result.docs) or result.provenance.docs_run or 0,
        prepared=entry.docs if entry else before[0].provenance.docs_of_task if before else None,
        runs=len(sides.runs),
        metric=reference.spec if reference else None,
        against=reference.words if reference else None,
        reason=reason,
        instead=sides.missing,
        flips=_flips(sides.pair, spec, owner) if sides.pair and spec else None,
        subtasks=describe_subtasks(sides.ours, spec, sides.pair) if spec else (),
        # How far it is from the published number is said of what the evals dataset records, and of no other baseline.
        scores=list_scores(
            name,
            result,
            sides.ours,
            entry,
            None if entry and entry.baseline else sides.answers or sides.verdicts,
            reference.spec if reference else None,
        ),
        gaps=list_known_gaps(entry, result),
        cut=_cut(sides, reference),
        averages=list_other_averages(name, result, entry, before[0] if before else None),
        source=sides.source,
        apart=_apart(sides, reference, shared) if reference else None,
        lower_is_better=(drop_spec or "").partition(",")[0] in result.lower_is_better,
    )
    raised = find_run_problems(name, sides.runs, entry, rule)
    known = sides.first.scores(spec) if sides.first and spec else None
    published = next(
        (score.published.value for score in task.scores if score.published and score.difference is not None), None
    )
    expected = known.value if known else published
    for number, run in enumerate(sides.runs if spec else ()):
        beside = sides.first if before else sides.answers
        raised += find_alarms(name, run, sides.ours, number, spec or "", baseline=beside, reference=expected)
        raised += check_conditions(name, sides.ours.runs[number], (spec or "").partition(",")[2], rule.limits)
    baseline = reference.before if reference else None
    if reason:
        raised += [("alone", Alarmed(name, note=reason))] if entry or before else []
    elif baseline and not before and (other := count_changed_prompts(baseline.docs)) and entry and entry.baseline:
        note = f"{other:,} of {len(baseline.docs):,} answers of the baseline had another prompt"
        raised.append(("unlike", Alarmed(name, note=note)))
    if reference is None or baseline is None:
        return Draft(task, evidence, tuple(raised))
    if rule.min_docs and len(reference.after.docs) < rule.min_docs:
        note = f"{len(reference.after.docs)} docs, and {rule.min_docs} are asked for"
        raised.append(("unfinished", Alarmed(name, note=note)))

    def clusters(docs: Sequence[Doc]) -> Sequence[Hashable] | None:
        return cluster_names(name, docs, shared)

    others = filter_drops(baseline, reference.after, reference.spec, result.filters, clusters)
    return Draft(task, evidence, tuple(raised), (baseline, reference.after), clusters, tuple(others))


def _cut(sides: Sides, reference: _Reference | None) -> Cut | None:
    """The scores with and without cut answers, in the metric of the drop where there is one."""
    if reference is None:
        return score_without_cut(sides.ours, sides.pair, sides.spec) if sides.spec else None
    pair = (reference.before, reference.after) if reference.before else None
    return score_without_cut(sides.ours, pair, reference.spec)


def _apart(sides: Sides, reference: _Reference, shared: frozenset[str]) -> stats.Decomposition | None:
    if sides.before or sides.recorded is None or sides.answers is None:
        return None
    return decompose_task_drop(
        sides.recorded, sides.answers, sides.ours, reference.spec, lambda docs: cluster_names(sides.name, docs, shared)
    )


# What a drop is a drop from


@dataclass(frozen=True, slots=True)
class _Reference:
    """In ``spec``, aligned sides; or with no side before the published number, and all of ours."""

    words: str
    spec: str
    after: ScoredRun
    before: ScoredRun | None = None
    published: float = 0.0


def _reference(sides: Sides, rule: Rule) -> _Reference | str:
    """What the task is compared with, of what Meta gave; else why there is nothing."""
    result, ours, entry = sides.runs[0], sides.ours, sides.entry
    if entry is None:
        return "no pack says what it is to be compared with"
    if not result.docs:
        return "there are no samples: run lm_eval with --log_samples"
    metrics = _metrics(result, entry)
    if rule.against != "published":
        verdicts = sides.verdicts if entry.graded_by == "program" or entry.baseline is not None else None
        for words, side in ((ANSWERS, sides.answers), (VERDICTS, verdicts)):
            if side is not None:
                pair = align_sides(side, ours, number_key)
                reference = _paired(pair, metrics, words.replace(f"{META} recorded", entry.whose_recorded))
                if not isinstance(reference, str) and len(pair[0].docs) >= MIN_RECORDED * len(ours.docs):
                    return reference
        if rule.against == "recorded":
            return "there are no recorded answers or verdicts to compare it with"
    reasons = ["no number was published for this subset" if entry.record is None else "no score of it is a share"]
    for number in entry.published:
        reason = explain_incomparable(result, ours, entry, number)
        if reason is None:
            return _Reference(NUMBER, number.our_metric, ours, published=number.value / 100)
        reasons.append(reason)
    return reasons[-1]


def _paired(sides: tuple[ScoredRun, ScoredRun], metrics: Sequence[str], words: str) -> _Reference | str:
    for spec in metrics:
        if paired_scores(*sides, spec) is not None:
            return _Reference(words, spec, sides[1], sides[0])
    return "there is no metric that both have and that is a share"


def _metrics(result: TaskRun, entry: TaskEntry | None) -> list[str]:
    """The metrics that a drop may be taken in, the first before others: those that are published for such docs."""
    numbers = sorted(entry.published, key=lambda number: not number.same_settings) if entry else ()
    published = [number.our_metric for number in numbers] if entry else list(result.published_metrics)
    verdict = verdict_spec(result, entry)
    return [*published, *([verdict] if verdict else ())]


def _evidence(sides: Sides, reference: _Reference, rule: Rule, shared: frozenset[str]) -> TaskDrop:
    ours = reference.after.scores(reference.spec)
    assert ours is not None  # noqa: S101 (that is how it was chosen)
    names = cluster_names(sides.name, [reference.after.docs[position] for position in ours.positions], shared)
    theirs = reference.before.scores(reference.spec) if reference.before else None
    drop = (
        stats.unpaired_drop(reference.published, ours.values, ours.labels, names)
        if theirs is None
        else stats.paired_drop(theirs.shares, ours.shares, ours.labels, names)
    )
    drop = drop.invert() if ours.lower_is_better else drop
    noise = None
    for side in filter(None, (reference.before, reference.after)):
        scores_by_run = side.scores_by_run(reference.spec)
        if len(scores_by_run) > 1:
            noise = stats.run_noise([run_scores.shares for run_scores in scores_by_run], ours.labels)
    baseline_runs = len(sides.before) if reference.words == RUN_A else None
    pair = (reference.before, reference.after) if reference.before else None
    subtasks = subtask_drops(reference.after, reference.spec, pair)
    runs = len(reference.after.runs)
    return TaskDrop(sides.name, drop, rule.share, runs, baseline_runs, noise, rule.cap_share, subtasks)


def cluster_names(task: str, docs: Sequence[Doc], shared: frozenset[str]) -> list[Hashable] | None:
    """The cluster of each doc; None where no doc shares anything with another.

    Args:
        task: Its name: docs of two tasks are related only through a question that both have.
        docs: The docs.
        shared: Question hashes that stand in several tasks of the report.
    """
    of_cluster: dict[str, str] = {}
    for doc in docs:
        if doc.cluster is not None and doc.question_hash in shared:
            of_cluster[doc.cluster] = min(of_cluster.get(doc.cluster, doc.question_hash), doc.question_hash)
    names: list[Hashable] = []
    for doc in docs:
        known = doc.question_hash if doc.cluster is None else of_cluster.get(doc.cluster)
        names.append(known if known in shared else (task, doc.doc_id if doc.cluster is None else doc.cluster))
    alone = all(doc.cluster is None and doc.question_hash not in shared for doc in docs)
    return None if alone else names


# Doc by doc


def _flips(sides: tuple[ScoredRun, ScoredRun], spec: str, whose: str) -> Flips | None:
    """``whose`` recorded verdicts; the empty text where two runs are compared."""
    first, second = sides[::-1] if whose else sides
    before, after = first.scores_of_run(0, spec), second.scores_of_run(0, spec)
    if before is None or after is None or before.positions != after.positions:
        return None
    changes = [b - a for a, b in zip(before.verdicts, after.verdicts, strict=True)]
    down, up = sum(change < -SAME_VERDICT for change in changes), sum(change > SAME_VERDICT for change in changes)
    return Flips(*(("ours", whose) if whose else ("A", "B")), len(changes), down, up)
