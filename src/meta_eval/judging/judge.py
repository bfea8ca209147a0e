"""Does it hold? A run beside the published numbers and beside Meta's recorded verdicts. All scores in percent.

The rule of a verdict. The difference between our score and the published one has a 95 % interval:

- Where Meta's recorded verdicts give the published number back (`GIVES_BACK`), both are compared doc by doc: the noise
  that the choice of docs brings is in both, and cancels.
- Else the interval is that of our score alone, with the published number taken as exact. It has noise of its own, but
  of the same docs: as long as both models' verdicts correlate by a half or more, which those of one model do, this
  interval is wider than that of the difference, so that it errs towards "holds".

**below**, **above**: the interval leaves out 0, and the difference is larger than `TOLERANCE`, which engines and
published decimals account for. **holds**: neither, and the interval is no wider than `TOO_WIDE` on either side.
**cannot say**: wider, or the two numbers are not comparable at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from meta_eval import catalog, stats
from meta_eval.judging.alarms import Alarm, alarms, changed_prompts
from meta_eval.judging.gaps import Gap, known_gaps
from meta_eval.pack.manifest import Manifest, PublishedEntry, TaskEntry
from meta_eval.results.answers import Doc, ResultsError
from meta_eval.results.run import Run, TaskRun
from meta_eval.results.scores import Scores, base, scores, specs

Verdict = Literal["holds", "below", "above", "cannot say"]

# Percentage points.
TOLERANCE = 1.0
TOO_WIDE = 5.0
GIVES_BACK = 0.1

# Verdicts that differ by no more are the same; see verify, whose rule this is.
SAME_VERDICT = 1e-3


@dataclass(frozen=True, slots=True)
class Number:
    """One of our scores, with the published number that it answers.

    Attributes:
        spec: ``metric,filter``.
        published: The published number; None when there is none.
        score: In percent; None when the run has no such score. Without samples it is lm-eval's own average.
        interval: Its 95 % interval; without samples by lm-eval's standard error.
        n: The docs that it is of; 0 where nobody wrote it down.
        difference: Ours less the published; None unless the two are comparable.
        difference_interval: Its 95 % interval.
        paired: Whether the difference was taken doc by doc, against Meta's recorded verdicts.
        detectable: The smallest difference that would have been found with 80 % power.
        verdict: See this module.
        reason: Why, in one sentence without a full stop; None for a plain "holds", "below" or "above".
    """

    spec: str
    published: PublishedEntry | None
    score: float | None
    interval: stats.Interval | None
    n: int
    difference: float | None
    difference_interval: stats.Interval | None
    paired: bool
    detectable: float | None
    verdict: Verdict
    reason: str | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """Our verdicts against Meta's recorded ones, on the docs that have both.

    Attributes:
        spec: Our metric; ``against`` what of Meta's: ``is_correct``, or the recorded metric's name.
        n: The docs that have both; ``missing`` those without a recorded verdict.
        ours: Our score on them; ``theirs`` Meta's.
        agreement: Percent of docs with the same verdict.
        ours_only: The doc ids to which only we, or we more than Meta, say right; ``theirs_only`` the reverse.
        p: Two-sided, of no difference: McNemar's exact test, of other scores than yes and no the paired t test.
        difference: Ours less theirs, in points, with its 95 % interval.
        detectable: The smallest drop that these docs find with 80 % power.
    """

    spec: str
    against: str
    n: int
    missing: int
    ours: float
    theirs: float
    agreement: float
    ours_only: tuple[int, ...]
    theirs_only: tuple[int, ...]
    p: float
    difference: float
    interval: stats.Interval
    detectable: float


@dataclass(frozen=True, slots=True)
class Subtask:
    """One subtask: its docs, our score with its 95 % interval, and Meta's recorded score where there is one."""

    name: str
    n: int
    score: float
    interval: stats.Interval
    recorded: float | None


