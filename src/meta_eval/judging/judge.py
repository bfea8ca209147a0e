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
from meta_eval.errors import ConfigError
from meta_eval.judging.alarms import alarms, changed_prompts, shortcomings
from meta_eval.judging.apart import apart
from meta_eval.judging.conditions import check_conditions
from meta_eval.judging.decide import Evidence
from meta_eval.judging.drafts import Draft, conclude
from meta_eval.judging.filters import filter_drops
from meta_eval.judging.gate import Gate, Rule
from meta_eval.judging.groups import chosen, decided_on, draft_groups
from meta_eval.judging.model import META, Alarmed, Cut, Flips, Judgement, Subtask, Task
from meta_eval.judging.numbers import cut_answers, gaps, incomparable, no_shares, numbers
from meta_eval.judging.sides import Side, Sides, aligned, both, by_number, lay_out, shared_questions, verdict_spec
from meta_eval.pack.manifest import Manifest, TaskEntry
from meta_eval.results.baseline import Baseline
from meta_eval.results.choice import Choice
from meta_eval.results.model import Doc
from meta_eval.results.run import Run, TaskRun
from meta_eval.thresholds import ALPHA, MIN_RECORDED, SAME_VERDICT

ANSWERS = f"{META} recorded answers, graded by the pack"
VERDICTS = f"{META} recorded verdicts"
NUMBER = "the published number alone"
RUN_A = "run A"


def judge(
    run: Run,
    manifest: Manifest | None,
    baseline: Baseline | None = None,
    rules: Gate | None = None,
    choice: Choice | None = None,
) -> Judgement:
    """Judge every task of the pack and of the run, in the order of their names.

    Call `meta_eval.results.run.check_pack` first: this takes the docs for those of the pack.

    Args:
        run: The run, or several of them.
        manifest: Its pack. Without one there are scores, and nothing that they are compared with.
        baseline: Meta's recorded answers as the pack grades them.
        rules: What is asked.
        choice: Of which tasks; what is left out is no part of the decision, whatever the rules say.

    Raises:
        ConfigError: The rules name a task that is not there, or a baseline run.
    """
    gate = (rules or Gate()).or_margin(manifest.run.margin if manifest else None)
    entries, groups, left_out = chosen([run], manifest, choice or Choice())
    gate = gate.without(left_out)
    names = sorted({*run.tasks, *entries})
    asked = sorted(entries) if manifest else names
    gate.among([*asked, *groups])
    ruled = gate.spread(groups)
    named = {name for name, entry in entries.items() if entry.baseline is not None}
    if any(ruled.rule(name).against == "baseline" and name not in named for name in ruled.tasks or asked):
        raise ConfigError(
            "against: baseline needs a baseline run",
            hint="Give both to `meta-eval compare`, or name it as baseline in the configuration",
        )
    shared = shared_questions([run.tasks[name].docs for name in ruled.tasks or asked if name in run.tasks])
    sides = [lay_out(name, run.all_runs(name), entries.get(name), baseline) for name in names]
    drafts = [draft(one, ruled.rule(one.name), shared) for one in sides]
    drafts += draft_groups(run, drafts, gate)
    wanted = decided_on(gate, groups, drafts, asked)
    return conclude(drafts, gate, wanted, [] if manifest else [("no pack", Alarmed(None))])


