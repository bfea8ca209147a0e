"""Whether both sides were graded alike: by docs whose answers are the same word for word.

The model did not change there, so another verdict is the grader's: its noise, or a change. Such docs count as ties. A
doc that was not graded, or whose program may have run out of time, is no proof; nor is one whose verdict is of several
answers together. Other versions of task, lm-eval, filter or metric are a suspicion.

A grader has changed where its other verdicts go one way beyond chance: a sign test over the equal answers of all tasks
that it graded, p < 5 %. Then the verdicts on the other answers may be off by as much. The bound is the end of the 95 %
interval of the net share of other verdicts, times the weight of the docs whose answers differ. Where a decision does
not stand when the drops are moved by that, the comparison is invalid.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from meta_eval import stats
from meta_eval.base.display import plural
from meta_eval.base.thresholds import ALPHA, RULE_OF_THREE, SAME_VERDICT, percent
from meta_eval.harness.compared_settings import describe_changes, flatten_settings
from meta_eval.harness.doc_results import DocResult, FilterResult
from meta_eval.harness.provenance import GraderFacts
from meta_eval.harness.scores import ScoredRun
from meta_eval.judge.alarm_kinds import AlarmOccurrence, RaisedAlarm
from meta_eval.judge.doc_pairs import GradedTwice, RunPair, pair_scores
from meta_eval.judge.pair import TaskPair
from meta_eval.stats.clustered_mean import average_docs

# Metrics of tasks whose answers are programs.
_OF_PROGRAMS = re.compile(r"pass(@|_at_)\d")


def compare_graders(
    pair: RunPair, metric_key: str, graders: tuple[GraderFacts, GraderFacts], sides: tuple[str, str]
) -> tuple[GradedTwice, RunPair]:
    """Find the docs with the same answers on both sides, and give those with other verdicts the baseline's.

    Of several runs, an answer of the baseline counts as the same if a run of the candidate gave it. Where several runs
    of the baseline gave it, their mean counts.

    Args:
        pair: Both sides.
        metric_key: The ``metric,filter`` of the drop.
        graders: What graded the baseline, and the candidate.
        sides: The names of baseline and candidate in messages: ``A`` and ``B``.
    """
    metric = metric_key.partition(",")[0]
    differences = tuple(describe_grader_differences(*graders, metric_key, sides))
    releases_alone = differences == tuple(_describe_release(*graders, sides))
    grader = (metric, graders[1].scorer, graders[1].metrics.get(metric))
    scores = pair_scores(pair, metric_key)
    if scores is None:
        return GradedTwice(grader, (), 0, 1.0, differences, releases_alone), pair
    changes: list[float] = []
    unproven, equal_weight = 0, 0.0
    tied: dict[tuple[int, int], DocResult] = {}
    weights = average_docs(scores.candidate.contributions, scores.candidate.labels).weights
    verdicts = [[run.doc_scores for run in side.scores_by_run(metric_key)] for side in pair]
    for number, (place, weight) in enumerate(zip(scores.candidate.doc_indices, weights, strict=True)):
        proofs, is_unproven = [], False
        for firsts, second in _list_equal(pair, place):
            bases, doc = [pair.baseline.runs[first][place] for first in firsts], pair.candidate.runs[second][place]
            change = fmean(verdicts[0][first][number] for first in firsts) - verdicts[1][second][number]
            known = [_is_proof(base, metric_key, graders[0]) for base in bases]
            if not (all(known) and _is_proof(doc, metric_key, graders[1])):
                is_unproven = is_unproven or abs(change) > SAME_VERDICT
                continue
            proofs.append(change)
            if abs(change) > SAME_VERDICT:
                tied[second, place] = _with_verdicts(doc, bases)
        unproven += is_unproven
        if proofs:
            changes.append(math.fsum(proofs) / len(proofs))
            equal_weight += weight
    sign = -1 if scores.candidate.lower_is_better else 1
    twice = GradedTwice(
        grader, tuple(sign * change for change in changes), unproven, max(0.0, 1 - equal_weight), differences,
        releases_alone,
    )  # fmt: skip
    if not tied:
        return twice, pair
    before, after = (side.comparable_contributions for side in scores)
    runs = [
        [tied.get((run, place), doc) for place, doc in enumerate(docs)] for run, docs in enumerate(pair.candidate.runs)
    ]
    candidate = ScoredRun(runs, pair.candidate.lower_is_better)
    return replace(twice, scored_drop=stats.paired_drop(before, after, scores.candidate.labels).value), RunPair(
        pair.baseline, candidate
    )


def _list_equal(pair: RunPair, place: int) -> Iterator[tuple[list[int], int]]:
    """The runs of the baseline, and that of the candidate, that have the same answer to the same question."""
    known: dict[str, list[int]] = {}
    for run, docs in enumerate(pair.baseline.runs):
        if (answer := docs[place].answer_hash) is not None:
            known.setdefault(answer, []).append(run)
    for run, docs in enumerate(pair.candidate.runs):
        firsts = known.get(docs[place].answer_hash or "")
        if firsts and _is_same_question(pair.baseline.runs[firsts[0]][place], docs[place]):
            yield firsts, run


def _is_same_question(baseline: DocResult, candidate: DocResult) -> bool:
    """Whether prompt and gold are known to be the same. What verify stored of a pack's doc is of the pack's prompt."""
    if baseline.prompt_hashes:
        return baseline.shares_prompt_with(candidate) and baseline.gold == candidate.gold
    return baseline.prompt_matches is not False and candidate.prompt_matches is not False


def _with_verdicts(doc: DocResult, graded: Sequence[DocResult]) -> DocResult:
    """A doc with the mean of the verdicts that the same answer has in runs of the other side."""
    results = dict(doc.filter_results)
    for name in results.keys() & graded[0].filter_results.keys():
        same = [other.filter_results[name] for other in graded if name in other.filter_results]
        results[name] = replace(
            results[name],
            metrics={metric: _average([one.metrics.get(metric) for one in same]) for metric in same[0].metrics},
            verdict_of_each={
                metric: tuple(map(fmean, zip(*(one.verdict_of_each.get(metric, first) for one in same), strict=False)))
                for metric, first in same[0].verdict_of_each.items()
            },
            is_unextracted=same[0].is_unextracted,
        )
    return replace(doc, filter_results=results)


def _average(values: Sequence[Any]) -> Any:
    """The mean of numbers; the first of what else they are."""
    return fmean(values) if all(isinstance(value, int | float) for value in values) else values[0]


def _is_proof(doc: DocResult, metric_key: str, grader: GraderFacts) -> bool:
    """Whether the verdict on an answer is the grader's, and not its failure or its limit of time. lm-eval's own tasks
    of programs say nothing of the latter, and its older versions not even that they run programs."""
    metric, _, name = metric_key.partition(",")
    result: FilterResult = doc.filter_results[name]
    if len(doc.cuts) > 1 and metric not in result.verdict_of_each:
        return False  # one verdict of several answers: a vote, or pass@k
    failed = result.metrics.get("ungraded")
    runs_code = grader.runs_code or _OF_PROGRAMS.match(metric) is not None
    return not (failed == 1 or result.is_timed_out or (runs_code and failed is None))


def describe_grader_differences(
    baseline: GraderFacts, candidate: GraderFacts, metric_key: str, sides: tuple[str, str]
) -> Iterator[str]:
    """Name what differs between two graders, a clause each; lm-eval's release last."""
    metric, _, filter_name = metric_key.partition(",")
    versions = baseline.task_version, candidate.task_version
    if None not in versions and len(set(versions)) > 1 and _as_number(versions[0]) != _as_number(versions[1]):
        yield _describe("task version", versions, sides)
    for what, one, other in (
        (f"filter {filter_name}", baseline.filters.get(filter_name), candidate.filters.get(filter_name)),
        (f"metric {metric}", baseline.metrics.get(metric), candidate.metrics.get(metric)),
    ):
        if one is not None and other is not None and one != other:
            changes = describe_changes(_read_settings(one), _read_settings(other), sides)
            yield f"the settings of {what} differ" + (f" ({'; '.join(changes)})" if changes else "")
    if None not in (baseline.scorer, candidate.scorer) and baseline.scorer != candidate.scorer:
        yield "process_results differs"
    yield from _describe_release(baseline, candidate, sides)


