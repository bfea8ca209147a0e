"""Subtasks of a task: the score of each, and the drop doc by doc where both sides are known."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from meta_eval import stats
from meta_eval.judging.judgement import Subtask
from meta_eval.judging.sides import ScoredRun, paired_scores
from meta_eval.stats import Drop
from meta_eval.thresholds import ALPHA


@dataclass(frozen=True, slots=True)
class _Docs:
    """The docs of one subtask: our values, the other side's where there are any, and what docs share."""

    values: list[float]
    known: list[float | None]
    clusters: list[Hashable]


def subtask_drops(ours: ScoredRun, spec: str, sides: tuple[ScoredRun, ScoredRun] | None) -> dict[str, Drop]:
    """The drop of each subtask all of whose docs are paired; empty where a task has not two subtasks.

    Args:
        ours: The run.
        spec: ``metric,filter`` of single verdicts.
        sides: The baseline and the run over the same docs; None where there is no baseline.
    """
    scores = ours.scores(spec)
    drops = {}
    for name, docs in _grouped(ours, spec, sides).items():
        before = [value for value in docs.known if value is not None]
        if scores and len(before) == len(docs.values):
            clusters = docs.clusters if scores.clusters else None
            drop = stats.paired_drop(before, docs.values, clusters=clusters)
            drops[name] = drop.invert() if scores.lower_is_better else drop
    return drops


def describe_subtasks(ours: ScoredRun, spec: str, sides: tuple[ScoredRun, ScoredRun] | None) -> tuple[Subtask, ...]:
    """The subtasks of a task by name, each with its score and the other side's; arguments as of `subtask_drops`."""
    drops = subtask_drops(ours, spec, sides)
    corrected = stats.correct_by_holm([drop.p_value() for drop in drops.values()])
    clear = {name: p < ALPHA for name, p in zip(drops, corrected, strict=True)}
    return tuple(
        Subtask(
            name,
            len(docs.values),
            stats.mean(docs.values),
            drops[name].before if name in drops else None,
            clear.get(name, False),
        )
        for name, docs in sorted(_grouped(ours, spec, sides).items())
    )


def _grouped(ours: ScoredRun, spec: str, sides: tuple[ScoredRun, ScoredRun] | None) -> dict[str, _Docs]:
    scores = ours.scores(spec)
    if scores is None:
        return {}
    theirs: dict[Hashable, float] = {}
    pair = paired_scores(*sides, spec) if sides else None
    if sides and pair:
        docs = sides[1].docs
        theirs = {docs[at].doc_id: value for at, value in zip(pair[0].positions, pair[0].raw, strict=True)}
    groups: dict[str, _Docs] = {}
    names = scores.clusters or scores.positions
    for position, value, cluster in zip(scores.positions, scores.raw, names, strict=True):
        doc = ours.docs[position]
        if doc.subtask is not None:
            group = groups.setdefault(doc.subtask, _Docs([], [], []))
            group.values.append(value)
            group.known.append(theirs.get(doc.doc_id))
            group.clusters.append(cluster)
    return groups if len(groups) > 1 else {}
