"""nemo-evaluator's own verdicts on drawn pairs, for `peers.py`, which starts this file with a Python that has it.

    python3.12 -m venv NEL; NEL/bin/pip install "nemo-evaluator[stats]==0.3.0"
    NEL/bin/python benchmarks/peers_nel.py < PAIRS > VERDICTS

Each line of stdin is a pair of runs: ``{"allowed": 0.01, "tasks": [[name, baseline, candidate, clusters], …]}`` with a
number from 0 to 1 for each doc, and a category for each doc or null. Each line of stdout has the verdicts of
``nel gate`` and ``nel compare``. Intervals, tests, thresholds and verdicts are nemo-evaluator's own functions; only its
reading of files is left out. ``peers.py files`` compares the result with its two commands on files.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
from nemo_evaluator.cli.regression import _VERDICT_SEVERITY
from nemo_evaluator.config.gate_policy import BenchmarkGateDefaults
from nemo_evaluator.engine.comparison import FlipReport, FlipSummary, RegressionReport, _compute_verdict
from nemo_evaluator.engine.gate import BenchmarkGateResult, _aggregate_verdict, _apply_thresholds, _paired_delta_ci
from nemo_evaluator.metrics.paired_tests import mcnemar_test, permutation_test

SEED = 42
"""Of its permutations: the signs are the same for each pair of so many docs, so they are drawn once."""


class Signs:
    """Signs for each permutation and doc. Times the losses of the docs, only the mean of each permutation is taken."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.signs = np.random.Generator(np.random.PCG64(SEED)).choice([-1, 1], size=size).astype(np.float32)
        self.sums = np.zeros(size[0])

    def __mul__(self, losses: np.ndarray) -> Signs:
        self.sums = self.signs @ losses.astype(np.float32)
        return self

    def mean(self, axis: int) -> np.ndarray:
        return self.sums / self.signs.shape[axis]


draw_signs = cache(Signs)


class SameSigns:
    """A generator that draws the same signs again."""

    def __init__(self, seed: int) -> None:
        assert seed == SEED

    def choice(self, _: list[int], size: tuple[int, int]) -> Signs:
        return draw_signs(size)


def gate(tasks: list[Any], allowed: float) -> str:
    """The verdict of ``nel gate`` with ``max_drop`` for every benchmark."""
    results = []
    for name, baseline, candidate, clusters in tasks:
        deltas = np.subtract(candidate, baseline)
        policy = BenchmarkGateDefaults(max_drop=allowed, metric="mean_reward")
        result = BenchmarkGateResult(benchmark=name, tier=policy.tier.value, max_drop_threshold=allowed)
        result.baseline_score, result.delta = round(float(np.mean(baseline)), 6), round(float(np.mean(deltas)), 6)
        result.delta_ci_lower, result.delta_ci_upper = _paired_delta_ci(deltas, clusters=clusters)
        _apply_thresholds(result, policy, allow_point_estimate=False)
        results.append(result)
    return str(_aggregate_verdict(results)[0])


def compare(tasks: list[Any], allowed: float) -> str:
    """The worst verdict of ``nel compare --max-drop`` over the benchmarks."""
    worst = "PASS"
    for _, baseline, candidate, _clusters in tasks:
        before, after = np.array(baseline), np.array(candidate)
        lost, won = int(((before > 0) & (after <= 0)).sum()), int(((before <= 0) & (after > 0)).sum())
        summary = FlipSummary(n_paired=len(before), n_regressions=lost, n_improvements=won)
        report = RegressionReport(flip_report=FlipReport(summary=summary), threshold=allowed)
        if np.isin(before, (0.0, 1.0)).all() and np.isin(after, (0.0, 1.0)).all():
            report.test_used = "mcnemar"
            counts = {"baseline_only_correct": lost, "candidate_only_correct": won}
            report.mcnemar = mcnemar_test(counts, len(before))
        else:
            report.test_used = "permutation"
            with patch.object(np.random, "default_rng", SameSigns):
                report.permutation_result = permutation_test((before - after).tolist())
        verdict = _compute_verdict(report, allowed)[0]
        worst = max(worst, verdict, key=_VERDICT_SEVERITY.__getitem__)
    return worst


def main() -> int:
    for line in sys.stdin:
        pair = json.loads(line)
        verdicts = {"nel gate": gate(pair["tasks"], pair["allowed"]), "nel compare": compare(**pair)}
        print(json.dumps(verdicts), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