@dataclass(frozen=True, slots=True)
class TaskJudgement:
    """All that a report says of one task; ``entry`` is None for a task that the pack does not have."""

    task: str
    entry: TaskEntry | None
    result: TaskRun | None
    alarms: tuple[Alarm, ...]
    numbers: tuple[Number, ...]
    recorded: Recorded | None
    subtasks: tuple[Subtask, ...]
    gaps: tuple[Gap, ...]
    reproduced: tuple[catalog.Reproduction, ...]


def judge(run: Run, manifest: Manifest | None) -> tuple[TaskJudgement, ...]:
    """Judge every task of the pack and of the run, in the order of their names.

    Call `meta_eval.results.run.check_pack` first: this takes the docs for those of the pack. Without a manifest there
    are scores and recorded verdicts, but no published numbers.
    """
    entries = manifest.tasks if manifest else {}
    return tuple(judge_task(task, run.tasks.get(task), entries.get(task)) for task in sorted({*run.tasks, *entries}))


def judge_task(task: str, result: TaskRun | None, entry: TaskEntry | None) -> TaskJudgement:
    """Judge one task; ``result`` is None when it was not run."""
    spec = verdict_spec(result, entry)
    docs = result.docs if result else ()
    if entry and entry.published:
        numbers = tuple(_number(result, entry, number, number.our_metric) for number in entry.published)
    else:
        wanted = _shares(result) if result and entry is None and _is_plain(result) else ()
        numbers = tuple(_number(result, entry, None, one) for one in wanted or (spec,))
    if not result or not spec:
        return TaskJudgement(task, entry, result, (), numbers, None, (), (), ())
    metric, reading = entry.recorded_metric if entry else None, reading_of(result, entry)
    return TaskJudgement(
        task=task,
        entry=entry,
        result=result,
        alarms=alarms(result, spec),
        numbers=numbers,
        recorded=_recorded(docs, spec, metric, reading),
        subtasks=_subtasks(docs, spec, metric, reading),
        gaps=known_gaps(entry, result.provenance.backend) if entry else (),
        reproduced=catalog.reproduced(entry.model, entry.subset) if entry and entry.model else (),
    )


def verdict_spec(result: TaskRun | None, entry: TaskEntry | None) -> str | None:
    """The ``metric,filter`` that says whether one answer is right: the pack's, the run's, else its first share.

    None where there is none, as of a task of perplexities alone.
    """
    if entry is not None:
        return entry.verdict
    if result is None or not result.docs:
        return None
    return result.verdict or next(iter(_shares(result)), None)


def _is_plain(result: TaskRun) -> bool:
    """Whether a task is of no pack of ours, so that nothing says which of its metrics matters."""
    return result.verdict is None and all(doc.prompt_unchanged is None for doc in result.docs)


def _shares(result: TaskRun) -> list[str]:
    """Every ``metric,filter`` of a run that is a share: of its docs, else of lm-eval's averages."""
    found = [spec for spec in specs(result.docs) if scores(result.docs, spec) is not None]
    return found + [spec for spec, one in result.aggregates.items() if one.share and spec not in found]


def reading_of(result: TaskRun | None, entry: TaskEntry | None) -> str | None:
    """The ``metric,filter`` that Meta's ``is_correct`` is the like of where it is no verdict; None where it is one."""
    return entry.reading if entry is not None else result.reading if result is not None else None


# Published numbers


def _number(
    result: TaskRun | None, entry: TaskEntry | None, published: PublishedEntry | None, wanted: str | None
) -> Number:
    found = scores(result.docs, wanted) if result and wanted else None
    reason = _incomparable(result, entry, published, found)
    score, interval = (100 * found.value, found.interval.scaled(100)) if found else (None, None)
    n = len(found.values) if found else len(result.docs) if result and wanted is None else 0
    aggregate = result.aggregates.get(wanted) if result and wanted and not found else None
    if result and aggregate and aggregate.share:
        score, bounds = 100 * aggregate.value, aggregate.interval
        interval = stats.Interval(*bounds).scaled(100) if bounds else None
        n = len(result.docs) or result.provenance.docs_run or 0
        if result.docs:
            reason = "this is lm-eval's own average, which the docs' scores do not give"
    if reason is not None or result is None or entry is None or published is None or found is None:
        return Number(wanted or "", published, score, interval, n, None, None, False, None, "cannot say", reason)
    paired = _paired_with_recorded(result.docs, entry, published, found)
    if paired is not None:
        difference, spread = 100 * paired.difference, paired.interval.scaled(100)
        changed = [abs(b - a) > SAME_VERDICT for a, b in _with_recorded(result.docs, entry, found)]
        variance = stats.flip_variance(sum(changed), n)
    else:
        difference, spread = 100 * found.value - published.value, found.interval.scaled(100, -published.value)
        variance = found.value * (1 - found.value)
    detectable = 100 * stats.detectable_drop(n, variance)
    verdict, why = _verdict(difference, spread)
    return Number(
        published.our_metric,
        published,
        score,
        interval,
        n,
        difference,
        spread,
        paired is not None,
        detectable,
        verdict,
        why,
    )


