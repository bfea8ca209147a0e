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
from dataclasses import dataclass, replace

from meta_eval import stats
from meta_eval.errors import ConfigError
from meta_eval.judging.alarms import Raised, alarms, by_kind, shortcomings, vetoes
from meta_eval.judging.decide import Evidence, decide
from meta_eval.judging.gate import Gate, Rule
from meta_eval.judging.model import Alarmed, Flips, Judgement, Subtask, Task
from meta_eval.judging.numbers import averages, cut_answers, gaps, incomparable, numbers
from meta_eval.judging.sides import (
    Side,
    aligned,
    both,
    by_number,
    by_prompt,
    by_question,
    cluster_names,
    reading_of,
    recorded_side,
    shared_questions,
    source_of,
    verdict_spec,
)
from meta_eval.pack.manifest import Manifest, TaskEntry
from meta_eval.results.baseline import Baseline
from meta_eval.results.recorded import SAME_VERDICT
from meta_eval.results.run import Run, TaskRun

ANSWERS = "Meta's recorded answers, graded by the pack"
VERDICTS = "Meta's recorded verdicts"
NUMBER = "the published number alone"

# The share of docs that must have a recorded answer or verdict for it to be what a task is compared with.
MOST = 0.9


@dataclass(frozen=True, slots=True)
class Draft:
    """A task before the decision over all."""

    task: Task
    evidence: Evidence | None
    raised: tuple[Raised, ...]


def judge(
    run: Run, manifest: Manifest | None, baseline: Baseline | None = None, rules: Gate | None = None
) -> Judgement:
    """Judge every task of the pack and of the run, in the order of their names.

    Call `meta_eval.results.run.check_pack` first: this takes the docs for those of the pack.

    Args:
        run: The run, or several of them.
        manifest: Its pack. Without one there are scores, and nothing that they are compared with.
        baseline: Meta's recorded answers as the pack grades them.
        rules: What is asked.

    Raises:
        ConfigError: The rules name a task that is not there, or a baseline run.
    """
    gate = (rules or Gate()).or_margin(manifest.run.margin if manifest else None)
    entries = manifest.tasks if manifest else {}
    names = sorted({*run.tasks, *entries})
    wanted = gate.among(sorted(entries) if manifest else names)
    if any(gate.rule(name).against == "baseline" for name in wanted):
        raise ConfigError("against: baseline needs a baseline run", hint="Give both to `meta-eval compare`")
    shared = shared_questions([run.tasks[name].docs for name in wanted if name in run.tasks])
    drafts = []
    for name in names:
        runs = run.all_runs(name)
        drafts.append(draft(name, runs, entries.get(name), baseline, gate.rule(name), shared))
    return conclude(drafts, gate, wanted, [] if manifest else [("no pack", Alarmed(None))])


def conclude(
    drafts: Sequence[Draft], gate: Gate, wanted: Sequence[str], raised: Sequence[Raised], notes: Sequence[str] = ()
) -> Judgement:
    """The decision over the tasks that it is wanted on."""
    found = by_kind([*raised, *(one for each in drafts for one in each.raised)])
    evidence = [one.evidence for one in drafts if one.evidence is not None and one.task.name in wanted]
    decision = decide(evidence, gate.share or 0.0, vetoes(found, wanted))
    decided = {one.task: one for one in decision.tasks}
    tasks = []
    for one in drafts:
        task = replace(one.task, decision=decided.get(one.task.name))
        if one.evidence is not None and task.decision is None:
            task = replace(task, reason="it is not asked for")
        tasks.append(task)
    return Judgement(decision, found, tuple(tasks), tuple(notes))


