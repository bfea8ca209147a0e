"""The same-model question, for `peers.py`: rules that say whether a copy or an endpoint is the model.

Both tables draw from answers of SmolLM2-135M-Instruct: ``audit_docs.parquet`` (`audit.py`) has what endpoints answer,
``peers_docs.csv`` (``tools/peers_answers.py``) what copies make of given texts. Each rule sees the same draws.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from audit import MIXTURES, Answer, judge, make_cases, read_answers
from counting import Table, flag
from fidelity_noise import make_pair

from meta_eval.plugins.tokens.comparison import compare_tables
from meta_eval.plugins.tokens.yardstick import Noise

DOCS = Path(__file__).parent / "peers_docs.csv"
SIZES = (25, 100)
SHOWN, POWER, DRAWS = 100, 0.9, 200
LIMIT = 48
"""Tokens at which every recorded answer was cut."""

Answers = Mapping[int, Answer]

# What endpoints answer: by name, beside which noise, and what it is.
ENDPOINTS = {
    "greedy_F32": ("greedy_vllm", "the same weights on llama.cpp"),
    "greedy_vllm": ("greedy_F32", "the same weights on vLLM"),
    "greedy_BF16": ("greedy_vllm", "the same weights in bfloat16 on llama.cpp"),
    "greedy_vllm_bf16": ("greedy_F32", "all in bfloat16 on vLLM"),
    "t1_F32": ("t1_vllm", "the same, sampled at temperature 1: llama.cpp"),
    "t1_again": ("t1_vllm", "the same, sampled at temperature 1: vLLM again"),
    "greedy_Q8_0": ("greedy_vllm", "weights in eight bits (Q8_0)"),
    "greedy_Q5_0": ("greedy_vllm", "in five bits (Q5_0)"),
    "greedy_Q4_0": ("greedy_vllm", "in four bits (Q4_0)"),
    "greedy_Q4_0_10%": ("greedy_vllm", "Q4_0 for 10 % of the answers"),
    "greedy_Q4_0_30%": ("greedy_vllm", "Q4_0 for 30 % of the answers"),
    "greedy_system": ("greedy_vllm", "a hidden system prompt"),
    "greedy_template": ("greedy_vllm", "another family's chat template"),
    "greedy_edited_word": ("greedy_vllm", "a word of each answer replaced"),
    "greedy_t07": ("greedy_vllm", "temperature 0.7 where greedy was asked"),
    "t1_t07": ("t1_vllm", "temperature 0.7 where 1 was asked"),
    "t1_Q4_0": ("t1_vllm", "Q4_0 at temperature 1"),
}
IDENTICAL = 6
"""The first of them have the weights of the trusted copy."""


def match_rate(answers: Sequence[Answer]) -> float:
    """token-difr's ``exact_match_rate``: the share of tokens that are the trusted copy's likeliest."""
    return 1 - sum(int(answer.doc.unlikely.sum()) for answer in answers) / sum(len(a.doc.scores) for a in answers)


def mean_margin(answers: Sequence[Answer]) -> float:
    """token-difr's ``avg_margin``, in nats; a single token counts as at most 1, as recorded."""
    return float(np.concatenate([answer.doc.scores for answer in answers]).mean())


def trigger_f1(answers: Sequence[Answer], reference: Sequence[Answer]) -> float:
    """The F1 of K2-Vendor-Verifier and MiniMax-Provider-Verifier: whether both do the same thing.

    There it is a tool call. This model calls none, so here it is an answer that ends before its limit.
    """
    ours, theirs = (np.array([answer.tokens < LIMIT for answer in run]) for run in (answers, reference))
    return float(2 * (ours & theirs).sum() / max(1, ours.sum() + theirs.sum()))


@cache
def margin_limit(noise: str, size: int) -> float:
    """The mean margin that 1 % of the draws from an endpoint of one's own exceed."""
    own, rng = read_endpoints()[noise], np.random.default_rng(11)
    docs = sorted(own)
    means = [mean_margin([own[doc] for doc in rng.choice(docs, size).tolist()]) for _ in range(400)]
    return float(np.quantile(means, 0.99))


@cache
def read_endpoints() -> dict[str, dict[int, Answer]]:
    answers = read_answers()
    return {**answers, **{name: own for name, own in make_cases(answers).items() if name not in answers}}


