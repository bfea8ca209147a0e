"""How often an audit calls an endpoint the same or different, and how many answers it needs.

    python benchmarks/audit.py [--small]

``audit_docs.csv`` has a row per provider and doc: answers of SmolLM2-135M-Instruct (48 tokens at most) on llama.cpp,
and of its copies, to 72 questions of our own. Their regret was measured under transformers in float32. Each draw takes
docs with replacement and judges them as `meta-eval audit` does, beside the noise of BF16, or of F32 for BF16 itself. A
mixture takes each answer from Q4_0 with this chance. The file has no likeliest tokens, so no temperature is fitted.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from meta_eval.token_fidelity.answer_audit import judge_answers
from meta_eval.token_fidelity.answer_scores import Decoding, ScoredDoc
from meta_eval.token_fidelity.audit_causes import PromptCount, find_causes

DOCS = Path(__file__).parent / "audit_docs.csv"
DRAWS, SIZES = 1000, (25, 50, 100)
IDENTICAL = ("F32", "BF16")
COARSE = ("Q4_0", "system", "temperature_0.7", "mixture_0.3")
MIXTURES = {"mixture_0.1": 0.1, "mixture_0.3": 0.3}


def read_docs() -> tuple[dict[str, list[ScoredDoc]], dict[str, int]]:
    """By provider: its answers, and how many more prompt tokens it counts."""
    docs: dict[str, list[ScoredDoc]] = defaultdict(list)
    more = {}
    with DOCS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            opening, later = int(row["opening_tokens"]), int(row["later_tokens"])
            scores = np.repeat([float(row["opening"]), float(row["later"])], [opening, later])
            openings = np.arange(opening + later) < opening
            doc = ScoredDoc("chat", int(row["doc"]), row["doc"], Decoding(), scores, openings, scores > 0, None)
            docs[row["provider"]].append(doc)
            more[row["provider"]] = int(row["more"])
    return docs, more


def judge(provider: str, noise: str, size: int, draws: int) -> tuple[Counter[str], Counter[str]]:
    """The outcomes and the causes of draws."""
    docs, more = read_docs()
    rng = np.random.default_rng(7)
    outcomes: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    for _ in range(draws):
        numbers = rng.integers(len(docs["F32"]), size=size).tolist()
        elsewhere = rng.random(size) < MIXTURES.get(provider, 0.0)
        own = docs["F32" if provider in MIXTURES else provider]
        places = enumerate(zip(numbers, elsewhere, strict=True))
        drawn = [rename((docs["Q4_0"] if is_elsewhere else own)[at], n) for n, (at, is_elsewhere) in places]
        verdicts = judge_answers(drawn, [rename(docs[noise][at], n) for n, at in enumerate(numbers)])
        outcomes[verdicts[0].outcome] += 1
        prompts = PromptCount(size, more.get(provider, 0), 1.0)
        causes.update(cause.key for cause in find_causes(verdicts, drawn, prompts, 0))
    return outcomes, causes


def rename(doc: ScoredDoc, number: int) -> ScoredDoc:
    """A doc that is drawn twice is two docs."""
    return ScoredDoc(
        doc.task, number, str(number), doc.decoding, doc.scores, doc.openings, doc.unlikely, doc.likelihoods
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    draws, sizes = (20, (50,)) if chosen.small else (DRAWS, SIZES)
    docs, _ = read_docs()
    print(f"{draws:,} draws; percent of draws\n")
    print("| answers of | regret, nats | noise | answers | same | undecided | different | cause, where one is named |")
    print("|---|--:|---|--:|--:|--:|--:|---|")
    for provider in (*docs, *MIXTURES):
        noise = "F32" if provider == "BF16" else "BF16"
        regret = f"{np.mean([doc.mean for doc in docs[provider]]):.4f}" if provider in docs else ""
        for size in sizes:
            outcomes, causes = judge(provider, noise, size, draws)
            shares = " | ".join(f"{100 * outcomes[name] / draws:.1f}" for name in ("same", "undecided", "different"))
            named = ", ".join(f"{key} {100 * count / draws:.0f}" for key, count in causes.most_common())
            print(f"| {provider} | {regret} | {noise} | {size} | {shares} | {named} |")
            if provider in IDENTICAL and outcomes["different"] > 0.01 * draws:
                raise SystemExit(f"{provider}: identical weights are called different")
            if provider in COARSE and size >= 50 and outcomes["different"] < 0.8 * draws:
                raise SystemExit(f"{provider}: not told")


if __name__ == "__main__":
    main()
