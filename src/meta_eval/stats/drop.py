"""The drop from a baseline's score. Sign, interval, p value and power come from the same statistic.

The drop is computed doc by doc in the published metric. Every reported metric is an average of contributions of docs
(`meta_eval.stats.score`), so the drop is the average loss of contribution. Positive is worse.
`meta_eval.stats.clustered_mean` gives its variance V, with clusters of docs that share a question or a passage.

The drop is L - W, with the losses L on some docs and the gains W on others. Both are rare: a few percent of docs flip.
Let w = V / (L + W) be the size of a flip by the variance. Then L / w and W / w behave like two Poisson counts (a
weighted sum of Poisson counts scaled to one count: Fay and Feuer 1997, Statistics in Medicine 16:791; here clusters and
subtasks make the weights). A Poisson rate has the score interval

    count + t^2/2 -+ t sqrt(count + t^2/4)

(Rao's score test inverted; among others Barker 2002, The American Statistician 56:85, "score"), and the MOVER (Zou and
Donner 2008, Statistics in Medicine 27:1693) joins both to an interval of the difference:

    lower = (L - W) - w sqrt(below(L/w)^2 + above(W/w)^2),   upper = (L - W) + w sqrt(above(L/w)^2 + below(W/w)^2)

with below(c) = t sqrt(c + t^2/4) - t^2/2 and above(c) = t sqrt(c + t^2/4) + t^2/2. For many flips this is Student's
interval, (L - W) -+ t sqrt(V). For few flips it keeps its coverage, which Student's does not. No flip in n docs gives
-+ t^2/n, the same as the score interval of paired shares (Tango 1998, Statistics in Medicine 17:891) up to terms of
1/n^2. The two are close everywhere (tests/stats/test_stats.py). A p value is the level at which the interval touches
the value in question.

Small changes say nothing of whole losses. A cluster (or a doc) that changes by half of itself or more is a **whole**
change, any other a **small** change. Each kind has its own L, W, V and w, and the MOVER joins both. So docs that all
change a little, such as sampled answers, ROUGE or 64 copies of a problem, leave open what no whole change leaves open:
t^2/n for n docs or clusters. If every change is whole, as of yes or no in single docs, this is the formula above.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, ClassVar

from meta_eval.base.thresholds import ALPHA, LEVEL, POWER, ROUNDING, WHOLE_CHANGE, Weighting
from meta_eval.stats.clustered_mean import add_up, average_docs, number_names
from meta_eval.stats.intervals import Interval, t_quantile
from meta_eval.stats.run_effect import RunEffect

if TYPE_CHECKING:
    from meta_eval.stats.clustered_mean import Floats


@dataclass(frozen=True, slots=True)
class DropPart:
    """A drop, or a part of one, positive for worse, with its interval at `LEVEL`."""

    value: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Drop:
    """How much lower a candidate's score is than its baseline's over the same docs."""

    baseline: float
    """The score of the baseline."""

    candidate: float
    """The score of the candidate."""

    lost: float
    won: float
    """The losses on some docs, and the gains on others; ``lost - won`` is the drop."""

    variance: float
    """The variance of the drop."""

    freedom: float
    """Degrees of freedom of the variance; 0 for a single cluster."""

    grain: float
    """The size of a flip of a whole cluster: 1 divided by the number of docs, if weights are equal."""

    flipped: float
    """Effective number of clusters (docs, if they are not clustered) with a whole change: see `_count_changed`."""

    docs: int
    """Number of docs."""

    clusters: int
    """Number of clusters, or of docs if docs are not clustered."""

    paired: bool
    """Whether it is doc by doc; else against a score alone, see `unpaired_drop`."""

    influence: Mapping[Hashable, float] = field(default_factory=dict, repr=False, compare=False)
    """The contribution of each cluster to the error; empty if docs are not clustered."""

    lower_is_better: bool = False
    """Whether a lower score is better, so that a rise is a drop."""

    run_variance: float = field(default=0.0, compare=False)
    """The part of ``variance`` that single flips of several runs explain; 0 if each side has one run."""

    run_effect: RunEffect | None = field(default=None, compare=False)
    """What differs between runs beyond single flips; None if nothing is seen."""

    small_lost: float = 0.0
    small_won: float = 0.0
    small_variance: float = 0.0
    """The part of small changes in ``lost``, ``won`` and ``variance``."""

    json_only: ClassVar = ("value", "interval", "has_run_effect", "baseline", "candidate")

    @property
    def value(self) -> float:
        """The drop."""
        return self.lost - self.won

    @property
    def part(self) -> DropPart:
        """The drop with its interval at `LEVEL`, and nothing else."""
        return DropPart(self.value, self.interval())

    def invert(self) -> Drop:
        """The drop of a metric where lower is better: gains and losses change places."""
        influence = {key: -value for key, value in self.influence.items()}
        return replace(
            self, lost=self.won, won=self.lost, small_lost=self.small_won, small_won=self.small_lost,
            influence=influence, lower_is_better=True,
        )  # fmt: skip

    @property
    def seen_variance(self) -> float:
        """The variance; without whole changes, with half a flip each way (Agresti and Min 2005)."""
        whole = (
            max(self.variance - self.small_variance, self.flip_size * self._whole) if self.flipped else self.grain**2
        )
        return whole + self.small_variance

    @property
    def flip_size(self) -> float:
        """The size of a whole change.

        It comes from the variance. With k changed clusters it is at least 1/(k + 1) of a whole cluster: flips that were
        not seen may be larger than those that were.
        """
        changed, variance = self._whole, max(0.0, self.variance - self.small_variance)
        return max(variance / changed if changed > 0 else 0.0, self.grain / (1 + self.flipped))

    @property
    def _whole(self) -> float:
        """Losses and gains of whole changes together."""
        return max(0.0, self.lost + self.won - self.small_lost - self.small_won)

    @property
    def _small_size(self) -> float:
        """The size of a small change; 0 where there is none."""
        changed = self.small_lost + self.small_won
        return self.small_variance / changed if changed > 0 else 0.0

    def interval(self, level: float = LEVEL) -> Interval:
        """The confidence interval of the drop, two-sided."""
        if not self.freedom:
            return Interval(-1.0, 1.0)
        t = t_quantile(level, self.freedom)
        below, above = self._make_reach(below=True)(t), self._make_reach(below=False)(t)
        return Interval(max(-1.0, self.value - below), min(1.0, self.value + above))

    def p_value(self, at: float = 0.0) -> float:
        """The two-sided p value of a true drop of ``at``: above 1 - level exactly if `interval` contains it."""
        from scipy.special import stdtr

        distance = abs(self.value - at)
        if not self.freedom or distance == 0:
            return 1.0
        reach = self._make_reach(below=self.value > at)
        t = _rising(lambda t: reach(t) - distance)
        return float(2 * stdtr(self.freedom, -t))

    def find_detectable(self, alpha: float = ALPHA, power: float = POWER) -> float:
        """The smallest true drop that such docs detect with this power: p below ``alpha``.

        It assumes the observed flips, and half an unseen flip each way (Agresti and Min 2005, Statistics in Medicine
        24:729), in both directions. The drop is added as losses (Miettinen 1968, Biometrics 24:339, for the resulting
        variance). The result is the drop at which the interval of the expected counts excludes 0, even if the
        difference is as small as in the unluckiest 1 - ``power`` of runs.
        """
        if not self.freedom:
            return 1.0
        t, short = t_quantile(1 - alpha, self.freedom), NormalDist().inv_cdf(power)
        flips, unit, small = self._whole / self.flip_size + 1, self.flip_size, self._small_size
        half = (self.small_lost + self.small_won) / small / 2 if small else 0.0
        of_small = small / unit * _joined(_below(half, t), _above(half, t)) if small else 0.0

        def margin(extra: float) -> float:
            total = flips + extra
            seen = extra - short * math.sqrt(total + self.small_variance / unit**2)
            reach = _joined(_below((total + seen) / 2, t), _above((total - seen) / 2, t), of_small)
            return seen - reach if seen > 0 else seen

        return min(1.0, self.flip_size * _rising(margin))

    @property
    def has_run_effect(self) -> bool:
        """Whether the interval contains what differs from run to run beyond single flips."""
        return self.run_effect is not None and self.run_variance > 0

    @property
    def recovery(self) -> float | None:
        """The candidate's score as a share of the baseline's; None if that is 0, or if lower is better."""
        return self.candidate / self.baseline if self.baseline > 0 and not self.lower_is_better else None

    def recovery_interval(self, level: float = LEVEL) -> Interval | None:
        """The interval of `recovery`, relative to the measured baseline score. It contains 1 exactly if `interval`
        contains 0."""
        return None if self.recovery is None else self.interval(level).scale(-1 / self.baseline, 1)

    def _make_reach(self, *, below: bool) -> Callable[[float], float]:
        """How far the interval reaches below the drop, or above it, by the quantile of Student's distribution."""
        unit, small = self.flip_size, self._small_size
        kinds = [(unit, self.lost - self.small_lost, self.won - self.small_won)]
        kinds += [(small, self.small_lost, self.small_won)] if small else []
        # The changes of each size that the interval reaches below, and those that it reaches above.
        counts = [(size, lost / size, won / size) if below else (size, won / size, lost / size)
                  for size, lost, won in kinds]  # fmt: skip

        def reach(t: float) -> float:
            return _joined(*[end for size, fewer, more in counts for end in _ends(size, fewer, more, t)])

        effect, variance = self.run_effect, self.run_variance
        if effect is None or not variance:
            return reach
        from scipy.special import stdtr, stdtrit

        def reach_of_runs(t: float) -> float:
            return math.sqrt(variance * effect.widen(t, -float(stdtrit(effect.freedom, stdtr(self.freedom, -t)))))

        return lambda t: _joined(reach(t), reach_of_runs(t))


