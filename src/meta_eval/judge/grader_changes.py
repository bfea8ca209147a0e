"""Finds docs that were graded differently on both sides of a comparison.

The proof is a doc whose answers are the same word for word, and whose verdicts are not: the model did not change there.
A doc that was not graded, or whose program may have run out of time, is no proof. Other versions of task, lm-eval,
filter or metric are a suspicion.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from meta_eval.base.counts import plural
from meta_eval.base.thresholds import GRADER_SHARE_OF_MARGIN, RULE_OF_THREE, SAME_VERDICT
from meta_eval.harness.doc_results import DocResult, FilterResult
from meta_eval.harness.grader_facts import GraderFacts
from meta_eval.judge.decision import AlarmOccurrence, RaisedAlarm
from meta_eval.judge.pair import RunPair, pair_scores
from meta_eval.stats.clustered_mean import average_docs

# Metrics of tasks whose answers are programs.
_OF_PROGRAMS = re.compile(r"pass(@|_at_)\d")


@dataclass(frozen=True, slots=True)
class GradedTwice:
    """Docs whose answers are the same word for word on both sides.

    Attributes:
        docs: Their number, without those that are no proof.
        differing: Of them those with other verdicts.
        effect: How far these may move the score, a share: the sum of the absolute differences, weighted as in the drop.
        unproven: Docs with the same answers and other verdicts that are no proof.
    """

    docs: int
    differing: int
    effect: float
    unproven: int


def raise_grader_change(
    task: str, pair: RunPair, metric_key: str, graders: tuple[GraderFacts, GraderFacts], margin: float,
    sides: tuple[str, str],
) -> Iterator[RaisedAlarm]:  # fmt: skip
    """Raise an alarm if a task was graded differently on both sides, or may have been.

    Args:
        task: Its name.
        pair: Both sides.
        metric_key: The ``metric,filter`` of the drop.
        graders: What graded the baseline, and the candidate.
        margin: The largest allowed drop. The comparison is invalid if the proven docs make up half of it.
        sides: The names of baseline and candidate in messages: ``A`` and ``B``.
    """
    twice = count_graded_twice(pair, metric_key, graders)
    differences = list(describe_grader_differences(*graders, metric_key, sides))
    if twice.differing:
        docs = f"{twice.differing:,} of {plural(twice.docs, 'doc')} whose answers are the same word for word"
        note = "; ".join([f"{docs} {'has' if twice.differing == 1 else 'have'} other verdicts", *differences])
        yield "graded", AlarmOccurrence(task, note=note, veto=twice.effect >= GRADER_SHARE_OF_MARGIN * margin)
        return
    # No doc of n differs: at 95 % less than 3 / n of all do.
    is_alike = twice.docs * margin >= RULE_OF_THREE
    if differences and not (is_alike and differences == list(_describe_release(*graders, sides))):
        if twice.docs:
            differences.append(f"{plural(twice.docs, 'doc')} with the same answers have the same verdicts")
        yield "grader", AlarmOccurrence(task, note="; ".join(differences), veto=False)
    elif twice.unproven:
        note = f"{plural(twice.unproven, 'program')} with another verdict on the same text may have run out of time"
        yield "grader", AlarmOccurrence(task, note=note, veto=False)


def count_graded_twice(pair: RunPair, metric_key: str, graders: tuple[GraderFacts, GraderFacts]) -> GradedTwice:
    """Count the docs whose answers are the same on both sides, by their verdicts.

    Of several runs, an answer of the baseline counts as the same if a run of the candidate gave it.
    """
    if (scores := pair_scores(pair, metric_key)) is None:
        return GradedTwice(0, 0, 0.0, 0)
    weights = average_docs(scores.candidate.contributions, scores.candidate.labels).weights
    sides = [
        [(docs, run.doc_scores, run.paired_contributions) for docs, run in zip(side.runs, runs, strict=True)]
        for side, runs in ((side, side.scores_by_run(metric_key)) for side in pair)
    ]
    docs = differing = unproven = 0
    effects = []
    for number, place in enumerate(scores.candidate.doc_indices):
        known = {
            run[place].answer_hash: (run[place], verdicts[number], shares[number]) for run, verdicts, shares in sides[1]
        }
        known.pop(None, None)
        same = [
            (abs(verdicts[number] - known[answer][1]) > SAME_VERDICT, abs(shares[number] - known[answer][2]),
             _is_proof(run[place], metric_key, graders[0]) and _is_proof(known[answer][0], metric_key, graders[1]))
            for run, verdicts, shares in sides[0]
            if (answer := run[place].answer_hash) in known
        ]  # fmt: skip
        unproven += any(differs and not is_proof for differs, _, is_proof in same)
        proofs = [(differs, distance) for differs, distance, is_proof in same if is_proof]
        docs += bool(proofs)
        if any(differs for differs, _ in proofs):
            differing += 1
            effects.append(weights[number] * sum(distance for _, distance in proofs) / len(sides[0]))
    return GradedTwice(docs, differing, math.fsum(effects), unproven)


def _is_proof(doc: DocResult, metric_key: str, grader: GraderFacts) -> bool:
    """Whether the verdict on an answer is the grader's, and not its failure or its limit of time. lm-eval's own tasks
    of programs say nothing of the latter, and its older versions not even that they run programs."""
    metric, _, name = metric_key.partition(",")
    result: FilterResult = doc.filter_results[name]
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
        ("process_results", baseline.scorer, candidate.scorer),
    ):
        if None not in (one, other) and one != other:
            yield f"the settings of {what} differ" if what != "process_results" else f"{what} differs"
    yield from _describe_release(baseline, candidate, sides)


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