def draft(one: Sides, rule: Rule, shared: frozenset[str]) -> Draft:
    """One task.

    Args:
        one: Its sides.
        rule: What is asked of it.
        shared: See `sides.shared_questions`.
    """
    name, entry, spec, before = one.name, one.entry, one.spec, one.before
    if not one.runs:
        task = Task(name, entry.subset if entry else None, 0, entry.docs if entry else None, reason="it was not run")
        return Draft(task, None, (("not run", Alarmed(name)),))
    result = one.runs[0]
    if before and one.pair and (rule.against or "baseline") == "baseline":
        found = _paired(one.pair, _metrics(before[0], entry), RUN_A)
    else:
        found = _reference(one, rule)
    evidence = None if isinstance(found, str) else _evidence(one, found, rule, shared)
    of_drop = spec if isinstance(found, str) else found.spec
    task = Task(
        name=name,
        subset=entry.subset if entry else None,
        docs=len(result.docs) or result.provenance.docs_run or 0,
        prepared=entry.docs if entry else before[0].provenance.docs_of_task if before else None,
        runs=len(one.runs),
        metric=None if isinstance(found, str) else found.spec,
        against=None if isinstance(found, str) else found.words,
        reason=found if isinstance(found, str) else None,
        instead=one.missing,
        flips=_flips(one.pair, spec, "" if before else entry.whose if entry else META) if one.pair and spec else None,
        subtasks=_subtasks(one.ours, spec, one.pair) if spec else (),
        # How far it is from the published number is said of what the evals dataset records, and of no other baseline.
        scores=numbers(
            name,
            result,
            one.ours,
            entry,
            None if entry and entry.baseline else one.answers or one.verdicts,
            None if isinstance(found, str) else found.spec,
        ),
        gaps=gaps(entry, result),
        cut=_cut(one, found),
        averages=no_shares(name, result, entry, before[0] if before else None),
        source=one.source,
        apart=None if isinstance(found, str) else _apart(one, found, shared),
        lower_is_better=(of_drop or "").partition(",")[0] in result.lower_is_better,
    )
    raised = shortcomings(name, one.runs, entry, rule)
    known = one.first.scores(spec) if one.first and spec else None
    published = next(
        (score.published.value for score in task.scores if score.published and score.difference is not None), None
    )
    expected = known.value if known else published
    for number, run in enumerate(one.runs if spec else ()):
        beside = one.first if before else one.answers
        raised += alarms(name, run, one.ours, number, spec or "", baseline=beside, reference=expected)
        raised += check_conditions(name, one.ours.runs[number], (spec or "").partition(",")[2], rule.limits)
    if isinstance(found, str):
        raised += [("alone", Alarmed(name, note=found))] if entry or before else []
    elif found.before and not before and (other := changed_prompts(found.before.docs)) and entry and entry.baseline:
        note = f"{other:,} of {len(found.before.docs):,} answers of the baseline had another prompt"
        raised.append(("unlike", Alarmed(name, note=note)))
    if not isinstance(found, str) and found.before and rule.min_docs and len(found.after.docs) < rule.min_docs:
        note = f"{len(found.after.docs)} docs, and {rule.min_docs} are asked for"
        raised.append(("unfinished", Alarmed(name, note=note)))
    if isinstance(found, str) or found.before is None:
        return Draft(task, evidence, tuple(raised))

    def clusters(docs: Sequence[Doc]) -> Sequence[Hashable] | None:
        return cluster_names(name, docs, shared)

    others = filter_drops(found.before, found.after, found.spec, result.filters, clusters)
    return Draft(task, evidence, tuple(raised), (found.before, found.after), clusters, tuple(others))


def _cut(one: Sides, found: _Reference | str) -> Cut | None:
    """The scores with and without cut answers, in the metric of the drop where there is one."""
    if isinstance(found, str):
        return cut_answers(one.ours, one.pair, one.spec) if one.spec else None
    return cut_answers(one.ours, (found.before, found.after) if found.before else None, found.spec)


def _apart(one: Sides, found: _Reference, shared: frozenset[str]) -> stats.Apart | None:
    if one.before or one.recorded is None or one.answers is None:
        return None
    return apart(one.recorded, one.answers, one.ours, found.spec, lambda docs: cluster_names(one.name, docs, shared))


# What a drop is a drop from


@dataclass(frozen=True, slots=True)
class _Reference:
    """In ``spec``, aligned sides; or with no side before the published number, and all of ours."""

    words: str
    spec: str
    after: Side
    before: Side | None = None
    published: float = 0.0