def _read_settings(text: str) -> dict[str, Any]:
    """The settings that `GraderFacts` has as JSON, by name; a list under its places."""
    tree = json.loads(text)
    if isinstance(tree, list):
        tree = {f"step {number}": step for number, step in enumerate(tree, 1)}
    return flatten_settings(tree if isinstance(tree, dict) else {})


def _describe_release(baseline: GraderFacts, candidate: GraderFacts, sides: tuple[str, str]) -> Iterator[str]:
    if None not in (baseline.lm_eval, candidate.lm_eval) and baseline.lm_eval != candidate.lm_eval:
        yield _describe("lm-eval", (baseline.lm_eval, candidate.lm_eval), sides)


def _describe(what: str, values: tuple[str | None, str | None], sides: tuple[str, str]) -> str:
    return f"{what} {values[0]:.40} in {sides[0]}, {values[1]:.40} in {sides[1]}"


def _as_number(version: str | None) -> float | str | None:
    try:
        return float(version or "")
    except ValueError:
        return version


@dataclass(frozen=True, slots=True)
class GraderChange:
    """A grader whose other verdicts on the same answers go one way."""

    p: float
    """The p value of a sign test, two-sided."""

    net: stats.Interval
    """The net share of lower verdicts on the candidate's side, at `LEVEL`; negative where they are higher."""


