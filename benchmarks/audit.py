"""How often an audit calls an endpoint the same or different, and how many answers it needs.

    python benchmarks/audit.py [--small]

``audit_docs.parquet`` has a row per provider and doc: answers of SmolLM2-135M-Instruct to 160 questions, at most 48
tokens each, from providers with a single fault (``tools/audit_answers.py`` made it). Their scores were measured under
transformers in float32. Each draw takes docs with replacement and judges them as `meta-eval audit` does, beside the
answers of another engine with the same weights. A mixture takes each answer from another provider with some chance.
Cut answers are those of F32, which report at most 32 tokens and the end ``stop``. The last table says which cause fits
best, by the truth, of answers to 40 of the questions (``tests/data/real_model/audit_fits.json``).
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from meta_eval.plugins.tokens.answer_audit import judge_answers
from meta_eval.plugins.tokens.answer_scores import Decoding, ScoredDoc
from meta_eval.plugins.tokens.audit_causes import count_prompts, find_causes
from meta_eval.plugins.tokens.audit_fits import is_better, rank_fits
from meta_eval.plugins.tokens.endpoint_answers import AnswerFacts, count_cut

DOCS = Path(__file__).parent / "audit_docs.parquet"
FITS = Path(__file__).parents[1] / "tests" / "data" / "real_model" / "audit_fits.json"
LIMIT, CUT = 48, 32  # tokens
SIZES = (25, 50, 100, 200, 400)
POWER = 0.9
# Providers with the weights of the trusted copy, and the noise that each has beside it.
IDENTICAL = {
    "greedy_F32": "greedy_vllm", "greedy_vllm": "greedy_F32", "greedy_BF16": "greedy_vllm",
    "greedy_vllm_bf16": "greedy_F32", "t1_F32": "t1_vllm", "t1_vllm": "t1_again", "t1_again": "t1_F32",
    "t1_vllm_bf16": "t1_F32", "t07_F32": "t07_vllm", "t07_again": "t07_F32", "p09_again": "p09_vllm",
}  # fmt: skip
NOISE = {"greedy": "greedy_vllm", "t1": "t1_vllm", "t07": "t07_vllm", "p09": "p09_vllm"}
MIXTURES = {
    f"greedy_{kind}_{round(100 * share)}%": (f"greedy_{kind}", share)
    for kind in ("Q4_0", "system") for share in (0.1, 0.3)
}  # fmt: skip
# The causes that are right, where any is.
CAUSES = {
    "greedy_Q4_0": {"sampling_or_weights", "weights"}, "greedy_Q5_0": {"weights", "sampling_or_weights"},
    "greedy_context": {"context"}, "greedy_system": {"prompt"}, "greedy_long_system": {"prompt"},
    "greedy_template": {"prompt"}, "greedy_t07": {"sampling_or_weights"}, "greedy_t1": {"sampling_or_weights"},
    "greedy_edited_word": {"edited"}, "greedy_edited_sentence": {"edited"}, "greedy_cut": {"cut"},
    **{name: {"mixture", "prompt"} for name in MIXTURES},
    "t1_Q4_0": {"weights", "temperature"}, "t1_Q5_0": {"weights"}, "t1_Q8_0": {"weights"}, "t1_context": {"context"},
    "t1_system": {"prompt"}, "t1_long_system": {"prompt"}, "t1_template": {"prompt"}, "t1_t07": {"temperature"},
    "t1_p09": {"temperature", "weights"}, "t07_t1": {"temperature"}, "p09_t1": {"top_p", "temperature"},
}  # fmt: skip

# Of answers whose fits are known: the provider, the share of the answers that come from it and not from greedy_F32, and
# the causes that may stand first alone.
TRUTHS = {
    "greedy_t07": (1.0, {"sampling"}), "greedy_Q4_0": (1.0, {"weights"}), "greedy_rope": (1.0, {"weights"}),
    "t1_F32": (1.0, {"temperature"}), "t1_k20": (1.0, {"top_k"}), "t1_minp": (1.0, {"min_p"}),
    **{f"greedy_{kind} for {round(100 * share)}%": (share, {"mixture"})
       for kind in ("Q4_0", "t07", "rope") for share in (0.1, 0.2, 0.3)},
}  # fmt: skip
FIT_SIZES = (40, 100, 200)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: its scores, and what the provider says of it."""

    doc: ScoredDoc
    more: int
    tokens: int


