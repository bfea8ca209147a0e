"""The run as a random effect: what all docs of a run share, such as its server's state, and no choice of docs tells.

Several runs of one model differ by the flips of single docs, and by what moves all docs of a run together. The variance
of their means B has both, with the runs less one as its degrees of freedom, pooled over the sides of a comparison. What
independent flips explain of it is W (`stats.run_noise`). The variance V of a drop has it already: c W, with

    c = 1 / runs of A + 1 / runs of B

So the error of a drop has two independent parts. The choice of docs has the variance V - c W, known by many docs. The
runs have c B, known by few runs. Each has its own Student's interval, with the quantile t of the docs and u of the
runs. The MOVER joins them (Zou and Donner 2008, Statistics in Medicine 27:1693):

    reach^2 = t^2 (V - c W) + u^2 c B = reach of the docs^2 + c (u^2 B - t^2 W)

If the choice of docs adds no doubt, this is Student's interval of the difference of two means of runs, exact for
normal scores. The second term counts as 0 where it is negative, so runs that are alike by chance never narrow an
interval. Nothing in it is chosen by simulation. One run a side tells nothing of the effect.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from meta_eval.stats.clustered_mean import average_docs


@dataclass(frozen=True, slots=True)
class RunSpread:
    """How the runs of a comparison differ."""

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    """The score of each run, the newest first."""

    noise: float
    """The variance of one run's score that independent flips explain, pooled over both sides."""

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the variance between runs; 0 where no side has two."""
        return len(self.baseline) + len(self.candidate) - 2

    def widen(self, docs_quantile: float, runs_quantile: float) -> float:
        """The square that the runs add to the square of an interval's reach.

        Args:
            docs_quantile: Student's quantile of the drop's own variance.
            runs_quantile: The quantile of the same level with the degrees of freedom of the runs.
        """
        between = math.fsum(_squares(scores) for scores in (self.baseline, self.candidate)) / self.freedom
        if not between:
            return 0.0
        excess = runs_quantile**2 * between - docs_quantile**2 * self.noise
        return (1 / len(self.baseline) + 1 / len(self.candidate)) * max(0.0, excess)


def run_noise(runs: Sequence[Sequence[float]], labels: Sequence[Hashable] | None = None) -> float:
    """The variance of a run's score from its engine, by two or more runs of the same model over the same docs.

    It is the variance of each doc over its runs, with the score's weights: for an A/A pair half the squared differences
    (the pooled within-doc variance of a one-way analysis of variance). Averaging r runs divides it by r.

    Raises:
        ValueError: Not two runs, or runs of different numbers of docs.
    """
    import numpy as np

    if len(runs) < 2:
        raise ValueError("an engine's noise takes two runs")
    if len({len(run) for run in runs}) > 1:
        raise ValueError(f"{' and '.join(str(len(run)) for run in runs)} docs")
    spread = np.var(np.asarray(runs, dtype=float), axis=0, ddof=1)
    return math.fsum(average_docs(spread, labels).weights ** 2 * spread)


def measure_runs(
    baseline: Sequence[Sequence[float]],
    candidate: Sequence[Sequence[float]],
    labels: Sequence[Hashable] | None = None,
) -> RunSpread | None:
    """How the runs of both sides differ; None where each side has one run.

    Args:
        baseline, candidate: Of each run what each doc contributes to its score, the same docs in all. A side without
            runs of its own, such as a published score, has none.
        labels: The subtask of each doc, where the metric is an average over subtasks.
    """
    sides = [[list(run) for run in side] for side in (baseline, candidate)]
    noises = [(len(side) - 1, run_noise(side, labels)) for side in sides if len(side) > 1]
    if not noises:
        return None
    scores = [tuple(average_docs(run, labels).value for run in side) or (0.0,) for side in sides]
    pooled = math.fsum(freedom * noise for freedom, noise in noises) / sum(freedom for freedom, _ in noises)
    return RunSpread(scores[0], scores[1], pooled)


def mean_spread(spreads: Sequence[RunSpread | None], weights: Sequence[float]) -> RunSpread | None:
    """The spread of a mean over tasks, by the runs that all of them have, the newest first.

    A task with more runs than another counts with its newest. None if a task has one run a side.

    Args:
        spreads: Of each task; None for a task without repeats.
        weights: Of each task. A task of weight 0 does not count.
    """
    weighted = [(spread, weight) for spread, weight in zip(spreads, weights, strict=True) if weight]
    parts = [(spread, weight) for spread, weight in weighted if spread is not None]
    if not parts or len(parts) < len(weighted):
        return None
    of_baseline = min(len(spread.baseline) for spread, _ in parts)
    of_candidate = min(len(spread.candidate) for spread, _ in parts)
    if of_baseline + of_candidate == 2:
        return None

    def mean(scores: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
        return tuple(
            math.fsum(weight * score for (_, weight), score in zip(parts, of_run, strict=True))
            for of_run in zip(*scores, strict=True)
        )

    return RunSpread(
        mean([spread.baseline[:of_baseline] for spread, _ in parts]),
        mean([spread.candidate[:of_candidate] for spread, _ in parts]),
        math.fsum(weight**2 * spread.noise for spread, weight in parts),
    )


def _squares(scores: Sequence[float]) -> float:
    centre = math.fsum(scores) / len(scores)
    return math.fsum((score - centre) ** 2 for score in scores)
