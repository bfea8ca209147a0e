"""How often the interval of a judge's noise holds the true rate, and whether unlimited gradings are worth what it says.

    python benchmarks/judge_noise.py              # 1,000 draws a cell; some minutes
    python benchmarks/judge_noise.py --small      # 60: CI, which fails where a rate cannot be as promised

A answers 70 % of the docs right. Of the docs whose answers differ, B's is otherwise right or wrong in 30 %. A judge
flips a share of all verdicts, either way, so two gradings of an answer differ in 2 p (1 - p). The half-width with
unlimited gradings is compared with that of the drop of the expected verdicts, which they have as their means.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product

import numpy as np

from meta_eval import stats
from meta_eval.harness.doc_results import DocResult, FilterResult
from meta_eval.harness.lm_eval_run import Run, TaskRun
from meta_eval.harness.provenance import GraderFacts, Provenance
from meta_eval.plugins.judge_noise.evidence import JudgeNoiseEvidence
from meta_eval.sockets import EvidenceCase

RIGHT, CHANGED = 0.7, 0.3
COVERED = 0.93  # of draws, at least
WITHIN = 0.1  # of the half-width without noise
ENOUGH = 4.0  # standard errors of a rate that CI allows
JUDGE = GraderFacts(metrics={"acc": '{"grader": "inspect_ai model_graded_qa", "metric": "acc"}'})


def make_docs(docs: int, answers: str) -> list[DocResult]:
    """Docs without verdicts."""
    return [
        DocResult(
            doc_id=number, question_hash=str(number), prompt_hashes=("p",), prompt_matches=None, subtask=None,
            cluster=None, gold="", n_choices=None, recorded_is_correct=None, recorded_metrics=None, answer_tail="",
            answer_empty=False, limit_hit=False, filter_results={"none": FilterResult(None, {}, 0, 0)},
            answer_hash=f"{answers}{number}",
        )
        for number in range(docs)
    ]  # fmt: skip


def make_run(docs: list[DocResult], verdicts: np.ndarray, side: str) -> Run:
    """A run of these docs, which get these verdicts."""
    for doc, verdict in zip(docs, verdicts.tolist(), strict=True):
        doc.filter_results["none"].metrics["acc"] = float(verdict)
    provenance = Provenance(model=side, harness="inspect_ai", grader=JUDGE)
    return Run({"task": TaskRun("task", time=side, docs=tuple(docs), provenance=provenance)})


def measure(docs: int, equal: float, flips: float, draws: int) -> tuple[float, float, float, float]:
    """The share of draws whose interval holds the true rate, and mean half-widths: now, with unlimited gradings, and of
    the expected verdicts."""
    rng = np.random.default_rng([docs, round(100 * equal), round(100 * flips)])
    same = round(equal * docs)
    before, after = make_docs(docs, "a"), [*make_docs(docs, "a")[:same], *make_docs(docs, "b")[same:]]
    evidence, covered, widths, rate = JudgeNoiseEvidence(), 0, [], 2 * flips * (1 - flips)
    for _ in range(draws):
        truth = rng.random(docs) < RIGHT
        other = truth ^ ((np.arange(docs) >= same) & (rng.random(docs) < CHANGED))
        runs = [
            make_run(of_side, verdicts ^ (rng.random(docs) < flips), side)
            for of_side, verdicts, side in ((before, truth, "A"), (after, other, "B"))
        ]
        found = evidence.find(EvidenceCase(runs[1], runs[0])).json["tasks"]["task"]
        covered += found["interval"]["lower"] <= rate <= found["interval"]["upper"]
        expected = [flips + (1 - 2 * flips) * verdicts for verdicts in (truth, other)]
        ends = stats.paired_drop(expected[0], expected[1]).interval()
        halves = found["drop"]["half_widths"]
        widths.append((halves["1"], halves["unlimited"], (ends.upper - ends.lower) / 2))
    now, unlimited, exact = np.mean(widths, axis=0).tolist()
    return covered / draws, now, unlimited, exact


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="60 draws a cell: CI")
    draws = 60 if parser.parse_args().small else 1000
    print("| docs | equal, % | flips, % | rate in the interval, % | half-width | unlimited | without noise | ratio |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    bad = []
    allowed = COVERED - ENOUGH * (COVERED * (1 - COVERED) / draws) ** 0.5 if draws < 1000 else COVERED
    for docs, equal, flips in product((200, 1000), (0.1, 0.5, 0.96), (0.0, 0.02, 0.05, 0.1)):
        share, *halves = measure(docs, equal, flips, draws)
        ratio = halves[1] / halves[2]
        name = f"{docs:,} | {100 * equal:.0f} | {100 * flips:.0f}"
        cells = " | ".join(f"{100 * half:.2f}" for half in halves)
        print(f"| {name} | {100 * share:.1f} | {cells} | {ratio:.3f} |", flush=True)
        if share < allowed or abs(ratio - 1) > WITHIN:
            bad.append(f"{name}: {share:.3f} {ratio:.3f}")
    if bad:
        sys.exit("\n".join(bad))


if __name__ == "__main__":
    main()