def draft(
    name: str,
    runs: Sequence[TaskRun],
    entry: TaskEntry | None,
    baseline: Baseline | None,
    rule: Rule,
    shared: frozenset[str],
    before: Sequence[TaskRun] = (),
) -> Draft:
    """One task.

    Args:
        name: The task.
        runs: Its runs, the newest first; none where it was not run.
        entry: What the pack says of it.
        baseline: Meta's recorded answers.
        rule: What is asked of it.
        shared: See `sides.shared_questions`.
        before: Where two runs are compared, those of the baseline.
    """
    if not runs:
        task = Task(name, entry.subset if entry else None, 0, entry.docs if entry else None, reason="it was not run")
        return Draft(task, None, (("not run", Alarmed(name)),))
    result, ours = runs[0], Side([one.docs for one in runs])
    spec = verdict_spec(result, entry)
    answers = Side([baseline.docs[name]]) if baseline and baseline.docs.get(name) else None
    verdicts = recorded_side(result.docs, spec, entry, reading_of(result, entry)) if spec else None
    meta = answers or verdicts
    first = Side([one.docs for one in before]) if before else meta
    keys = (by_prompt, by_question) if before else (by_number,)
    sides = aligned(first, ours, *keys) if first else None
    source = source_of(result, before, ours, meta, sides, spec) if spec else None
    beside = numbers(name, result, ours, entry, meta)
    task = Task(
        name=name,
        subset=entry.subset if entry else None,
        docs=len(result.docs) or result.provenance.docs_run or 0,
        prepared=entry.docs if entry else before[0].provenance.docs_of_task if before else None,
        runs=len(runs),
        scores=beside,
        flips=_flips(sides, spec, compared=bool(before)) if sides and spec else None,
        gaps=gaps(entry, result),
        cut=cut_answers(ours, sides, spec) if spec else None,
        subtasks=_subtasks(ours, spec, sides) if spec else (),
        averages=averages(name, result.aggregates, shares=False),
        source=source,
    )
    raised = shortcomings(name, runs, entry, rule)
    known = first.scores(spec) if first and spec else None
    published = next((one.published.value for one in beside if one.published and one.difference is not None), None)
    for number, one in enumerate(runs if spec else ()):
        expected = known.value if known else published
        raised += alarms(name, one, ours, number, spec or "", baseline=first if before else answers, reference=expected)
    against = rule.against or ("baseline" if before else None)
    if against == "baseline" and sides:
        found = _paired(sides, _metrics(before[0], entry), "run A")
    else:
        found = _reference(result, ours, answers, verdicts, entry, rule)
    missing = baseline.missing.get(name) if baseline and not before else None
    if isinstance(found, str):
        raised += [("alone", Alarmed(name, note=found))] if entry or before else []
        return Draft(replace(task, reason=found, instead=missing), None, tuple(raised))
    if found.before and rule.min_docs and len(found.after.docs) < rule.min_docs:
        note = f"{len(found.after.docs)} docs, and {rule.min_docs} are asked for"
        raised.append(("unfinished", Alarmed(name, note=note)))
    evidence = _evidence(name, found, rule, shared, len(before) if found.words == "run A" else None)
    task = replace(task, cut=cut_answers(ours, (found.before, found.after) if found.before else None, found.spec))
    return Draft(replace(task, metric=found.spec, against=found.words, instead=missing), evidence, tuple(raised))


# What a drop is a drop from


@dataclass(frozen=True, slots=True)
class _Reference:
    """In ``spec``, aligned sides; or with no side before the published number, and all of ours."""

    words: str
    spec: str
    after: Side
    before: Side | None = None
    published: float = 0.0


def _reference(
    result: TaskRun, ours: Side, answers: Side | None, verdicts: Side | None, entry: TaskEntry | None, rule: Rule
) -> _Reference | str:
    """What the task is compared with, of what Meta gave; else why there is nothing."""
    if entry is None:
        return "no pack says what it is to be compared with"
    if not result.docs:
        return "there are no samples: run lm_eval with --log_samples"
    wanted = _metrics(result, entry)
    if rule.against != "published":
        for words, side in ((ANSWERS, answers), (VERDICTS, verdicts if entry.graded_by == "program" else None)):
            if side is not None:
                sides = aligned(side, ours, by_number)
                found = _paired(sides, wanted, words)
                if not isinstance(found, str) and len(sides[0].docs) >= MOST * len(ours.docs):
                    return found
        if rule.against == "recorded":
            return "there are no recorded answers or verdicts to compare it with"
    reasons = ["no number was published for this subset"]
    for number in entry.published:
        reason = incomparable(result, ours, entry, number)
        if reason is None:
            return _Reference(NUMBER, number.our_metric, ours, published=number.value / 100)
        reasons.append(reason)
    return reasons[-1]


