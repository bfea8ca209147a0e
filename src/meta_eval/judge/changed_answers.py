"""What changed in the answers of a task, and which part of its drop is of these answers.

A trait (`meta_eval.harness.answer_traits`) that the candidate's answers have more often than the baseline's, beyond
chance, is named where its docs make up half the margin of the drop. It forbids nothing: it says where to look.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from meta_eval import stats
from meta_eval.base.thresholds import ALPHA
from meta_eval.harness.answer_traits import HOLDS_THOUGHTS, TRAITS
from meta_eval.harness.doc_results import DocResult
from meta_eval.judge.alarm_kinds import AlarmOccurrence, RaisedAlarm
from meta_eval.judge.doc_pairs import ChangedAnswers, RunPair, pair_scores
from meta_eval.judge.pair import TaskPair
from meta_eval.stats.clustered_mean import average_docs

# A longer answer is so many times as long, and so many characters longer.
_TIMES, _CHARACTERS = 5, 200
_LONGER = "are more than five times as long"


def list_changed(pair: RunPair, metric_key: str) -> tuple[ChangedAnswers, ...]:
    """The traits that answers of a task have on one side alone."""
    scores = pair_scores(pair, metric_key)
    if scores is None:
        return ()
    losses = [a - b for a, b in zip(*(side.comparable_contributions for side in scores), strict=True)]
    sides = ([docs[place] for place in scores.candidate.doc_indices] for docs in (side.docs for side in pair))
    docs = list(zip(*sides, strict=True))
    weights: Sequence[float] | None = None
    found = []
    seen = {_LONGER, *itertools.chain.from_iterable(b.traits for _, b in docs)}
    for trait in filter(seen.__contains__, (*TRAITS, _LONGER)):
        marks = [(_has(a, b, trait), _has(b, a, trait)) for a, b in docs]
        only_a, only_b = marks.count((True, False)), marks.count((False, True))
        if only_b <= only_a:
            continue
        weights = average_docs(losses, scores.candidate.labels).weights.tolist() if weights is None else weights
        rows = list(zip(weights, losses, marks, strict=True))
        same = sum(b.said_hash is not None and b.said_hash == a.answer_hash for a, b in docs)
        found.append(
            ChangedAnswers(
                trait, only_b, only_a, len(docs), math.fsum(weight * loss for weight, loss, _ in rows),
                math.fsum(weight * loss for weight, loss, (a, b) in rows if b and not a),
                f"behind it {same:,} are the baseline's word for word" if trait == HOLDS_THOUGHTS and same else "",
            )
        )  # fmt: skip
    return tuple(found)


def _has(doc: DocResult, other: DocResult, trait: str) -> bool:
    if trait != _LONGER:
        return trait in doc.traits
    length, before = doc.answer_length, other.answer_length
    return before > 0 and length > _TIMES * before and length > before + _CHARACTERS


def raise_changed(pairs: Sequence[TaskPair], margins: Mapping[str, float]) -> Iterator[RaisedAlarm]:
    """Name what changed, where it is beyond chance (p < 5 % after Holm's correction over tasks and traits) and half the
    margin.

    Args:
        pairs: The tasks.
        margins: The margin of each task.
    """
    rows = [(pair, changed) for pair in pairs for changed in pair.changed]
    corrected = stats.correct_by_holm([changed.p for _, changed in rows])
    notes: dict[str, list[str]] = {}
    for (pair, changed), p in zip(rows, corrected, strict=True):
        if p < ALPHA and changed.part >= margins[pair.name] / 2:
            part = f"of the drop of {100 * changed.drop:.1f} points, {100 * changed.part:.1f} come from these"
            answers = f"{changed.candidate:,} of {changed.docs:,} answers"
            counts = f"{answers} {changed.trait}, {changed.baseline:,} of the baseline's"
            clauses = [counts, part, changed.note, _describe_setting(pair) if changed.note else ""]
            notes.setdefault(pair.name, []).append("; ".join(filter(None, clauses)))
    for task, of_task in notes.items():
        yield "changed", AlarmOccurrence(task, note=". ".join(of_task), veto=False)


def _describe_setting(pair: TaskPair) -> str:
    """The setting that says where thoughts end, where it differs."""
    if pair.read is None or pair.read.of_pack:
        return ""
    before, ends = (
        runs[0].provenance.model_args.get("think_end_token", "none")
        for runs in (pair.read.baseline_runs, pair.read.candidate_runs)
    )
    return f"think_end_token: {before:.40} in A, {ends:.40} in B" if before != ends else ""