def is_audit(answers: Answers, noise: str, docs: Sequence[int]) -> bool:
    return judge(answers, read_endpoints()[noise], docs)[0] == "different"


def of_docs(answers: Answers, docs: Sequence[int]) -> list[Answer]:
    return [answers[doc] for doc in docs if doc in answers]


RULES: dict[str, Callable[[Answers, str, Sequence[int]], bool]] = {
    "audit": is_audit,
    "token-difr, match below 98 %": lambda own, _, docs: match_rate(of_docs(own, docs)) < 0.98,
    "below 95 %": lambda own, _, docs: match_rate(of_docs(own, docs)) < 0.95,
    "margin above 99 % of one's own": lambda own, noise, docs: (
        mean_margin(of_docs(own, docs)) > margin_limit(noise, len(docs))
    ),
    "MiniMax, F1 below 98 %": lambda own, noise, docs: _f1(own, noise, docs) < 0.98,
    "Kimi, below 80 %": lambda own, noise, docs: _f1(own, noise, docs) < 0.80,
}
"""Whether each says of an endpoint that it is another model."""
CLAIMS = {
    ("margin above 99 % of one's own", "greedy_vllm_bf16"): (0.9, 1.0),
    ("token-difr, match below 98 %", "greedy_vllm_bf16"): (0.9, 1.0),
    ("MiniMax, F1 below 98 %", "t1_again"): (0.9, 1.0), ("Kimi, below 80 %", "t1_again"): (0.9, 1.0),
    ("MiniMax, F1 below 98 %", "greedy_edited_word"): (0.0, 0.1), ("audit", "greedy_Q8_0"): (0.0, 0.1),
    ("audit", "greedy_Q5_0"): (0.9, 1.0), ("audit", "greedy_system"): (0.9, 1.0),
}  # fmt: skip
"""What the page says of a rule and an endpoint: the least and the most of its share."""
GREEDY_ALONE = [name for name in RULES if "match" in name or "95" in name or "margin" in name]
"""Of sampled answers token-difr needs the sampler and seed of vLLM on both sides, which no other engine has."""


def _f1(own: Answers, noise: str, docs: Sequence[int]) -> float:
    reference = read_endpoints()[noise]
    both = [doc for doc in docs if doc in own and doc in reference]
    return trigger_f1([own[doc] for doc in both], [reference[doc] for doc in both])


def found(name: str, size: int, draws: int) -> dict[str, float]:
    """The share of draws in which each rule says "different"."""
    noise, rng = ENDPOINTS[name][0], np.random.default_rng(7)
    answers = read_endpoints()
    docs, counts = sorted(answers["greedy_F32"]), dict.fromkeys(RULES, 0)
    for _ in range(draws):
        drawn, own = rng.choice(docs, size=size).tolist(), answers[name]
        if name in MIXTURES:
            other, share = MIXTURES[name]
            elsewhere = set(np.flatnonzero(rng.random(max(docs) + 1) < share).tolist())
            own = {doc: (answers[other] if doc in elsewhere else own)[doc] for doc in docs}
        for rule, is_different in RULES.items():
            counts[rule] += is_different(own, noise, drawn)
    return {rule: count / draws for rule, count in counts.items()}


def endpoints(runs: int) -> None:
    """Endpoints by their answers: wrong alarms, faults that are found, and the answers that this needs."""
    draws, sizes = (runs, (SHOWN,)) if runs < SHOWN else (min(runs, DRAWS), SIZES)
    table = Table(
        f"Endpoints called another model by {SHOWN} answers, percent of {draws} draws; * also by {SIZES[0]} in "
        f"{100 * POWER:.0f} %",
        "the endpoint serves", *RULES,
    )  # fmt: skip
    for place, name in enumerate(ENDPOINTS):
        shares = {size: found(name, size, draws) for size in sizes}
        cells = []
        for rule in RULES:
            few = len(sizes) > 1 and shares[sizes[0]][rule] >= POWER
            text = f"{100 * shares[SHOWN][rule]:.0f}" + ("*" if few and place >= IDENTICAL else "")
            if name.startswith("t1") and rule in GREEDY_ALONE:
                text = "-"
            least, most = CLAIMS.get((rule, name), (0.0, 0.02 if rule == "audit" and place < IDENTICAL else 1.0))
            text = flag(text, least <= shares[SHOWN][rule] <= most)
            cells.append(text)
        table.row(ENDPOINTS[name][1], *cells)


