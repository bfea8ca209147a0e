"""What is compared, a side each: its docs, every score of them taken once, and which doc of one is which of the other.

A side is a model's answers to the docs of one task: several runs of it in the same order of docs, whose scores are
averaged doc by doc; or Meta's recorded answers, which are docs like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from meta_eval import stats
from meta_eval.judging.judgement import SampleSource
from meta_eval.pack.manifest import TaskEntry
from meta_eval.results.baseline import Baseline
from meta_eval.results.doc_results import Doc, FilterResult
from meta_eval.results.lm_eval_run import TaskRun
from meta_eval.results.metrics import LOWER_IS_BETTER, Value
from meta_eval.results.recorded_verdicts import read_recorded_verdicts, restore_recorded_docs
from meta_eval.results.scores import Scores, compute_scores, list_metric_keys
from meta_eval.thresholds import SAME_VERDICT

Key = Callable[[Doc], Hashable]


class ScoredRun:
    """One side.

    Attributes:
        runs: The docs of each run, the newest run first; the same docs in the same order.
        lower_is_better: The metrics of which less is better.
    """

    def __init__(self, runs: Sequence[Sequence[Doc]], lower_is_better: frozenset[str] = LOWER_IS_BETTER) -> None:
        self.runs, self.lower_is_better = tuple(runs), lower_is_better
        self._known: dict[tuple[int, str], Scores | None] = {}
        self._averaged: dict[str, Scores | None] = {}

    @property
    def docs(self) -> Sequence[Doc]:
        """Those of the newest run."""
        return self.runs[0] if self.runs else ()

    def scores_of_run(self, run: int, spec: str) -> Scores | None:
        """The scores of one run; see `compute_scores`."""
        if (run, spec) not in self._known:
            self._known[run, spec] = compute_scores(self.runs[run], spec, self.lower_is_better)
        return self._known[run, spec]

    def scores_by_run(self, spec: str) -> list[Scores]:
        """The scores of every run; none unless every run has them of the same docs."""
        all_runs = [scores for run in range(len(self.runs)) if (scores := self.scores_of_run(run, spec)) is not None]
        docs = {(scores.positions, scores.labels) for scores in all_runs}
        return all_runs if len(all_runs) == len(self.runs) and len(docs) == 1 else []

    def scores(self, spec: str) -> Scores | None:
        """The mean of all runs, doc by doc."""
        if spec not in self._averaged:
            scores_by_run = self.scores_by_run(spec)
            self._averaged[spec] = _averaged(scores_by_run) if scores_by_run else None
        return self._averaged[spec]

    def select_docs(self, places: Sequence[int]) -> ScoredRun:
        """The side of these docs alone, in this order."""
        if list(places) == list(range(len(self.docs))):
            return self
        return ScoredRun([[docs[place] for place in places] for docs in self.runs], self.lower_is_better)


@dataclass(slots=True)
class Sides:
    """All sides of one task.

    Attributes:
        name: The task.
        entry: What the pack says of it.
        runs: Its runs, the newest first; none where it was not run.
        before: Where two runs are compared, those of the baseline.
        spec: The ``metric,filter`` of single verdicts; None where there is none.
        ours: The run.
        answers: Meta's recorded answers, as the pack grades them.
        verdicts: Meta's recorded verdicts.
        recorded: Of a recorded run what it was given then, in every metric.
        missing: Why there are no recorded answers, a clause.
        first: What the run stands beside: the baseline run, else what Meta recorded.
        pair: ``first`` and ``ours``, of the docs that both have.
        source: Where the samples are.
    """

    name: str
    entry: TaskEntry | None
    runs: tuple[TaskRun, ...]
    before: tuple[TaskRun, ...]
    spec: str | None
    ours: ScoredRun
    answers: ScoredRun | None = None
    verdicts: ScoredRun | None = None
    recorded: ScoredRun | None = None
    missing: str | None = None
    first: ScoredRun | None = None
    pair: tuple[ScoredRun, ScoredRun] | None = None
    source: SampleSource | None = None


def build_sides(
    name: str,
    runs: Sequence[TaskRun],
    entry: TaskEntry | None,
    baseline: Baseline | None,
    before: Sequence[TaskRun] = (),
) -> Sides:
    """Build the sides of a task; `Sides` describes the arguments."""
    result = runs[0] if runs else None
    spec = verdict_spec(result, entry)
    lower = result.lower_is_better if result else LOWER_IS_BETTER
    sides = Sides(name, entry, tuple(runs), tuple(before), spec, ScoredRun([run.docs for run in runs], lower))
    if result is None:
        return sides
    if baseline and baseline.docs.get(name):
        sides.answers = ScoredRun([baseline.docs[name]], lower)
    named = baseline.recorded.get(name) if baseline else None
    if named:
        sides.recorded = sides.verdicts = ScoredRun([named], lower)
    elif spec:
        sides.verdicts = recorded_side(result.docs, spec, entry, reading_of(result, entry))
    if not named and entry is not None and entry.record is not None and (known := restore_recorded_docs(result.docs)):
        sides.recorded = ScoredRun([known], lower)
    sides.missing = baseline.missing.get(name) if baseline and not before else None
    sides.first = ScoredRun([run.docs for run in before], lower) if before else sides.answers or sides.verdicts
    if sides.first:
        keys = (prompt_key, question_key, _by_content(sides.first, sides.ours)) if before else (number_key,)
        sides.pair = align_sides(sides.first, sides.ours, *keys)
    sides.source = _source(sides, spec) if spec else None
    return sides


def _averaged(scores_by_run: Sequence[Scores]) -> Scores:
    if len(scores_by_run) == 1:
        return scores_by_run[0]
    values, raw, shares = (
        tuple(stats.average_runs([getattr(run_scores, name) for run_scores in scores_by_run]))
        for name in ("values", "raw", "shares")
    )
    return replace(scores_by_run[0], values=values, raw=raw, shares=shares)


def align_sides(before: ScoredRun, after: ScoredRun, *keys: Key) -> tuple[ScoredRun, ScoredRun]:
    """The docs that both sides have, in one order: docs with the same key, by the first key that finds one.

    Of several docs with one key the first goes with the first, and so on.
    """
    matches: dict[int, int] = {}
    left = list(range(len(after.docs)))
    for key in keys:
        waiting: dict[Hashable, list[int]] = {}
        for place in reversed(left):
            waiting.setdefault(key(after.docs[place]), []).append(place)
        for place, doc in enumerate(before.docs):
            if place not in matches and (same := waiting.get(key(doc))):
                matches[place] = same.pop()
        left = [place for places in waiting.values() for place in reversed(places)]
    pairs = sorted(matches.items())
    return before.select_docs([place for place, _ in pairs]), after.select_docs([place for _, place in pairs])


def paired_scores(before: ScoredRun, after: ScoredRun, spec: str) -> tuple[Scores, Scores] | None:
    """The scores of two aligned sides in one metric; None unless both have them, of the same docs."""
    first, second = before.scores(spec), after.scores(spec)
    if first is None or second is None or first.kind != second.kind or first.positions != second.positions:
        return None
    return first, second


def recorded_side(docs: Sequence[Doc], spec: str, entry: TaskEntry | None, reading: str | None) -> ScoredRun | None:
    """Meta's recorded verdicts as a side, in the metric of single verdicts and its macro average.

    Of the docs that have one. They are published with few decimals: one that is the same as ours but for that is taken
    for ours. None where there is none, or where they are no shares.
    """
    metric, _, name = spec.partition(",")
    verdicts, _ = read_recorded_verdicts(docs, (entry.recorded_metric if entry else None) or metric, reading)
    recorded = []
    for doc, theirs in zip(docs, verdicts, strict=True):
        if theirs is None or name not in doc.answers:
            continue
        if not 0 <= theirs <= 1:
            return None
        ours = doc.answers[name].metrics
        given = {key: _like(ours[key], theirs) for key in (metric, f"{metric}_macro") if key in ours}
        recorded.append(doc.with_recorded({name: FilterResult(None, given, 0, 0)}))
    return ScoredRun([recorded]) if recorded else None


def _like(ours: Value, theirs: float) -> Value:
    """Their verdict in the shape of ours."""
    if isinstance(ours, tuple) and len(ours) == 2 and isinstance(ours[1], float):
        return (ours[0], _like(ours[1], theirs))  # type: ignore[return-value]
    return ours if isinstance(ours, float) and abs(ours - theirs) <= SAME_VERDICT else theirs


def shared_questions(tasks: Sequence[Sequence[Doc]]) -> frozenset[str]:
    """The question hashes that docs of several tasks have."""
    seen: set[str] = set()
    twice: set[str] = set()
    for docs in tasks:
        here = {doc.question_hash for doc in docs}
        twice |= here & seen
        seen |= here
    return frozenset(twice)


def number_key(doc: Doc) -> Hashable:
    return doc.doc_id, doc.question_hash


def question_key(doc: Doc) -> Hashable:
    return doc.question_hash, doc.gold


def prompt_key(doc: Doc) -> Hashable:
    return doc.question_hash, doc.gold, doc.prompt_hashes


def _by_content(before: ScoredRun, after: ScoredRun) -> Key:
    """What the model was given and the right answer, where one doc of each side alone has them: a dataset that got
    another column has other docs by lm-eval's hashes, and asks the same."""
    counts = [Counter((doc.sent_hash, doc.gold) for doc in side.docs) for side in (before, after)]

    def key(doc: Doc) -> Hashable:
        content = doc.sent_hash, doc.gold
        return content if doc.sent_hash and all(count[content] == 1 for count in counts) else object()

    return key