def read_answers() -> dict[str, dict[int, Answer]]:
    """By provider and doc. A score is the mean of its part of the answer."""
    answers: dict[str, dict[int, Answer]] = {}
    for row in pq.read_table(DOCS).to_pylist():
        opening, later = row["opening_tokens"], row["later_tokens"]
        n = opening + later
        scores = np.repeat([row["opening"] / max(opening, 1), row["later"] / max(later, 1)], [opening, later])
        decoding = Decoding(row["temperature"], row["top_p"])
        at, surprises = np.arange(n), None if decoding.is_greedy else np.zeros(n)
        doc = ScoredDoc(
            "chat", row["doc"], str(row["doc"]), decoding, scores, at < opening, at < row["unlikely"],
            at < row["foreign"], surprises, np.array(row["likelihoods"]) / 100,
        )  # fmt: skip
        answers.setdefault(row["provider"], {})[row["doc"]] = Answer(doc, row["more"], row["completion_tokens"])
    return answers


def judge(answers: Mapping[int, Answer], noise: Mapping[int, Answer], docs: Sequence[int]) -> tuple[str, str]:
    """The outcome and the first cause of a draw of docs. A doc that is drawn twice is two docs."""
    drawn = [answers[doc] for doc in docs if doc in answers]
    scored = [replace(answer.doc, doc=at, request_sha256=str(at)) for at, answer in enumerate(drawn)]
    own = [replace(noise[doc].doc, doc=at, request_sha256=str(at)) for at, doc in enumerate(docs) if doc in noise]
    verdicts = judge_answers(scored, own)
    facts = [AnswerFacts(0.0, 1.0, LIMIT, 1 + answer.more, answer.tokens, "stop") for answer in drawn]
    cut = count_cut(facts) if any(answer.tokens == CUT for answer in drawn) else 0
    causes = find_causes(verdicts, scored, count_prompts([answer.more for answer in drawn]), cut)
    return verdicts[0].outcome, causes[0].key if causes else ""


def make_cases(answers: dict[str, dict[int, Answer]]) -> dict[str, dict[int, Answer]]:
    """The providers with a fault."""
    cut = {doc: replace(answer, tokens=min(CUT, answer.tokens)) for doc, answer in answers["greedy_F32"].items()}
    faults = {name: own for name, own in answers.items() if name not in IDENTICAL and name not in NOISE.values()}
    return {**faults, "greedy_cut": cut, **dict.fromkeys(MIXTURES, answers["greedy_F32"])}


def draw(
    name: str, answers: Mapping[str, Mapping[int, Answer]], own: Mapping[int, Answer], noise: str, size: int, draws: int
) -> tuple[Counter[str], Counter[str]]:
    """The outcomes and the causes of draws."""
    rng = np.random.default_rng(7)
    numbers = sorted(answers["greedy_F32"])
    outcomes: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    for _ in range(draws):
        docs, mixed = rng.choice(numbers, size=size).tolist(), own
        if name in MIXTURES:
            other, share = MIXTURES[name]
            elsewhere = set(np.flatnonzero(rng.random(max(numbers) + 1) < share).tolist())
            mixed = {doc: (answers[other] if doc in elsewhere else own)[doc] for doc in numbers}
        outcome, cause = judge(mixed, answers[noise], docs)
        outcomes[outcome] += 1
        causes[cause] += 1
    return outcomes, causes