def paired_drop(
    baseline: Sequence[float] | Floats,
    candidate: Sequence[float] | Floats,
    labels: Sequence[Hashable] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> Drop:
    """Compute the drop from a baseline to a candidate, doc by doc.

    Args:
        baseline: Each doc's contribution to the baseline's score; for several runs, from `average_runs`.
        candidate: The same for the candidate.
        labels: The subtask of each doc, if the metric is an average over subtasks.
        clusters: The cluster of each doc; None if docs are independent. Names are global: `mean_drop` treats clusters
            of the same name in two tasks as related.

    Both must come from the same grader: differences of rounding or graders would count as drops. IFEval's come from
    `mean_of_four_shares`.

    Raises:
        ValueError: No doc, or not the same number of both.
    """
    import numpy as np

    if len(baseline) != len(candidate):
        raise ValueError(f"{len(baseline)} and {len(candidate)} docs")
    baseline_values, values = np.asarray(baseline, dtype=float), np.asarray(candidate, dtype=float)
    drops = baseline_values - values
    drops[np.abs(drops) <= ROUNDING] = 0.0
    average = average_docs(drops, labels, clusters)
    losses = average.weights * drops
    lost = add_up(np.maximum(losses, 0.0))
    codes = np.arange(len(losses)) if clusters is None else number_names(clusters, len(losses))[0]
    net = np.bincount(codes, weights=losses).astype(np.float64)
    size = np.bincount(codes, weights=average.weights)
    is_whole = np.abs(net) >= (WHOLE_CHANGE - ROUNDING) * size
    small = np.where(is_whole[codes], 0.0, losses)
    squares, small_squares = float(net @ net), float(net[~is_whole] @ net[~is_whole])
    variance = average.variance if average.freedom else 0.0
    keys = average.keys
    return Drop(
        baseline=add_up(average.weights * baseline_values),
        candidate=add_up(average.weights * values),
        lost=lost,
        won=lost - average.value,
        variance=variance,
        freedom=average.freedom,
        grain=average.grain,
        flipped=_count_changed(net[is_whole], float(np.abs(losses).max())),
        docs=len(drops),
        clusters=average.clusters,
        paired=True,
        influence={} if keys is None else dict(zip(keys, average.influence.tolist(), strict=True)),
        small_lost=add_up(np.maximum(small, 0.0)),
        small_won=add_up(np.maximum(-small, 0.0)),
        small_variance=variance * small_squares / squares if squares else 0.0,
    )


def _count_changed(net: Floats, largest: float) -> float:
    """The effective number of clusters that changed: (sum of changes)^2 / (sum of their squares), Kish 1965, Survey
    Sampling, section 11.7.

    Where all change alike it is their number. A cluster that loses half counts for less beside one that is lost whole.

    Args:
        net: The net change of each cluster.
        largest: The largest change of a doc. What is smaller by rounding is no change.
    """
    import numpy as np

    changes = np.abs(net[np.abs(net) > ROUNDING * largest])
    return float(changes.sum() ** 2 / (changes @ changes)) if len(changes) else 0.0


def unpaired_drop(
    published: float,
    candidate: Sequence[float],
    labels: Sequence[Hashable] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> Drop:
    """Compute the drop from a published score without known verdicts, 0 to 1, to a run over the same docs.

    Both scores have the sampling noise of these docs. The correlation of their answers is unknown, so they count as
    independent: a share ``published (1 - candidate)`` of docs is lost and ``candidate (1 - published)`` is won. The
    variance is the sum of the variances of both scores. Real answers are correlated, so the interval is too wide, which
    is safe.

    Raises:
        ValueError: No doc, or the published score is not from 0 to 1.
    """
    if not 0 <= published <= 1:
        raise ValueError(f"{published} is no share")
    average = average_docs(candidate, labels, clusters)
    score = min(1.0, max(0.0, average.value))
    score_variance, other = score * (1 - score), published * (1 - published)
    noise = average.variance if average.freedom else 0.0
    variance_of_both = (
        noise * (1 + other / score_variance)
        if noise > 0 and score_variance > 0
        else average.grain * (score_variance + other)
    )
    lost, won = published * (1 - score), score * (1 - published)
    return Drop(
        baseline=published,
        candidate=average.value,
        lost=lost,
        won=won,
        variance=variance_of_both,
        freedom=average.freedom,
        grain=average.grain,
        flipped=average.clusters if lost + won > 0 else 0,
        docs=len(candidate),
        clusters=average.clusters,
        paired=False,
    )


def score_drop(baseline: float, candidate: float, variance: float, docs: int) -> Drop:
    """Compute the drop between two scores whose docs are unknown, as in results files.

    The scores count as independent, as in `unpaired_drop`.

    Args:
        baseline: The score of the baseline, 0 to 1.
        candidate: That of the candidate.
        variance: The sum of the variances of both scores.
        docs: The number of docs, the smaller of both.

    Raises:
        ValueError: A score is not from 0 to 1.
    """
    if not (0 <= baseline <= 1 and 0 <= candidate <= 1):
        raise ValueError(f"{baseline} or {candidate} is no share")
    lost, won = baseline * (1 - candidate), candidate * (1 - baseline)
    return Drop(
        baseline=baseline,
        candidate=candidate,
        lost=lost,
        won=won,
        variance=variance,
        freedom=docs - 1,
        grain=1 / docs,
        flipped=docs if lost + won > 0 else 0,
        docs=docs,
        clusters=docs,
        paired=False,
    )


def mean_drop(drops: Sequence[Drop], weights: Sequence[float] | None = None) -> Drop:
    """The mean drop over tasks, again a drop; weights add up to 1, and are the same for all when there are none.

    Variances are added with squared weights, and covariances too if two tasks have clusters of the same name (Bell and
    McCaffrey's variance of the sum). Otherwise tasks are independent. Degrees of freedom are Satterthwaite's (1946,
    Biometrics Bulletin 2:110). If others have flips, a task without flips counts as having half a flip each way
    (`Drop.seen_variance`), so it has a small part in the variance.

    Raises:
        ValueError: No drop, or not a weight for each.
    """
    if not drops:
        raise ValueError("there is no drop")
    task_weights = [1 / len(drops)] * len(drops) if weights is None else list(weights)
    if len(task_weights) != len(drops):
        raise ValueError(f"{len(task_weights)} weights for {len(drops)} drops")
    flips = any(drop.flipped for drop in drops)
    small_variance = math.fsum(w * w * drop.small_variance for w, drop in zip(task_weights, drops, strict=True))
    still = [w * drop.grain for w, drop in zip(task_weights, drops, strict=True) if flips and not drop.flipped]
    terms = [w * w * drop.seen_variance for w, drop in zip(task_weights, drops, strict=True)]
    influence: dict[Hashable, float] = {}
    squares = 0.0
    for w, drop in zip(task_weights, drops, strict=True):
        for key, value in drop.influence.items():
            influence[key] = influence.get(key, 0.0) + w * value
            squares += (w * value) ** 2
    # What clusters that several tasks share add to the sum of the variances, or take from it.
    shared = math.fsum(value * value for value in influence.values()) - squares
    total = math.fsum(terms)
    all_have_freedom = all(drop.freedom for w, drop in zip(task_weights, drops, strict=True) if w)
    spread = (
        math.fsum(term * term / drop.freedom for term, drop in zip(terms, drops, strict=True) if term)
        if all_have_freedom
        else 0.0
    )
    return Drop(
        baseline=math.fsum(w * _good(drop, drop.baseline) for w, drop in zip(task_weights, drops, strict=True)),
        candidate=math.fsum(w * _good(drop, drop.candidate) for w, drop in zip(task_weights, drops, strict=True)),
        lost=math.fsum(w * drop.lost for w, drop in zip(task_weights, drops, strict=True)) + math.fsum(still) / 2,
        won=math.fsum(w * drop.won for w, drop in zip(task_weights, drops, strict=True)) + math.fsum(still) / 2,
        variance=max(total / 2, total + shared) if flips else small_variance,
        freedom=(total * total / spread if spread > 0 else math.inf) if all_have_freedom else 0.0,
        grain=math.fsum(w * w * drop.grain for w, drop in zip(task_weights, drops, strict=True)),
        flipped=sum(drop.flipped for drop in drops),
        docs=sum(drop.docs for drop in drops),
        clusters=sum(drop.clusters for drop in drops),
        paired=all(drop.paired for drop in drops),
        influence=influence,
        run_variance=math.fsum(w * w * drop.run_variance for w, drop in zip(task_weights, drops, strict=True)),
        run_effect=next((drop.run_effect for drop in drops if drop.run_effect), None),
        small_lost=math.fsum(w * drop.small_lost for w, drop in zip(task_weights, drops, strict=True)),
        small_won=math.fsum(w * drop.small_won for w, drop in zip(task_weights, drops, strict=True)),
        small_variance=small_variance,
    )


def heterogeneity_p(drops: Sequence[Drop]) -> float | None:
    """The p value of the same drop in every task: Q of Cochran 1954, Biometrics 10:101. None for a single task."""
    from scipy.special import chdtrc

    measured = [drop for drop in drops if drop.freedom]
    if len(measured) < 2:
        return None
    precisions = [1 / drop.seen_variance for drop in measured]
    mean = math.fsum(w * drop.value for w, drop in zip(precisions, measured, strict=True)) / math.fsum(precisions)
    q = math.fsum(w * (drop.value - mean) ** 2 for w, drop in zip(precisions, measured, strict=True))
    return float(chdtrc(len(measured) - 1, q))


def average_runs(runs: Sequence[Sequence[float]]) -> Floats:
    """Average each doc over several runs of the same model and pack, for `paired_drop`.

    Raises:
        ValueError: No run, or runs of different numbers of docs.
    """
    if not runs:
        raise ValueError("there is no run")
    import numpy as np

    if len({len(run) for run in runs}) > 1:
        raise ValueError(f"{' and '.join(str(len(run)) for run in runs)} docs")
    averages: Floats = np.asarray(runs, dtype=float).mean(axis=0)
    return averages


def _good(drop: Drop, score: float) -> float:
    """A score where higher is better: the score, or its distance from 1 if lower is better."""
    return 1 - score if drop.lower_is_better else score


def _below(count: float, t: float) -> float:
    """How far below a Poisson count the score interval of its mean reaches."""
    return t * math.sqrt(max(0.0, count) + t * t / 4) - t * t / 2


def _above(count: float, t: float) -> float:
    return t * math.sqrt(max(0.0, count) + t * t / 4) + t * t / 2


def _ends(size: float, fewer: float, more: float, t: float) -> tuple[float, float]:
    """How far changes of this size reach below one count and above the other, in the unit of the score."""
    return size * _below(fewer, t), size * _above(more, t)


def _joined(*reaches: float) -> float:
    return math.sqrt(math.fsum([reach * reach for reach in reaches]))


def _rising(function: Callable[[float], float]) -> float:
    """The root of a rising function that is not positive at 0, by bisection to the last bits."""
    lower, upper = 0.0, 1.0
    while function(upper) < 0 and upper < 1e12:
        lower, upper = upper, 2 * upper
    for _ in range(200):
        middle = (lower + upper) / 2
        if middle in (lower, upper):
            break
        lower, upper = (middle, upper) if function(middle) < 0 else (lower, middle)
    return upper


def weigh_tasks(drops: Sequence[Drop], weighting: Weighting = "precision") -> list[float]:
    """Weights for `mean_drop`, adding up to 1.

    Args:
        drops: The drop of each task.
        weighting: ``precision`` as of `precision_weights`; ``equal`` for equal weights; ``docs`` for the number of
            docs, ignoring clusters.

    Raises:
        ValueError: There is no drop.
    """
    if weighting == "precision":
        return precision_weights(drops)
    if not drops:
        raise ValueError("there is no drop")
    counts = [drop.docs if weighting == "docs" else 1 for drop in drops]
    return [count / sum(counts) for count in counts]


def precision_weights(drops: Sequence[Drop]) -> list[float]:
    """Weights for `mean_drop`, adding up to 1: by the precision that is known before the results.

    A weight is the inverse variance of a drop if docs change equally in every task. That is the number of docs or
    clusters, over subtasks their effective number. For `unpaired_drop` it is the inverse of its own variance, relative
    to that of paired docs. The inverse of the observed variance would be biased: a loss raises a drop and its variance
    together, so a task that lost little by chance would get more weight, and the mean drop would be too small
    (benchmarks/README.md). So all comparisons over the same tasks have the same weights.

    Raises:
        ValueError: There is no drop.
    """
    if not drops:
        raise ValueError("there is no drop")
    measured = [drop for drop in drops if drop.freedom]
    paired = [drop for drop in measured if drop.paired]
    doc = math.fsum(drop.seen_variance for drop in paired) / math.fsum(drop.grain for drop in paired) if paired else 0.0
    precisions = [
        0.0 if not drop.freedom else 1 / (doc * drop.grain if drop.paired else drop.seen_variance) for drop in drops
    ]
    total = math.fsum(precisions)
    return [precision / total for precision in precisions] if total > 0 else [1 / len(drops)] * len(drops)
