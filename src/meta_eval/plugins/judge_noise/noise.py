"""How often a judge gives the same answer another grade, and how much of a drop's uncertainty that is.

Two gradings of an answer are of one judge if the grader's settings are the same. The **rate** is the mean over docs of
the squared difference of two gradings: for right and wrong the share of pairs that flip. Half of it is the variance of
one grading (of two independent ones the difference has twice the variance).

A drop over n docs is a sum of verdicts. Where both answers of a doc are the same, they have one verdict
(`meta_eval.judge.grader_change`), and it adds no noise. Of m docs whose answers differ, each has the noise of two
gradings, so the judge's part of the drop's variance is m times the rate by n squared. In general each grading counts by
its weight in the drop: a run of a side with k runs by 1/k, one of e answers to a doc by 1/e. Graded g times each, and
averaged, it is a g-th of that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, pairwise
from statistics import fmean
from typing import Any

from meta_eval import stats
from meta_eval.base.thresholds import ALPHA, SAME_VERDICT
from meta_eval.harness.doc_results import DocResult, find_cluster_names
from meta_eval.harness.lm_eval_run import TaskRun, is_same_run
from meta_eval.harness.scores import ScoredRun
from meta_eval.judge.decision import SIDES
from meta_eval.judge.doc_pairs import RunPair, measure_drop, pair_scores
from meta_eval.judge.drops import choose_metric, list_possible_metrics
from meta_eval.judge.grader_change import compare_graders, describe_grader_differences
from meta_eval.judge.pair import find_verdict_metric, pair_task
from meta_eval.plugins.judge_noise.judges import is_computed, names_judge
from meta_eval.stats import Drop, Interval
from meta_eval.stats.clustered_mean import average_docs
from meta_eval.stats.identical import FlipKind, list_flip_kinds, of_kinds

# Gradings of each answer, of which the half-width of the interval is said; None for as many as one likes.
GRADINGS: tuple[int | None, ...] = (2, 4, None)
# The least that the means of a right and a wrong answer are taken to be apart: a judge that flips 20 % of its verdicts.
_APART = 0.6


@dataclass(frozen=True, slots=True)
class DropNoise:
    """What the judge's noise is of a drop's uncertainty."""

    variance: float
    """The variance of the drop that the judge's noise is; a drop is a share from -1 to 1."""

    explained: float | None
    """Its share of the drop's variance, 0 to 1; None where nothing differs."""

    explained_interval: Interval | None
    """The same at both ends of the rate's interval."""

    half_width: float
    """Half the width of the drop's interval at `LEVEL`."""

    half_widths: Mapping[int | None, float]
    """What it would be with so many gradings of each answer: see `GRADINGS`."""


@dataclass(frozen=True, slots=True)
class TaskNoise:
    """What two gradings of the same answers say of a task's judge."""

    is_named: bool
    """Whether the log names a model as the grader."""

    docs: int = 0
    """Docs of which the same answer was graded twice."""

    pairs: int = 0
    """Pairs of gradings: more than docs where there are several runs or answers."""

    lost: int = 0
    """Pairs in which the later grading is lower. A's come before B's, and older runs before newer ones."""

    won: int = 0
    """Pairs in which it is higher."""

    rate: float | None = None
    """The mean of the squared differences, 0 to 1; None where nothing was graded twice."""

    interval: Interval | None = None
    """Of the rate, at `LEVEL`."""

    drop: DropNoise | None = None
    """What it is of the drop; None without a comparison."""

    @property
    def goes_one_way(self) -> bool:
        """Whether the flips go one way beyond chance (sign test, p < 5 %): that is a change, and no noise."""
        return 2 * stats.tail_p_value(max(self.lost, self.won), self.lost + self.won, 0.5) < ALPHA

    @property
    def is_judged(self) -> bool:
        """Whether a model is likely to grade. Without its name: the same answer got other verdicts, either way."""
        return self.is_named or (self.lost + self.won > 0 and not self.goes_one_way)


@dataclass(slots=True)
class _Graded:
    """A run of a task."""

    run: TaskRun
    docs: Sequence[DocResult]
    verdicts: dict[int, tuple[float, ...]] = field(default_factory=dict)
    """By place of a doc the verdicts on its answers, 1 for best; without those that say nothing of the grader."""