def _paired(sides: tuple[Side, Side], wanted: Sequence[str], words: str) -> _Reference | str:
    for spec in wanted:
        if both(*sides, spec) is not None:
            return _Reference(words, spec, sides[1], sides[0])
    return "there is no metric that both have and that is a share"


def _metrics(result: TaskRun, entry: TaskEntry | None) -> list[str]:
    """The metrics that a drop may be taken in, the first before others: those that are published for such docs."""
    numbers = sorted(entry.published, key=lambda one: not one.same_settings) if entry else ()
    published = [one.our_metric for one in numbers] if entry else list(result.published_metrics)
    verdict = verdict_spec(result, entry)
    return [*published, *([verdict] if verdict else ())]


def _evidence(name: str, found: _Reference, rule: Rule, shared: frozenset[str], baseline_runs: int | None) -> Evidence:
    ours = found.after.scores(found.spec)
    assert ours is not None  # noqa: S101 (that is how it was chosen)
    names = cluster_names(name, [found.after.docs[position] for position in ours.positions], shared)
    theirs = found.before.scores(found.spec) if found.before else None
    drop = (
        stats.unpaired_drop(found.published, ours.values, ours.labels, names)
        if theirs is None
        else stats.paired_drop(theirs.shares, ours.shares, ours.labels, names)
    )
    noise = None
    for side in filter(None, (found.before, found.after)):
        each = side.each(found.spec)
        if len(each) > 1:
            noise = stats.run_noise([one.shares for one in each], ours.labels)
    return Evidence(name, drop, rule.share, len(found.after.runs), baseline_runs, noise)


# Doc by doc


def _flips(sides: tuple[Side, Side], spec: str, *, compared: bool) -> Flips | None:
    first, second = sides if compared else sides[::-1]
    before, after = first.of(0, spec), second.of(0, spec)
    if before is None or after is None or before.positions != after.positions:
        return None
    changes = [b - a for a, b in zip(before.raw, after.raw, strict=True)]
    down, up = sum(one < -SAME_VERDICT for one in changes), sum(one > SAME_VERDICT for one in changes)
    return Flips(*(("A", "B") if compared else ("ours", "Meta's")), len(changes), down, up)


def _subtasks(ours: Side, spec: str, sides: tuple[Side, Side] | None) -> tuple[Subtask, ...]:
    found = ours.scores(spec)
    if found is None:
        return ()
    theirs: dict[Hashable, float] = {}
    pair = both(*sides, spec) if sides else None
    if sides and pair:
        docs = sides[1].docs
        theirs = {docs[at].doc_id: value for at, value in zip(pair[0].positions, pair[0].raw, strict=True)}
    groups: dict[str, list[tuple[float, float | None]]] = {}
    for position, value in zip(found.positions, found.raw, strict=True):
        doc = ours.docs[position]
        if doc.subtask is not None:
            groups.setdefault(doc.subtask, []).append((value, theirs.get(doc.doc_id)))
    if len(groups) < 2:
        return ()
    drops = {}
    for name, values in groups.items():
        before = [one for _, one in values if one is not None]
        if len(before) == len(values):
            drops[name] = stats.paired_drop(before, [one for one, _ in values])
    clear = dict(zip(drops, (p < stats.ALPHA for p in stats.holm([one.p() for one in drops.values()])), strict=True))
    return tuple(
        Subtask(
            name,
            len(values),
            stats.mean([one for one, _ in values]),
            drops[name].before if name in drops else None,
            clear.get(name, False),
        )
        for name, values in sorted(groups.items())
    )