def draw_first(rows: Mapping[str, Sequence[Sequence[float]]], name: str, size: int, draws: int) -> Counter[str]:
    """How often each cause fits better than all others, and by "" how often none does."""
    rng = np.random.default_rng(11)
    share, _ = TRUTHS[name]
    own, others = (np.array(rows[of]) for of in ("greedy_F32", name.partition(" ")[0]))
    is_greedy, firsts = name.startswith("greedy"), Counter[str]()
    for _ in range(draws):
        docs, elsewhere = rng.integers(len(own), size=size), rng.random(size) < share
        table = others[docs] if share == 1 else np.where(elsewhere[:, None], others[docs], own[docs])
        first, *rest = rank_fits(list(table[:, 2:]), table[:, 0], is_greedy=is_greedy)
        firsts[first.cause if all(is_better(first, other, table[:, 0]) for other in rest) else ""] += 1
    return firsts


def print_firsts(draws: int, sizes: Sequence[int]) -> None:
    """Print which cause stands first, by the truth.

    Raises:
        SystemExit: A wrong cause stands first in more than 5 % of the draws.
    """
    rows = json.loads(FITS.read_text("utf-8"))
    print(f"\nThe cause that fits better than all others, {draws:,} draws: percent of draws; a dash where none does\n")
    print(f"| answers of | {' | '.join(map(str, sizes))} |\n|---|{'---|' * len(sizes)}")
    for name, (_, right) in TRUTHS.items():
        cells = []
        for size in sizes:
            firsts = draw_first(rows, name, size, draws)
            cells.append(", ".join(f"{key or '-'} {100 * count / draws:.0f}" for key, count in firsts.most_common()))
            if sum(count for key, count in firsts.items() if key and key not in right) > 0.05 * draws:
                raise SystemExit(f"{name}: a wrong cause stands first with {size} answers: {dict(firsts)}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    answers = read_answers()
    mean = {name: np.concatenate([answer.doc.scores for answer in of.values()]).mean() for name, of in answers.items()}

    draws = 20 if small else 1000
    print(f"Identical weights, {draws:,} draws: percent of draws\n")
    print("| answers of | score | noise | answers | same | undecided | different |\n|---|--:|---|--:|--:|--:|--:|")
    for name, noise in IDENTICAL.items():
        for size in (100,) if small else (50, 100, 400):
            outcomes, _ = draw(name, answers, answers[name], noise, size, draws)
            shares = " | ".join(f"{100 * outcomes[kind] / draws:.1f}" for kind in ("same", "undecided", "different"))
            print(f"| {name} | {mean[name]:.4f} | {noise} | {size} | {shares} |", flush=True)
            if outcomes["different"] > 0.01 * draws:
                raise SystemExit(f"{name}: identical weights are called different")

    draws, sizes = (10, (100,)) if small else (200, SIZES)
    print(
        f"\nFaults, {draws:,} draws: percent of draws that are different, by number of answers; the number from which"
    )
    print(f"{100 * POWER:.0f} % are different or name a cause; and the causes with {sizes[-1]} answers\n")
    print(f"| answers of | score | {' | '.join(map(str, sizes))} | needed | causes |")
    print("|---|--:|" + "--:|" * (len(sizes) + 1) + "---|")
    for name, own in make_cases(answers).items():
        noise = NOISE[name.partition("_")[0]]
        different, found, named = [], [], Counter[str]()
        for size in sizes:
            outcomes, named = draw(name, answers, own, noise, size, draws)
            different.append(outcomes["different"] / draws)
            found.append(max(outcomes["different"], draws - named[""]) / draws)
        needed = next((str(size) for size, share in zip(sizes, found, strict=True) if share >= POWER), "more")
        listed = ", ".join(f"{key} {100 * count / draws:.0f}" for key, count in named.most_common() if key)
        shares = " | ".join(f"{100 * share:.0f}" for share in different)
        score = f"{mean[name]:.4f}" if name in mean else ""
        print(f"| {name} | {score} | {shares} | {needed} | {listed} |", flush=True)
        wrong = sum(count for key, count in named.items() if key and key not in CAUSES.get(name, {key}))
        if needed == str(sizes[0]) and wrong > 0.1 * draws:
            raise SystemExit(f"{name}: another cause is named in {wrong} of {draws} draws")
    print_firsts(20 if small else 1000, FIT_SIZES[:1] if small else FIT_SIZES)


if __name__ == "__main__":
    main()