def measure_task(
    name: str, baseline: Sequence[TaskRun], candidate: Sequence[TaskRun], shared: frozenset[str]
) -> TaskNoise | None:
    """Measure the noise of a task's judge; None where no metric is a share from 0 to 1.

    Args:
        name: The task.
        baseline, candidate: The runs of each side, the newest first; none for no side.
        shared: See `find_cluster_names`.

    Raises:
        ResultsError: Samples of several answers cannot be read again.
    """
    metrics = [key.partition(",")[0] for key in list_possible_metrics((*baseline, *candidate)[0], None)]
    if not any(_may_have_judge(run, metric) for run in (*baseline, *candidate) for metric in metrics):
        return None  # the usual case: nothing is paired
    read = pair_task(name, candidate or baseline, None, None, baseline if candidate else ())
    sides = read.sides if baseline and candidate else None
    if sides is None:
        key = find_verdict_metric(read.candidate_runs[0], None)
        runs = _read_runs(read.candidate, read.candidate_runs, key or "")
    else:
        chosen = choose_metric(sides, list_possible_metrics(baseline[0], None), SIDES[0])
        key = None if isinstance(chosen, str) else chosen.metric_key
        runs = [
            graded
            for scored, of_side in zip(sides, (baseline, candidate), strict=True)
            for graded in _read_runs(scored, of_side, key or "")
        ]
    if key is None or not any(graded.verdicts for graded in runs):
        return None
    metric = key.partition(",")[0]
    is_named = any(names_judge(graded.run.provenance.grader, metric) for graded in runs)
    changes = _compare_gradings(runs, key, has_epochs=is_named)
    if not changes or not all(_may_have_judge(graded.run, metric) for graded in runs):
        return TaskNoise(is_named)
    clusters = partial(find_cluster_names, name, shared=shared)
    squares = [fmean(change * change for change in of_doc) for of_doc in changes.values()]
    graded_docs = [runs[0].docs[place] for place in changes]
    flat = [change for of_doc in changes.values() for change in of_doc]
    # With names for docs that are alone, too, few docs have Student's quantile, which covers better there.
    interval = stats.score_interval(squares, clusters=clusters(graded_docs) or range(len(squares)))
    rate = fmean(squares)
    return TaskNoise(
        is_named, len(changes), len(flat), sum(change > SAME_VERDICT for change in flat),
        sum(change < -SAME_VERDICT for change in flat), rate, interval,
        _measure_drop(sides, key, runs, (rate, interval), clusters) if sides else None,
    )  # fmt: skip


def _may_have_judge(run: TaskRun, metric: str) -> bool:
    return not is_computed(run.provenance, metric) or names_judge(run.provenance.grader, metric)


def _read_runs(scored: ScoredRun, runs: Sequence[TaskRun], key: str) -> list[_Graded]:
    """The runs of a side with their verdicts, the oldest first."""
    metric, _, name = key.partition(",")
    graded = []
    for number, run in enumerate(runs):
        one = _Graded(run, scored.runs[number])
        scores = scored.scores_of_run(number, key) if key else None
        # Of a program that does not say whether its time ran out, another verdict tells nothing.
        runs_code = run.provenance.grader.runs_code or metric.startswith(("pass@", "pass_at_"))
        for place, verdict in zip(scores.doc_indices, scores.verdicts, strict=True) if scores else ():
            doc = one.docs[place]
            result = doc.filter_results[name]
            verdicts: tuple[float, ...] = (verdict,)
            if len(doc.cuts) > 1:  # one verdict of several answers, such as a vote, is none of an answer
                each = result.verdict_of_each.get(metric, ())
                verdicts = tuple(1 - value for value in each) if scores and scores.lower_is_better else each
            is_graded = result.metrics.get("ungraded", float(runs_code)) != 1 and not result.is_timed_out
            if verdicts and is_graded and all(0 <= value <= 1 for value in verdicts):
                one.verdicts[place] = verdicts
        graded.append(one)
    return graded[::-1]


def _compare_gradings(runs: Sequence[_Graded], key: str, *, has_epochs: bool) -> dict[int, list[float]]:
    """By place of a doc the earlier grading less the later one, of each pair of gradings of the same answer."""
    changes: dict[int, list[float]] = {}
    for a, b in combinations(runs, 2):
        graders = a.run.provenance.grader, b.run.provenance.grader
        if is_same_run(a.run, b.run) or any(describe_grader_differences(*graders, key, SIDES)):
            continue
        for place in a.verdicts.keys() & b.verdicts.keys():
            first, second = a.verdicts[place], b.verdicts[place]
            if _is_same_answer(a.docs[place], b.docs[place]) and len(first) == len(second):
                changes.setdefault(place, []).extend(x - y for x, y in zip(first, second, strict=True))
    for graded in runs if has_epochs else ():
        for place, differences in _compare_epochs(graded, key.partition(",")[2]):
            changes.setdefault(place, []).extend(differences)
    return dict(sorted(changes.items()))


