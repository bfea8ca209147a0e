"""Answers that a filter found nothing in: one definition, and the part of a drop that they make up."""

from __future__ import annotations

import math
from dataclasses import dataclass

from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.scores import ScoredRun
from meta_eval.judge.decision import AlarmOccurrence, RaisedAlarm
from meta_eval.judge.pair import RunPair, pair_scores
from meta_eval.stats.clustered_mean import average_docs

# The smallest difference in unread answers that is said.
_FEWEST = 5


@dataclass(frozen=True, slots=True)
class UnreadSplit:
    """The parts of a drop: answers that only one side's filter could read, and all others.

    Attributes:
        docs: Docs that are compared.
        baseline, candidate: Docs with an unread answer, in any run of each.
        more: How much more often the candidate's answers are unread, from -1 to 1, weighted like the drop.
        drop: The drop.
        not_read: Its part from docs that were read in one of the two alone; the rest is read and wrong.
    """

    docs: int
    baseline: int
    candidate: int
    more: float
    drop: float
    not_read: float


def split_unread(pair: RunPair, metric_key: str) -> UnreadSplit | None:
    """Split a drop; None where the two have no scores, or nobody knows which answers of a side were read."""
    scores, name = pair_scores(pair, metric_key), metric_key.partition(",")[2]
    if scores is None:
        return None
    before, after = (_list_unread_shares(scored, of.doc_indices, name) for scored, of in zip(pair, scores, strict=True))
    if before is None or after is None:
        return None
    shares = (of.comparable_contributions for of in scores)
    losses = [a - b for a, b in zip(*shares, strict=True)]
    weights = average_docs(losses, scores.candidate.labels).weights
    rows = list(zip(weights, losses, before, after, strict=True))
    return UnreadSplit(
        docs=len(losses),
        baseline=sum(share > 0 for share in before),
        candidate=sum(share > 0 for share in after),
        more=math.fsum(weight * (b - a) for weight, _, a, b in rows),
        drop=math.fsum(weight * loss for weight, loss, _, _ in rows),
        not_read=math.fsum(weight * loss for weight, loss, a, b in rows if a != b),
    )


def find_unread_drop(task: str, split: UnreadSplit | None, margin: float) -> list[RaisedAlarm]:
    """Say which part of a drop was not read, where the difference in unread answers can make up half the margin.

    A difference of fewer than five docs is no more than chance: 5 of 5 on one side have probability 1 in 16.
    """
    if split is None or abs(split.more) < margin / 2 or abs(split.candidate - split.baseline) < _FEWEST:
        return []
    counts = f"{split.candidate:,} of {split.docs:,} answers, {split.baseline:,} of the baseline's"
    parts = f"{_points(split.not_read)} not read and {_points(split.drop - split.not_read)} read and wrong"
    note = f"{counts}; of the drop of {_points(split.drop)} points {parts}"
    return [("unread", AlarmOccurrence(task, note=note, veto=False))]


def _list_unread_shares(scored: ScoredRun, places: tuple[int, ...], name: str) -> list[float] | None:
    """Of each doc the share of runs in which its answer was not read; None where that is known of no doc."""
    marks = [[_is_unread(docs[place], name) for docs in scored.runs] for place in places]
    if all(mark is None for of_doc in marks for mark in of_doc):
        return None
    return [sum(map(bool, of_doc)) / len(of_doc) for of_doc in marks]


def _is_unread(doc: DocResult, name: str) -> bool | None:
    result = doc.filter_results.get(name)
    return True if doc.answer_empty else None if result is None else result.is_unextracted


def _points(share: float) -> str:
    text = f"{abs(100 * share):.1f}"
    return f"{chr(0x2212) if share < 0 and float(text) else ''}{text}"