def verdict_spec(result: TaskRun | None, entry: TaskEntry | None) -> str | None:
    """The ``metric,filter`` that tells whether an answer is right: the pack's, the run's, else its first fraction.

    None where there is none, as of a task of perplexities alone.
    """
    if entry is not None:
        return entry.verdict
    if result is None or not result.docs:
        return None
    return result.verdict or next(iter(list_shares(result)), None)


def reading_of(result: TaskRun | None, entry: TaskEntry | None) -> str | None:
    """The ``metric,filter`` that Meta's ``is_correct`` is the like of where it is no verdict; None where it is one."""
    return entry.reading if entry is not None else result.reading if result is not None else None


def list_shares(result: TaskRun) -> list[str]:
    """Every ``metric,filter`` of a run that is a share: of its docs, else of lm-eval's averages."""
    shares = [spec for spec in list_metric_keys(result.docs) if compute_scores(result.docs, spec) is not None]
    return shares + [spec for spec, aggregate in result.aggregates.items() if aggregate.share and spec not in shares]


def _source(sides: Sides, spec: str) -> SampleSource:
    meta = sides.answers or sides.verdicts
    known = meta.scores_of_run(0, spec) if meta else None
    verdicts: dict[Hashable, float] = {}
    if meta and known:
        given = zip(known.positions, known.verdicts, strict=True)
        verdicts = {number_key(meta.docs[at]): value for at, value in given}
    if sides.before and sides.pair:
        docs = tuple(zip(sides.pair[0].docs, sides.pair[1].docs, strict=True))
        runs = sides.before[0], sides.runs[0]
        return SampleSource(spec, runs, docs, tuple(verdicts.get(number_key(doc)) for _, doc in docs))
    ours = sides.ours.docs
    of_meta = tuple(map(verdicts.get, map(number_key, ours)))
    others = frozenset(doc.doc_id for doc in (meta.docs if meta else ()) if doc.prompt_unchanged is False)
    named = sides.entry is not None and sides.entry.baseline is not None
    return SampleSource(
        spec, sides.runs[:1], tuple((doc,) for doc in ours), of_meta, not named, others if named else frozenset()
    )