def _compare_epochs(graded: _Graded, filter_name: str) -> Iterator[tuple[int, list[float]]]:
    """By place of a doc the differences between an answer's verdict and that of the next answer with the same text."""
    several = {place: verdicts for place, verdicts in graded.verdicts.items() if len(verdicts) > 1}
    if not several or (graded.run.samples_file is None and graded.run.logged is None):
        return
    with graded.run.open_samples() as read:
        for place, verdicts in several.items():
            sample = read(graded.docs[place].filter_results[filter_name])
            if (sample.get("answer") or {}).get("turns"):
                continue  # what was said last is not all that was graded
            texts = list(_list_texts(sample.get("resps")))
            by_text: dict[str, list[float]] = {}
            for text, verdict in zip(texts, verdicts, strict=False) if len(texts) == len(verdicts) else ():
                by_text.setdefault(text, []).append(verdict)
            differences = [x - y for same in by_text.values() for x, y in pairwise(same)]
            if differences:
                yield place, differences


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _list_texts(part)
    else:
        yield str(value)


def _is_same_answer(a: DocResult, b: DocResult) -> bool:
    """Whether two docs are known to have the same answer to the same question."""
    if a.answer_hash is None or a.answer_hash != b.answer_hash:
        return False
    if a.prompt_hashes:
        return a.shares_prompt_with(b) and a.gold == b.gold
    return a.prompt_matches is not False and b.prompt_matches is not False


def _measure_drop(
    sides: RunPair, key: str, runs: Sequence[_Graded], rate: tuple[float, Interval], clusters: Any
) -> DropNoise | None:
    """The judge's part of a drop; None where the drop has no variance.

    Args:
        sides: Both sides.
        key: The ``metric,filter``.
        runs: Of both sides.
        rate: The rate with its interval.
        clusters: Gives the cluster of each of some docs.
    """
    before, after = runs[: len(sides.baseline.runs)], runs[len(sides.baseline.runs) :]
    graders = before[-1].run.provenance.grader, after[-1].run.provenance.grader
    drop = measure_drop(compare_graders(sides, key, graders, SIDES)[1], key, clusters)
    scores = pair_scores(sides, key)
    if drop is None or scores is None or not drop.freedom:
        return None
    weights = average_docs(scores.candidate.contributions, scores.candidate.labels).weights.tolist()
    unit = sum(
        weight**2 * _count_noise(place, before, after)
        for place, weight in zip(scores.candidate.doc_indices, weights, strict=True)
    )
    variance, ends = rate[0] * unit, rate[1].scale(unit)
    of_all, widths = drop.variance, [_halve(drop)]
    for gradings in GRADINGS:
        widths.append(min(widths[-1], _narrow(drop, variance, rate[0], gradings)))
    return DropNoise(
        variance,
        min(1.0, variance / of_all) if of_all > 0 else None,
        Interval(min(1.0, ends.lower / of_all), min(1.0, ends.upper / of_all)) if of_all > 0 else None,
        widths[0],
        dict(zip(GRADINGS, widths[1:], strict=True)),
    )


def _count_noise(place: int, before: Sequence[_Graded], after: Sequence[_Graded]) -> float:
    """The noise of a doc's change, by that of two gradings: 1 where two answers differ, 0 where they are the same."""
    weights = [1 / len(before) for _ in before]
    of_candidate = []
    for graded in after:
        same = next(
            (
                number
                for number, other in reversed([*enumerate(before)])
                if place in graded.verdicts
                and place in other.verdicts
                and _is_same_answer(other.docs[place], graded.docs[place])
            ),
            None,
        )
        if same is None:
            of_candidate.append((1 / len(after), graded))
        else:
            weights[same] -= 1 / len(after)
    parts = (*zip(weights, before, strict=True), *of_candidate)
    return sum(weight * weight / max(1, len(graded.docs[place].cuts)) for weight, graded in parts) / 2


def _narrow(drop: Drop, noise: float, rate: float, gradings: int | None) -> float:
    """Half the width of its interval with so many gradings of each answer.

    Its variance is less by the noise that they average out. What is left are fewer flips, and smaller ones: where a
    judge flips a share p of verdicts either way, the means of a right and a wrong answer are 1 - 2 p apart, which is
    the root of 1 minus twice the rate. The drop stays, so there are never fewer flips than it needs.

    Args:
        drop: The drop.
        noise: The part of its variance that the judge's noise is.
        rate: The rate.
        gradings: Of each answer; None for as many as one likes.
    """
    averaged = 1 - (1 / gradings if gradings else 0)
    kept = max(0.0, 1 - averaged * noise / drop.variance) if drop.variance > 0 else 1.0
    apart = max(_APART, math.sqrt(max(0.0, 1 - 2 * averaged * rate)))
    narrowed = []
    for kind in list_flip_kinds(drop):
        net, flips = (kind.lost - kind.won) / apart, kept * (kind.lost + kind.won) / apart**2
        flips = max(flips, abs(net))
        narrowed.append(FlipKind((flips + net) / 2, (flips - net) / 2, kind.unit * apart))
    return _halve(of_kinds(drop, narrowed)) if noise > 0 else _halve(drop)


def _halve(drop: Drop) -> float:
    interval = drop.interval()
    return (interval.upper - interval.lower) / 2
