"""Which doc of a baseline is which doc of a candidate, and what is found by pairs of docs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from meta_eval import stats
from meta_eval.base.thresholds import SAME_VERDICT
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.scores import ScoredRun, Scores

Key = Callable[[DocResult], Hashable]


# The cluster of each of some docs; None if they are independent.
Clusters = Callable[[Sequence[DocResult]], Sequence[Hashable] | None]


Lack = Literal["empty", "cut", "not read"]


class RunPair(NamedTuple):
    """A baseline and a candidate over the same docs, in one order."""

    baseline: ScoredRun
    candidate: ScoredRun

    @property
    def docs(self) -> Sequence[DocResult]:
        """Those of the candidate."""
        return self.candidate.docs


class ScorePair(NamedTuple):
    """The scores of both in one metric."""

    baseline: Scores
    candidate: Scores


def pair_docs(baseline: ScoredRun, candidate: ScoredRun, *keys: Key) -> RunPair:
    """The docs that both have, in one order: docs with the same key, by the first key that finds one.

    Of several docs with one key the first goes with the first, and so on.
    """
    if [keys[0](doc) for doc in baseline.docs] == [keys[0](doc) for doc in candidate.docs]:  # the usual case
        return RunPair(baseline, candidate)
    matches: dict[int, int] = {}
    docs, left = candidate.docs, list(range(len(candidate.docs)))
    for key in keys:
        waiting: dict[Hashable, list[int]] = {}
        for place in reversed(left):
            waiting.setdefault(key(docs[place]), []).append(place)
        for place, doc in enumerate(baseline.docs):
            if place not in matches and (same := waiting.get(key(doc))):
                matches[place] = same.pop()
        left = [place for places in waiting.values() for place in reversed(places)]
    pairs = sorted(matches.items())
    places, candidate_places = [place for place, _ in pairs], [place for _, place in pairs]
    return RunPair(baseline.select_docs(places), candidate.select_docs(candidate_places))


def measure_drop(
    pair: RunPair, metric_key: str, clusters: Callable[[Sequence[DocResult]], Sequence[Hashable] | None] | None = None
) -> stats.Drop | None:
    """The drop from the baseline to the candidate in one metric; None unless both have it, of the same docs."""
    scores = pair_scores(pair, metric_key)
    if scores is None:
        return None
    names = clusters([pair.candidate.docs[place] for place in scores.candidate.doc_indices]) if clusters else None
    drop = stats.paired_drop(
        scores.baseline.paired_contributions, scores.candidate.paired_contributions, scores.candidate.labels, names
    )
    return drop.invert() if scores.candidate.lower_is_better else drop


def pair_scores(pair: RunPair, metric_key: str) -> ScorePair | None:
    """The scores of both in one metric; None unless both have them, of the same docs."""
    baseline, candidate = pair.baseline.scores(metric_key), pair.candidate.scores(metric_key)
    if baseline is None or candidate is None:
        return None
    same = baseline.averaging == candidate.averaging and baseline.doc_indices == candidate.doc_indices
    return ScorePair(baseline, candidate) if same else None


def make_number_key(doc: DocResult) -> Hashable:
    return doc.doc_id, doc.question_hash


def make_question_key(doc: DocResult) -> Hashable:
    return doc.question_hash, doc.gold


def make_prompt_key(doc: DocResult) -> Hashable:
    return doc.question_hash, doc.gold, doc.prompt_hashes


@dataclass(frozen=True, slots=True)
class ChangedAnswers:
    """A trait of the answers of a task."""

    trait: str
    """What the answers do, in words."""

    candidate: int
    baseline: int
    """Docs of which only this side's answer has it."""

    docs: int
    """Docs that are compared."""

    drop: float
    """The drop of all of them."""

    part: float
    """Its part from docs of which only the candidate's answer has it."""

    note: str
    """What else is known of these answers, a clause; empty if nothing is."""

    @property
    def p(self) -> float:
        """The p value of a sign test: as many on either side."""
        many = max(self.candidate, self.baseline)
        return min(1.0, 2 * stats.tail_p_value(many, self.candidate + self.baseline, 0.5))


@dataclass(frozen=True, slots=True)
class GradedTwice:
    """Docs of a task whose answers are the same word for word on both sides."""

    grader: Hashable
    """What graded them: tasks with the same value share a grader."""

    changes: tuple[float, ...]
    """For each such doc that is a proof, the baseline's verdict less the candidate's, weighted like the drop were each
    doc the same."""

    unproven: int
    """Docs with the same answers and other verdicts that are no proof."""

    unequal: float
    """The weight of the other docs in the drop, from 0 to 1."""

    differences: tuple[str, ...]
    """What differs between the graders, a clause each."""

    releases_alone: bool
    """Whether that is no more than lm-eval's release."""

    scored_drop: float | None = None
    """The drop of the scores as they were graded, where equal answers with other verdicts count as ties."""

    @property
    def lost(self) -> int:
        """Docs with a lower verdict on the candidate's side."""
        return sum(change > SAME_VERDICT for change in self.changes)

    @property
    def won(self) -> int:
        """Docs with a higher one."""
        return sum(change < -SAME_VERDICT for change in self.changes)


@dataclass(frozen=True, slots=True)
class LackingAnswers:
    """How many answers of a task lack something on each side."""

    kind: Lack
    """What they are: empty, cut, or not read by the filter of the verdict. An empty answer is none of the others; one
    that was cut before the end of its reasoning is cut."""

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    """Of each paired doc that has the metric the share of its runs."""

    more: stats.Drop
    """How much more often it is so of the candidate, weighted like the drop."""


@dataclass(frozen=True, slots=True)
class FilterDrop:
    """The drop of a task by another filter than the verdict's."""

    name: str
    """The filter."""

    value: float
    """Its drop."""

    verdict: str
    """The verdict's filter."""

    verdict_value: float
    """The drop by that filter."""

    p: float
    """Two-sided p value of no difference between the two, doc by doc."""

    def is_far(self, margin: float) -> bool:
        """Whether the two differ in sign, or by more than the margin."""
        return abs(self.value - self.verdict_value) > margin or self.value * self.verdict_value < 0


@dataclass(frozen=True, slots=True)
class TimedLosses:
    """Losses from early to late answers."""

    second: Sequence[float] = ()
    """For each doc or cluster with a second answer, its loss against the first."""

    by_place: Sequence[tuple[int, float]] = field(default_factory=tuple)
    """For each doc or cluster, its place in the random order, and its loss against the baseline."""