# Copies by the log-probabilities that they give to the same tokens: by name, and what each is.
SAME_WEIGHTS = ("batch", "eager", "float32")
COPIES = {
    "batch": "the same weights, in batches", "eager": "the same weights, another attention kernel",
    "float32": "the same weights, computed in float32", "q8": "GGUF Q8_0",
    "fp8w": "weights in FP8", "lora": "a fine-tuned copy (LoRA)", "q5": "GGUF Q5_0", "q4": "GGUF Q4_0",
    "rope": "another RoPE base",
}  # fmt: skip
DRAWN = 24


@cache
def read_copies() -> dict[str, list[dict[str, str]]]:
    copies: dict[str, list[dict[str, str]]] = {}
    with DOCS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            copies.setdefault(row["copy"], []).append(row)
    return copies


def fidelity(copy: str, noise: str, docs: Sequence[int]) -> str:
    """What ``meta-eval fidelity`` says of some texts, beside an A/A pair."""
    rows, others = ([read_copies()[name][doc] for doc in docs] for name in (copy, noise))
    kinds = [row["kind"] for row in rows]
    distances = {(kind, at): float(row["distance"]) for at, (kind, row) in enumerate(zip(kinds, others, strict=True))}
    tokens, values = (np.array([float(row[key]) for row in rows]) for key in ("tokens", "distance"))
    # Batches alone do not cover another kernel: beside them the same weights are not called different.
    covers = noise != "batch" or copy not in SAME_WEIGHTS
    return compare_tables(make_pair(kinds, tokens.astype(int), values), Noise(distances, (), covers)).outcome


def copies(runs: int) -> None:
    """Copies by their log-probabilities."""
    draws = min(runs, DRAWS)
    limits = (0.01, 0.05)
    table = Table(
        f"Copies called another model by {DRAWN} texts, percent of {draws} draws",
        "copy", "distance, times the noise", "KL, nats", "fidelity, beside another kernel: same / different",
        "fidelity, beside batches: same / different", *(f"KL above {limit:g}" for limit in limits),
        "same likeliest token below 95 %",
    )  # fmt: skip
    for name, words in COPIES.items():
        rows, rng = read_copies()[name], np.random.default_rng(5)
        noises = ("float32" if name == "eager" else "eager", "batch")
        weights = np.array([float(row["tokens"]) for row in rows])
        kl, top, distance = (
            np.array([float(row[key]) for row in rows]) for key in ("divergence", "same_top", "distance")
        )
        own = np.array([float(row["distance"]) for row in read_copies()[noises[0]]])
        counts = dict.fromkeys(("kernel same", "kernel", "batch same", "batch", *map(str, limits), "top"), 0)
        for _ in range(draws):
            docs = rng.choice(len(rows), size=DRAWN)
            for key, noise in zip(("kernel", "batch"), noises, strict=True):
                outcome = fidelity(name, noise, docs.tolist()) if name != noise else ""
                counts[f"{key} same"] += outcome == "same"
                counts[key] += outcome == "different"
            for limit in limits:
                counts[str(limit)] += np.average(kl[docs], weights=weights[docs]) > limit
            counts["top"] += np.average(top[docs], weights=weights[docs]) < 0.95
        share = {key: f"{100 * count / draws:.0f}" for key, count in counts.items()}
        times = np.average(distance, weights=weights) / np.average(own, weights=weights)
        wrong = counts["kernel"] + counts["batch"]
        right = wrong <= draws / 50 if name in SAME_WEIGHTS else name == "q8" or counts["kernel"] >= 0.9 * draws
        beside = f"{share['batch same']} / {share['batch']}" if name != "batch" else "-"
        table.row(
            words, f"{times:.2f}", f"{np.average(kl, weights=weights):.4f}",
            flag(f"{share['kernel same']} / {share['kernel']}", right), beside,
            *(share[str(limit)] for limit in limits), share["top"],
        )  # fmt: skip
