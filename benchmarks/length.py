"""How often ``length: {at_most: 10}`` in gate.yaml decides, and how often wrongly.

    python benchmarks/length.py              # 1,000 draws a cell; a minute
    python benchmarks/length.py --small      # 100: CI, which fails where a rate cannot be as promised

Tokens of a doc are lognormal (median 200, a spread of 0.6 or 1.0 in nats), those of its second answer the same times
lognormal noise (0.1: nearly the same answers, 0.5: sampled ones), with a mean of 1 times the growth of the candidate.
Answers are cut at 1,024 tokens, or never; docs come alone or in clusters of ten, which share half of their spread; and
one answer in a hundred, of whichever side, repeats itself up to a limit of 8,192.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from itertools import product

import numpy as np

from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.lm_eval_run import Run, TaskRun
from meta_eval.harness.provenance import Provenance
from meta_eval.plugins.length.evidence import LONGER, LengthEvidence, LengthRules
from meta_eval.sockets import EvidenceCase

MEDIAN, LIMIT, AT_MOST = 200.0, 1024, 10.0
LOOPS, LOOPED = 0.01, 8192
PROMISED = 0.05  # the most wrong decisions of either kind, at the limit
ENOUGH = 4.0  # standard errors of a rate that CI allows


def make_run(tokens: np.ndarray, clusters: np.ndarray | None, limit: int | None) -> Run:
    """A run whose docs have answers of so many tokens."""
    docs = [
        DocResult(
            doc_id=number, question_hash=str(number), prompt_hashes=(), prompt_matches=None, subtask=None,
            cluster=None if clusters is None else str(clusters[number]), gold="", n_choices=None,
            recorded_is_correct=None, recorded_metrics=None, answer_tail="", answer_empty=False,
            limit_hit=bool(limit and count >= limit), filter_results={},
            figures={"answer_tokens": float(min(count, limit) if limit else count)},
        )
        for number, count in enumerate(tokens)
    ]  # fmt: skip
    provenance = Provenance(decoding={"max_gen_toks": limit} if limit else {})
    return Run({"task": TaskRun("task", docs=tuple(docs), provenance=provenance)})


def draw(
    rng: np.random.Generator,
    docs: int,
    growth: float,
    spread: float,
    noise: float,
    *,
    limit: int | None,
    clustered: bool,
) -> tuple[Run, Run]:
    """A baseline, and a candidate whose answers grew by this share."""
    clusters = np.arange(docs) // 10 if clustered else None
    base = rng.normal(0, spread, docs)
    if clusters is not None:
        base = (base + rng.normal(0, spread, docs)[clusters]) / np.sqrt(2)
    sides = []
    for factor in (1.0, 1 + growth / 100):
        own = rng.normal(0, noise, docs)
        if clusters is not None:
            own = (own + rng.normal(0, noise, docs)[clusters]) / np.sqrt(2)
        tokens = np.maximum(1, np.round(MEDIAN * factor * np.exp(base + own - noise**2 / 2)))
        if limit == LOOPED:
            tokens = np.where(rng.random(docs) < LOOPS, LOOPED, tokens)
        sides.append(make_run(tokens, clusters, limit))
    return sides[0], sides[1]


def decide(baseline: Run, candidate: Run) -> str:
    """What the rule says: a DON'T SHIP, nothing against SHIP, or neither."""
    case = EvidenceCase(candidate, baseline, rules=LengthRules(at_most=AT_MOST))
    kinds = {kind for kind, _ in LengthEvidence().find(case).alarms}
    return "DON'T SHIP" if LONGER.name in kinds else "undecided" if kinds else "within"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="100 draws a cell: CI")
    draws = 100 if parser.parse_args().small else 1000
    print("| docs | spread | noise | cut at | clusters | growth | within | undecided | DON'T SHIP |")
    print("|--:|--:|--:|--:|---|--:|--:|--:|--:|", flush=True)
    bad = []
    shapes = [(0.6, 0.1, None, False), (0.6, 0.5, None, False), (1.0, 0.5, None, False), (0.6, 0.5, None, True),
              (0.6, 0.5, LIMIT, False), (0.6, 0.1, LOOPED, False)]  # fmt: skip
    for docs, (spread, noise, limit, clustered) in product((100, 400), shapes):
        for growth in (0, 10, 20, 100):
            rng = np.random.default_rng([docs, round(10 * spread), round(10 * noise), limit or 0, clustered, growth])
            counts = Counter(
                decide(*draw(rng, docs, growth, spread, noise, limit=limit, clustered=clustered)) for _ in range(draws)
            )
            shares = {name: counts[name] / draws for name in ("within", "undecided", "DON'T SHIP")}
            cells = " | ".join(f"{100 * share:.1f}" for share in shares.values())
            name = f"{docs} | {spread} | {noise} | {limit or '-'} | {'of ten' if clustered else '-'} | {growth}"
            print(f"| {name} | {cells} |", flush=True)
            allowed = PROMISED + ENOUGH * (PROMISED * (1 - PROMISED) / draws) ** 0.5
            wrong = {0: ("DON'T SHIP",), 10: () if limit else ("within", "DON'T SHIP")}.get(growth, ("within",))
            bad += [f"{name}: {kind} {shares[kind]}" for kind in wrong if shares[kind] > allowed]
    if bad:
        sys.exit("\n".join(bad))


if __name__ == "__main__":
    main()