def _verdict(difference: float, interval: stats.Interval) -> tuple[Verdict, str | None]:
    if 0 not in interval and abs(difference) > TOLERANCE:
        return ("below" if difference < 0 else "above"), None
    if interval.half_width > TOO_WIDE:
        return "cannot say", f"too few docs: the difference is known to no more than ±{interval.half_width:.1f} points"
    if 0 not in interval:
        return "holds", f"there is a difference, but of no more than the {TOLERANCE:g} point that engines differ by"
    return "holds", None


def _incomparable(
    result: TaskRun | None, entry: TaskEntry | None, published: PublishedEntry | None, found: Scores | None
) -> str | None:
    """Why a score is not put beside a published number, the first reason that there is; None when it is."""
    note = f": {published.note.rstrip('.')}" if published and published.note else ""
    reasons = (
        (result is None, "this task was not run"),
        (result and not result.docs, "there are no samples: run lm_eval with --log_samples"),
        (entry is None, "no pack says what was published for this task"),
        (published is None, "no number was published for this subset"),
        (published and not published.same_settings, f"the published number was measured in another way{note}"),
        (found is None, f"the run has no score in {published.our_metric if published else 'its metric'}"),
        (
            entry and entry.dataset_id == "sample",
            "these are the rows of the embedded sample, not of the benchmark",
        ),
    )
    reason = next((reason for holds, reason in reasons if holds), None)
    if reason is not None or result is None or entry is None:
        return reason
    return unfinished(result, entry) or other_settings(result)


def unfinished(result: TaskRun, entry: TaskEntry) -> str | None:
    """Why a run is not of all docs of the pack, or cannot be known to be; None when it is."""
    provenance = result.provenance
    if provenance.results_file is None:
        return "there is no results file beside the samples, so nobody knows what was run"
    if result.skipped:
        return f"{result.skipped} damaged lines or docs are left out"
    if len(result.docs) != entry.docs:
        limited = f" (--limit {provenance.limit:g})" if provenance.limit is not None else ""
        return f"{len(result.docs)} of {entry.docs} docs were run{limited}"
    return None


def other_settings(result: TaskRun) -> str | None:
    """Why the answers are not answers to what the pack asks, as it asks it; None when they are."""
    changed = changed_prompts(result.docs)
    if changed:
        return f"{changed} of {len(result.docs)} prompts did not reach the model as they stand in the pack"
    if result.provenance.gen_kwargs:
        settings = ", ".join(f"{name}={value}" for name, value in sorted(result.provenance.gen_kwargs.items()))
        return f"the answers were generated with other settings than the task's: {settings}"
    return None


def _paired_with_recorded(
    docs: Sequence[Doc], entry: TaskEntry, published: PublishedEntry, found: Scores
) -> stats.Paired | None:
    """The comparison with Meta's recorded verdicts, where they are what the published number is the average of."""
    if base(found.spec) != entry.verdict or found.kind not in ("mean", "macro"):
        return None
    pairs = _with_recorded(docs, entry, found)
    if len(pairs) < len(found.values):
        return None
    theirs = [recorded for recorded, _ in pairs]
    score = stats.macro(theirs, found.labels) if found.labels else stats.mean(theirs)
    if abs(100 * score - published.value) > GIVES_BACK:
        return None
    return stats.paired(theirs, found.values, found.labels)