def find_grader_changes(twice: Mapping[str, GradedTwice]) -> dict[str, GraderChange]:
    """The tasks whose grader has changed, by a sign test over all tasks of the grader (p < 5 %)."""
    graders: dict[Hashable, list[str]] = {}
    for task, of_task in twice.items():
        graders.setdefault(of_task.grader, []).append(task)
    found: dict[str, GraderChange] = {}
    for tasks in graders.values():
        changes = [change for task in tasks for change in twice[task].changes]
        counts = [sum(getattr(twice[task], side) for task in tasks) for side in ("lost", "won")]
        p = min(1.0, 2 * stats.tail_p_value(max(counts), sum(counts), 0.5))
        if p < ALPHA:
            drop = stats.paired_drop(changes, [0.0] * len(changes))
            found |= {task: GraderChange(p, drop.interval()) for task in tasks}
    return found


def find_bound(pair: TaskPair, change: GraderChange | None, *, worse: bool) -> float:
    """How far the drop of a task may be off, if its unequal answers were graded otherwise, too; 0 for another grader.

    Args:
        pair: The task.
        change: What is known of its grader; None if it has not changed.
        worse: Whether the true drop may be larger, since the candidate's verdicts are too good; else smaller.
    """
    if change is None or pair.twice is None:
        return 0.0
    return pair.twice.unequal * max(0.0, -change.net.lower if worse else change.net.upper)


def move_drop(pair: TaskPair, bound: float, *, worse: bool) -> TaskPair:
    """The task with a drop that is larger by the bound, or smaller."""
    drop = pair.drop
    moved = replace(drop, lost=drop.lost + bound) if worse else replace(drop, won=drop.won + bound)
    return replace(pair, measured_drop=moved)


def raise_grader_change(
    pair: TaskPair, margin: float, change: GraderChange | None, *, reaches: bool
) -> Iterator[RaisedAlarm]:
    """Raise an alarm if a task was graded differently on both sides, or may have been.

    Args:
        pair: The task.
        margin: The largest allowed drop.
        change: What is known of its grader; None if it has not changed.
        reaches: Whether the bound reaches from the decision's interval to the margin.
    """
    twice, task = pair.twice, pair.name
    if twice is None:
        return
    differing, docs, differences = twice.lost + twice.won, len(twice.changes), list(twice.differences)
    if differing:
        proof = f"{differing:,} of {plural(docs, 'doc')} whose answers are the same word for word"
        have = "has" if differing == 1 else "have"
        clauses = [f"{proof} {have} other verdicts, {twice.lost:,} lower and {twice.won:,} higher"]
        if twice.scored_drop is not None:
            clauses.append(f"they count as ties; the drop of the scores is {_points(twice.scored_drop)}")
        if change is None:
            hidden = percent(round(_find_hidden(docs, differing), 3))
            clauses.append(f"a grader that moved under {hidden} of verdicts one way would not show here")
        note = "; ".join([*clauses, *differences])
        yield "graded", AlarmOccurrence(task, note=note, veto=change is not None and reaches)
        return
    # No doc of n differs: at 95 % less than 3 / n of all do.
    is_alike = docs * margin >= RULE_OF_THREE
    if differences and not (is_alike and twice.releases_alone):
        if docs:
            differences.append(f"{plural(docs, 'doc')} with the same answers have the same verdicts")
        yield "grader", AlarmOccurrence(task, note="; ".join(differences), veto=False)
    elif twice.unproven:
        note = f"{plural(twice.unproven, 'program')} with another verdict on the same text may have run out of time"
        yield "grader", AlarmOccurrence(task, note=note, veto=False)


def _find_hidden(docs: int, differing: int) -> float:
    """The smallest net share of other verdicts that a sign test finds among so many docs, as many of which differ as
    were seen, or as few as it needs."""
    count = max(differing, math.ceil(math.log2(2 / ALPHA)))
    nets = range(count % 2, count + 1, 2)
    net = next(net for net in nets if 2 * stats.tail_p_value((count + net) // 2, count, 0.5) < ALPHA)
    return min(1.0, net / docs)


def _points(share: float) -> str:
    text = f"{abs(100 * share):.1f}"
    return f"{chr(0x2212) if share < 0 and float(text) else ''}{text}"
