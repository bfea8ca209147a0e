"""Answers that are empty, cut or not read on one side more than on the other, and the drop over the docs read on both.

Such an answer counts as wrong, or as its grader finds it, whatever the model knows. So the side that lacks more of them
looks worse than it is, and a loss of the other side hides behind them. The docs that were read on both sides show it.

They are no sample of all docs. What one side cuts are its longest answers, mostly wrong, so on the docs that are left
that side looks better. So as many of the other side's longest answers are left out, until both lack the same share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from meta_eval import stats
from meta_eval.base.thresholds import ALPHA
from meta_eval.harness.doc_results import DocResult
from meta_eval.judge.alarm_kinds import is_unextracted
from meta_eval.judge.doc_pairs import Clusters, Lack, LackingAnswers, RunPair, pair_scores
from meta_eval.judge.pair import TaskPair
from meta_eval.stats.clustered_mean import average_docs

_KINDS: tuple[Lack, ...] = ("empty", "cut", "not read")


class ReadDrop(NamedTuple):
    """The drop of a task over the docs that were read on both sides."""

    task: str
    """Its name."""

    note: str
    """The drop in words, beside that over all docs."""

    is_cut_alone: bool
    """Whether answers differ only in how many were cut."""

    veto: bool
    """Whether it shows a loss that the drop over all docs hides."""


def list_lacking(pair: RunPair, metric_key: str, clusters: Clusters) -> tuple[LackingAnswers, ...]:
    """The answers that lack something, by kind; without a kind that no answer has, or that is unknown on a side."""
    scores = pair_scores(pair, metric_key)
    if scores is None:
        return ()
    places, labels = scores.candidate.doc_indices, scores.candidate.labels
    filter_name = metric_key.partition(",")[2]
    chosen = [[[docs[place] for place in places] for docs in scored.runs] for scored in pair]
    found = []
    for kind in _KINDS:
        before, after = (_list_shares(runs, filter_name, kind) for runs in chosen)
        if before is None or after is None or (not any(before) and not any(after)):
            continue
        names = clusters([pair.candidate.docs[place] for place in places])
        more = stats.paired_drop([1 - share for share in before], [1 - share for share in after], labels, names)
        found.append(LackingAnswers(kind, before, after, more))
    return tuple(found)


def find_differing(lacking: Mapping[str, tuple[Sequence[LackingAnswers], float]]) -> dict[str, list[LackingAnswers]]:
    """By task the kinds whose shares differ beyond chance (p < 5 %) and by half the margin.

    Args:
        lacking: By task what `list_lacking` gave, and the margin. Holm's correction is over all of them.
    """
    rows = [(task, kind, margin) for task, (kinds, margin) in lacking.items() for kind in kinds]
    is_large = [abs(kind.more.value) >= margin / 2 for _, kind, margin in rows]
    # The p value of a small difference decides nothing.
    p_values = [row[1].more.p_value() if large else 1.0 for row, large in zip(rows, is_large, strict=True)]
    differing: dict[str, list[LackingAnswers]] = {}
    for (task, kind, _), p in zip(rows, stats.correct_by_holm(p_values), strict=True):
        if p < ALPHA:
            differing.setdefault(task, []).append(kind)
    return differing


def keep_read_docs(pair: RunPair, metric_key: str, kinds: Sequence[LackingAnswers]) -> RunPair | None:
    """The docs that lack nothing of these kinds on either side; None if there are none.

    Where answers were cut, the longest answers of the side that is cut less often are left out too, as many as the
    other side lacks more.
    """
    scores = pair_scores(pair, metric_key)
    places = list(scores.candidate.doc_indices) if scores else []
    left_out: set[int] = set()
    for kind in kinds:
        sides = [
            {place for place, share in zip(places, shares, strict=True) if share > _HALF}
            for shares in (kind.baseline, kind.candidate)
        ]
        left_out |= sides[0] | sides[1]
        if kind.kind == "cut":
            fewer, more = sorted(range(2), key=lambda side: len(sides[side]))
            docs = pair[fewer].docs
            others = sorted(set(places) - sides[fewer], key=lambda place: (-docs[place].answer_length, place))
            left_out |= set(others[: len(sides[more]) - len(sides[fewer])])
    kept = [place for place in places if place not in left_out]
    return RunPair(*(scored.select_docs(kept) for scored in pair)) if kept else None


def describe_read_drop(pair: TaskPair, kinds: Sequence[LackingAnswers], read: stats.Drop) -> str:
    """Which part of the drop is of answers that were not read, and the drop over the docs that were.

    Args:
        pair: The task with all paired docs.
        kinds: What differs.
        read: The drop over the docs that `keep_read_docs` keeps.
    """
    metric_key = pair.shown.metric or ""
    scores = pair_scores(pair.drop_sides, metric_key) if pair.drop_sides else None
    assert scores is not None  # noqa: S101 (it has a drop)
    sides = (side.comparable_contributions for side in scores)
    losses = [a - b for a, b in zip(*sides, strict=True)]
    weights = average_docs(losses, scores.candidate.labels).weights
    before, after = (
        [max(shares) for shares in zip(*(getattr(kind, side) for kind in kinds), strict=True)]
        for side in ("baseline", "candidate")
    )
    rows = list(zip(weights, losses, before, after, strict=True))
    drop = math.fsum(weight * loss for weight, loss, _, _ in rows)
    not_read = math.fsum(weight * loss for weight, loss, a, b in rows if a or b)
    counts = [sum(share > 0 for share in shares) for shares in (after, before)]
    what = " or ".join(kind.kind for kind in kinds)
    bias = ", whose answers are the shorter ones, as the limits of tokens differ," if _has_other_limit(pair) else ""
    change = f"{'gained' if read.value < 0 else 'lost'} {abs(100 * read.value):.1f}"
    return (
        f"{counts[0]:,} of {len(rows):,} answers are {what}, {counts[1]:,} of the baseline's; "
        f"of the drop of {_points(drop)} points, {_points(not_read)} come from these answers; "
        f"on the {read.docs:,} other docs{bias} it {change}"
    )


def _has_other_limit(pair: TaskPair) -> bool:
    # What a pack recorded was asked with the settings of the pack, as is the run: else that is an alarm of its own.
    read = pair.read
    runs = (*read.baseline_runs[:1], *read.candidate_runs[:1]) if read and not read.of_pack else ()
    return len({run.provenance.decoding.get("max_gen_toks") for run in runs}) > 1


# Of several answers to a doc, so many must lack something for the doc to be left out.
_HALF = 0.5


def _list_shares(of_runs: Sequence[Sequence[DocResult]], filter_name: str, kind: Lack) -> tuple[float, ...] | None:
    """Of each doc the share of answers of a kind, over all runs; None where that is known of no doc, or for cut answers
    not of every doc."""
    runs = [_mark_docs(docs, filter_name, kind) for docs in of_runs]
    unknown = sum(marks.count(None) for marks in runs)
    if unknown and (kind == "cut" or unknown == sum(map(len, runs))):
        return None
    if len(runs) == 1:
        return tuple(mark or 0.0 for mark in runs[0])
    return tuple(math.fsum(mark or 0.0 for mark in marks) / len(marks) for marks in zip(*runs, strict=True))


def _mark_docs(docs: Sequence[DocResult], filter_name: str, kind: Lack) -> list[float | None]:
    """The share of each doc's answers that are of a kind; None if that is unknown."""
    empty = [1.0 if doc.answer_empty and not doc.is_cut_thinking else 0.0 for doc in docs]
    if kind == "empty":
        return list(empty)
    shares = [doc.cut_share for doc in docs] if kind == "cut" else [is_unextracted(doc, filter_name) for doc in docs]
    return [
        0.0 if is_empty else share if share is None else float(share)
        for is_empty, share in zip(empty, shares, strict=True)
    ]


def _points(share: float) -> str:
    text = f"{abs(100 * share):.1f}"
    return f"{chr(0x2212) if share < 0 and float(text) else ''}{text}"