def _with_recorded(docs: Sequence[Doc], entry: TaskEntry, found: Scores) -> list[tuple[float, float]]:
    """(Meta's, ours) for every doc that has both."""
    recorded, _ = recorded_verdicts(docs, entry.recorded_metric or _metric(entry.verdict), entry.reading)
    return [
        (theirs, ours)
        for position, ours in zip(found.positions, found.values, strict=True)
        if (theirs := recorded[position]) is not None
    ]


# Recorded verdicts


def recorded_verdicts(docs: Sequence[Doc], metric: str, reading: str | None) -> tuple[list[float | None], str]:
    """Meta's verdict on each doc, None where it recorded none, and where they stand.

    As verify has it: the recorded metric of this name where any doc has one, else ``is_correct``; never a mixture.
    Where ``is_correct`` is no verdict but the like of a ``reading``, it is not taken for one: a difference between
    readings says nothing of which answer is better.
    """
    values: list[float | None] = []
    for doc in docs:
        metrics = json.loads(doc.recorded_metrics, parse_int=float) if doc.recorded_metrics else None
        value = metrics.get(metric) if isinstance(metrics, dict) else None
        if isinstance(value, (bool, float)) and not 0 <= value <= 1:
            raise ResultsError(
                f"the recorded metric {metric} of doc {doc.doc_id} is {value}, and should be a number from 0 to 1",
                hint="Prepare the pack again, and run it",
            )
        values.append(float(value) if isinstance(value, (bool, float)) else None)
    if any(value is not None for value in values):
        return values, f"recorded {metric}"
    plain = [doc.recorded_is_correct if reading is None else None for doc in docs]
    return [None if value is None else float(value) for value in plain], "is_correct"


def _recorded(docs: Sequence[Doc], spec: str, metric: str | None, reading: str | None) -> Recorded | None:
    ours = scores(docs, spec)
    if ours is None:
        return None
    verdicts, against = recorded_verdicts(docs, metric or _metric(spec), reading)
    both = [
        (docs[position].doc_id, theirs, value)
        for position, value in zip(ours.positions, ours.raw, strict=True)
        if (theirs := verdicts[position]) is not None
    ]
    if not both or not all(0 <= theirs <= 1 for _, theirs, _ in both):
        return None
    before, after = [one[1] for one in both], [one[2] for one in both]
    paired = stats.paired(before, after)
    up = tuple(doc_id for doc_id, a, b in both if b - a > SAME_VERDICT)
    down = tuple(doc_id for doc_id, a, b in both if a - b > SAME_VERDICT)
    flips = len(up) + len(down)
    return Recorded(
        spec=spec,
        against=against,
        n=len(both),
        missing=len(docs) - len(both),
        ours=100 * paired.after,
        theirs=100 * paired.before,
        agreement=100 * (1 - flips / len(both)),
        ours_only=up,
        theirs_only=down,
        p=stats.paired_p(before, after),
        difference=100 * paired.difference,
        interval=paired.interval.scaled(100),
        detectable=100 * stats.detectable_drop(len(both), stats.flip_variance(flips, len(both))),
    )


def _subtasks(docs: Sequence[Doc], spec: str, metric: str | None, reading: str | None) -> tuple[Subtask, ...]:
    verdicts, _ = recorded_verdicts(docs, metric or _metric(spec), reading)
    groups: dict[str, list[int]] = {}
    for index, doc in enumerate(docs):
        if doc.subtask is not None:
            groups.setdefault(doc.subtask, []).append(index)
    found = []
    for name, indices in sorted(groups.items()):
        ours = scores([docs[index] for index in indices], spec)
        theirs = [verdict for index in indices if (verdict := verdicts[index]) is not None]
        if ours is not None:
            recorded = 100 * stats.mean(theirs) if len(theirs) == len(indices) else None
            found.append(Subtask(name, len(ours.values), 100 * ours.value, ours.interval.scaled(100), recorded))
    return tuple(found)


def _metric(spec: str) -> str:
    return spec.partition(",")[0]
