"""The run as a random effect: what all docs of a run share, such as its server's state, and no choice of docs tells.

Several runs of one model differ by the flips of single docs, and by what moves all docs of a run together. Let S be the
sum of squares of the scores of a task's runs around the mean of their side, with the runs less the sides as its degrees
of freedom f. Independent flips explain a variance W of one run's score (`stats.run_noise`), so S / W has about a
chi-square distribution with f degrees of freedom if flips are all that differs. One task has few runs, so the effect is
**one ratio** for all tasks of a comparison:

    R = sum of S / W over tasks / sum of f over tasks

It is a ratio of variances as in a one-way analysis of variance with random effects (among others Scheffé 1959, The
Analysis of Variance, section 7.2), pooled as in a test of overdispersion (McCullagh and Nelder 1989, Generalized
Linear Models, section 4.5). The effect is **seen** if so large a sum has a chance below 5 % without it. Otherwise runs
are averaged, and nothing is added: a variance that few runs estimate would only widen every interval.

The variance V of a drop has the flips already: c W, with c = 1 / runs of A + 1 / runs of B. If the effect is seen, the
error of a drop has two independent parts. The choice of docs has the variance V - c W, known by many docs. The runs
have R c W, known by the sum of f degrees of freedom. Each has its own Student's interval, with the quantile t of the
docs and u of the runs. The MOVER joins them (Zou and Donner 2008, Statistics in Medicine 27:1693):

    reach^2 = t^2 (V - c W) + u^2 R c W = reach of the docs^2 + c W (u^2 R - t^2)

The second term counts as 0 where it is negative. One run a side tells nothing of the effect.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from meta_eval.base.thresholds import ALPHA, ROUNDING
from meta_eval.stats.clustered_mean import add_up, average_docs, number_names


@dataclass(frozen=True, slots=True)
class RunSpread:
    """How the runs of a task differ."""

    squares: float
    """The sum of squares of the scores of runs around the mean of their side."""

    freedom: int
    """Its degrees of freedom: of each side the runs less 1."""

    noise: float
    """The variance of one run's score that independent flips explain, pooled over both sides."""

    of_drop: float
    """The part of a drop's variance that these flips explain: ``noise`` (1 / runs of A + 1 / runs of B)."""

    flips: float
    """The losses and gains between two runs of a side together, as a share of the score."""


@dataclass(frozen=True, slots=True)
class RunEffect:
    """What differs between runs beyond single flips, over all tasks."""

    ratio: float
    """The variance between runs over the variance that flips explain: about 1 without an effect."""

    freedom: int
    """Its degrees of freedom."""

    @property
    def is_seen(self) -> bool:
        """Whether so large a ratio is unlikely without an effect (chi-square test at `ALPHA`)."""
        from scipy.special import chdtrc

        return float(chdtrc(self.freedom, self.ratio * self.freedom)) < ALPHA

    def widen(self, docs_quantile: float, runs_quantile: float) -> float:
        """The square that the effect adds to the square of an interval's reach, for each part of the variance that
        flips explain.

        Args:
            docs_quantile: Student's quantile of the drop's own variance.
            runs_quantile: The quantile of the same level with the degrees of freedom of the effect.
        """
        return max(0.0, runs_quantile**2 * self.ratio - docs_quantile**2)


def run_noise(
    runs: Sequence[Sequence[float]],
    labels: Sequence[Hashable] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> float:
    """The variance of a run's score from its engine, by two or more runs of the same model over the same docs.

    It is the variance of each doc over its runs, with the score's weights: for an A/A pair half the squared differences
    (the pooled within-doc variance of a one-way analysis of variance). Docs of a cluster may flip together, so their
    changes are summed first. Averaging r runs divides it by r.

    Args:
        runs: Of each run what each doc contributes to its score.
        labels: The subtask of each doc, where the metric is an average over subtasks.
        clusters: The cluster of each doc; None if docs are independent.

    Raises:
        ValueError: Not two runs, or runs of different numbers of docs.
    """
    return _spread(runs, labels, clusters)[1] / (len(runs) - 1)


def measure_runs(
    baseline: Sequence[Sequence[float]],
    candidate: Sequence[Sequence[float]],
    labels: Sequence[Hashable] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> RunSpread | None:
    """How the runs of both sides differ; None where each side has one run.

    Args:
        baseline, candidate: Of each run, the newest first, what each doc contributes to its score, the same docs in
            all. A side without runs of its own, such as a published score, has none.
        labels, clusters: As in `run_noise`.
    """
    repeated = [side for side in (baseline, candidate) if len(side) > 1]
    if not repeated:
        return None
    freedom = sum(len(side) - 1 for side in repeated)
    spreads = [_spread(side, labels, clusters) for side in repeated]
    squares, noise, flips = (math.fsum(parts) for parts in zip(*spreads, strict=True))
    inverse_runs = math.fsum(1 / len(side) for side in (baseline, candidate) if side)
    return RunSpread(squares, freedom, noise / freedom, noise / freedom * inverse_runs, flips / freedom)


def _spread(
    runs: Sequence[Sequence[float]], labels: Sequence[Hashable] | None, clusters: Sequence[Hashable] | None
) -> tuple[float, float, float]:
    """Sums of squares around the mean of the runs, of scores and of clusters, and the losses and gains between the
    newest run and each other."""
    import numpy as np

    if len(runs) < 2:
        raise ValueError("an engine's noise takes two runs")
    if len({len(run) for run in runs}) > 1:
        raise ValueError(f"{' and '.join(str(len(run)) for run in runs)} docs")
    values = np.asarray(runs, dtype=float)
    weights = average_docs(values[0], labels).weights
    changes = values - values.mean(axis=0)
    changes[np.abs(changes) <= ROUNDING] = 0.0
    changes *= weights
    flips = float((np.abs(values[1:] - values[0]) @ weights).sum())
    if clusters is not None:
        codes = number_names(clusters, len(weights))[0]
        changes = np.array([np.bincount(codes, weights=run) for run in changes])
    scores = [add_up(run) for run in changes]
    return math.fsum(score**2 for score in scores), add_up((changes**2).ravel()), flips


def measure_run_effect(spreads: Iterable[RunSpread | None]) -> RunEffect | None:
    """The effect of the run over all tasks; None where no task has two runs of a side.

    Args:
        spreads: Of each task; None for a task without repeats. A task whose runs have the same verdicts tells nothing.
    """
    repeated = [spread for spread in spreads if spread is not None]
    known = [spread for spread in repeated if spread.noise > 0]
    freedom = sum(spread.freedom for spread in known)
    ratio = math.fsum(spread.squares / spread.noise for spread in known) / freedom if freedom else 1.0
    return RunEffect(ratio, freedom) if repeated else None