def _reference(one: Sides, rule: Rule) -> _Reference | str:
    """What the task is compared with, of what Meta gave; else why there is nothing."""
    result, ours, entry = one.runs[0], one.ours, one.entry
    if entry is None:
        return "no pack says what it is to be compared with"
    if not result.docs:
        return "there are no samples: run lm_eval with --log_samples"
    wanted = _metrics(result, entry)
    if rule.against != "published":
        verdicts = one.verdicts if entry.graded_by == "program" or entry.baseline is not None else None
        for words, side in ((ANSWERS, one.answers), (VERDICTS, verdicts)):
            if side is not None:
                pair = aligned(side, ours, by_number)
                found = _paired(pair, wanted, words.replace(f"{META} recorded", entry.whose_recorded))
                if not isinstance(found, str) and len(pair[0].docs) >= MIN_RECORDED * len(ours.docs):
                    return found
        if rule.against == "recorded":
            return "there are no recorded answers or verdicts to compare it with"
    reasons = ["no number was published for this subset" if entry.record is None else "no score of it is a share"]
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


def _evidence(one: Sides, found: _Reference, rule: Rule, shared: frozenset[str]) -> Evidence:
    ours = found.after.scores(found.spec)
    assert ours is not None  # noqa: S101 (that is how it was chosen)
    names = cluster_names(one.name, [found.after.docs[position] for position in ours.positions], shared)
    theirs = found.before.scores(found.spec) if found.before else None
    drop = (
        stats.unpaired_drop(found.published, ours.values, ours.labels, names)
        if theirs is None
        else stats.paired_drop(theirs.shares, ours.shares, ours.labels, names)
    )
    drop = drop.turned() if ours.lower_is_better else drop
    noise = None
    for side in filter(None, (found.before, found.after)):
        each = side.each(found.spec)
        if len(each) > 1:
            noise = stats.run_noise([one.shares for one in each], ours.labels)
    baseline_runs = len(one.before) if found.words == RUN_A else None
    return Evidence(one.name, drop, rule.share, len(found.after.runs), baseline_runs, noise)


def cluster_names(task: str, docs: Sequence[Doc], shared: frozenset[str]) -> list[Hashable] | None:
    """What each doc shares with others; None where every doc stands alone.

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


def _flips(sides: tuple[Side, Side], spec: str, whose: str) -> Flips | None:
    """``whose`` recorded verdicts; the empty text where two runs are compared."""
    first, second = sides[::-1] if whose else sides
    before, after = first.of(0, spec), second.of(0, spec)
    if before is None or after is None or before.positions != after.positions:
        return None
    changes = [b - a for a, b in zip(before.verdicts, after.verdicts, strict=True)]
    down, up = sum(one < -SAME_VERDICT for one in changes), sum(one > SAME_VERDICT for one in changes)
    return Flips(*(("ours", whose) if whose else ("A", "B")), len(changes), down, up)


def _subtasks(ours: Side, spec: str, sides: tuple[Side, Side] | None) -> tuple[Subtask, ...]:
    found = ours.scores(spec)
    if found is None:
        return ()
    theirs: dict[Hashable, float] = {}
    pair = both(*sides, spec) if sides else None
    if sides and pair:
        docs = sides[1].docs
        theirs = {docs[at].doc_id: value for at, value in zip(pair[0].positions, pair[0].raw, strict=True)}
    groups: dict[str, list[tuple[float, float | None, Hashable]]] = {}
    names = found.clusters or found.positions
    for position, value, name in zip(found.positions, found.raw, names, strict=True):
        doc = ours.docs[position]
        if doc.subtask is not None:
            groups.setdefault(doc.subtask, []).append((value, theirs.get(doc.doc_id), name))
    if len(groups) < 2:
        return ()
    drops = {}
    for name, values in groups.items():
        after, known, clusters = zip(*values, strict=True)
        before = [one for one in known if one is not None]
        if len(before) == len(values):
            drops[name] = stats.paired_drop(before, after, clusters=clusters if found.clusters else None)
    clear = dict(zip(drops, (p < ALPHA for p in stats.holm([one.p() for one in drops.values()])), strict=True))
    return tuple(
        Subtask(
            name,
            len(values),
            stats.mean([one for one, _, _ in values]),
            drops[name].before if name in drops else None,
            clear.get(name, False),
        )
        for name, values in sorted(groups.items())
    )
