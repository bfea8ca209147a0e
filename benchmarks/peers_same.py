"""The same-model question, for `peers.py`: rules that say whether a copy or an endpoint is the model.

Both tables draw from answers of SmolLM2-135M-Instruct: ``audit_docs.parquet`` (`audit.py`) has what endpoints answer,
``peers_docs.csv`` (``tools/peers_answers.py``) what copies make of given texts. Each rule sees the same draws.
"""

from __future__ import annotations

import csv
import math
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
SHOWN, POWER, DRAWS = 100, 0.9, 200
ANSWERS, SMALL = (10, 20, 50, 100, 160), (20, 100)
"""Numbers of answers that are tried, up to those that were recorded, and those of a small run."""
SURE = 0.95
WRONG = 0.05
"""From this share of wrong alarms on, the answers that a rule needs mean nothing."""
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
NEEDS = {
    ("audit", "greedy_Q5_0"): (11, 20), ("audit", "greedy_Q4_0"): (11, 20), ("audit", "greedy_system"): (11, 20),
    ("audit", "greedy_Q4_0_10%"): (101, math.inf), ("audit", "greedy_Q8_0"): (101, math.inf),
    ("below 95 %", "greedy_Q5_0"): (0, 20), ("token-difr, match below 98 %", "greedy_Q5_0"): (0, 20),
    ("MiniMax, F1 below 98 %", "greedy_edited_word"): (101, math.inf),
}  # fmt: skip
"""What the page says of the answers that a rule needs: the least and the most."""
MEANT = ("audit", "below 95 %")
"""Rules that never call the right weights another model. Of each other one the numbers stand in brackets."""
CUT_OFFS = [name for name in RULES if "below" in name]
"""Rules that compare a mean with a fixed limit."""
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


Shares = Mapping[int, float]
"""By how many answers or texts are drawn, the share of draws in which a rule says "different"."""


def needed(shares: Shares, same: Sequence[Shares], *, fixed: bool) -> tuple[float, str]:
    """How many answers a rule needs: as many or more call a copy different in 90 % of draws, and the right weights not.

    Args:
        shares: Of the copy.
        same: Of copies with the right weights. Where one of them is called different by all numbers that are enough,
            the number means nothing, and the least stands in brackets.
        fixed: Whether the rule compares a mean with a cut-off. More answers only bring the mean closer to that of all,
            so the rule never finds a copy whose mean of all is surely on the right side: in 95 % of the draws.
    """
    sizes = sorted(shares)
    enough = [size for at, size in enumerate(sizes) if all(shares[other] >= POWER for other in sizes[at:])]
    if not enough:
        return math.inf, "never" if fixed and shares[sizes[-1]] <= 1 - SURE else f"> {sizes[-1]}"
    right = [size for size in enough if all(of[other] <= WRONG for of in same for other in sizes if other >= size)]
    return (right[0], str(right[0])) if right else (enough[0], f"({enough[0]})")


def endpoints(runs: int) -> None:
    """Endpoints by their answers: wrong alarms, faults that are found, and the answers that this needs."""
    draws, sizes = (2 * runs, SMALL) if runs < SHOWN else (min(runs, DRAWS), ANSWERS)
    shares = {name: {size: found(name, size, draws) for size in sizes} for name in ENDPOINTS}
    table = Table(
        f"Endpoints called another model by {SHOWN} answers, percent of {draws} draws", "the endpoint serves", *RULES
    )
    for place, (name, (_, words)) in enumerate(ENDPOINTS.items()):
        cells = []
        for rule in RULES:
            share = shares[name][SHOWN][rule]
            least, most = CLAIMS.get((rule, name), (0.0, 0.02 if rule == "audit" and place < IDENTICAL else 1.0))
            cells.append(flag("-" if skips(rule, name) else f"{100 * share:.0f}", least <= share <= most))
        table.row(words, *cells)
    table = Table(
        f"Answers needed to call it another model in {100 * POWER:.0f} % of {draws} draws; in brackets where so many "
        f"or more also call the right weights another, in over {100 * WRONG:.0f} %",
        "the endpoint serves", *RULES,
    )  # fmt: skip
    names = list(ENDPOINTS)
    for name in names[IDENTICAL:]:
        kind = name.partition("_")[0]
        same = [shares[other] for other in names[:IDENTICAL] if other.startswith(kind)]
        cells = []
        for rule in RULES:
            one, *others = ({size: of[size][rule] for size in sizes} for of in (shares[name], *same))
            count, text = needed(one, others, fixed=rule in CUT_OFFS)
            least, most = NEEDS.get((rule, name), (0, math.inf))
            right = least <= count <= most and (count == math.inf or text.isdigit() == (rule in MEANT))
            cells.append("-" if skips(rule, name) else flag(text, right))
        table.row(ENDPOINTS[name][1], *cells)


def skips(rule: str, name: str) -> bool:
    """Whether a rule has nothing to say of an endpoint."""
    return name.startswith("t1") and rule in GREEDY_ALONE


# Copies by the log-probabilities that they give to the same tokens: by name, and what each is.
SAME_WEIGHTS = ("batch", "eager", "float32")
COPIES = {
    "batch": "the same weights, in batches", "eager": "the same weights, another attention kernel",
    "float32": "the same weights, computed in float32", "q8": "GGUF Q8_0",
    "fp8w": "weights in FP8", "lora": "a fine-tuned copy (LoRA)", "q5": "GGUF Q5_0", "q4": "GGUF Q4_0",
    "rope": "another RoPE base",
}  # fmt: skip
DRAWN = 24
TEXTS = (3, 6, 10, DRAWN)
"""Numbers of texts that are tried, up to those that were recorded."""
KERNEL, BATCHES, LIKELIEST = "fidelity, beside another kernel", "fidelity, beside batches", "same likeliest token"
LIMITS = (0.01, 0.05)
"""Thresholds of the mean KL divergence, in nats."""
COPY_RULES = (KERNEL, BATCHES, *(f"KL above {limit:g}" for limit in LIMITS), f"{LIKELIEST} below 95 %")
COPY_NEEDS = {
    **{(KERNEL, name): (7, 10) for name in ("fp8w", "lora", "q5", "q4", "rope")}, (KERNEL, "q8"): (DRAWN + 1, math.inf),
    (BATCHES, "q8"): (7, DRAWN), ("KL above 0.05", "fp8w"): (DRAWN + 1, math.inf), ("KL above 0.05", "q4"): (0, 6),
}  # fmt: skip
"""What the page says of the texts that a rule needs: the least and the most."""


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


@cache
def read_column(copy: str, key: str) -> np.ndarray:
    return np.array([float(row[key]) for row in read_copies()[copy]])


def draw_copy(name: str, size: int, draws: int) -> tuple[dict[str, float], dict[str, float]]:
    """The shares of draws of texts in which each rule calls a copy different, and in which `fidelity` calls it same."""
    rng = np.random.default_rng(5)
    weights, kl, top = (read_column(name, key) for key in ("tokens", "divergence", "same_top"))
    different, same = dict.fromkeys(COPY_RULES, 0), dict.fromkeys((KERNEL, BATCHES), 0)
    for _ in range(draws):
        docs = rng.choice(len(weights), size=size)
        for rule, noise in ((KERNEL, other_kernel(name)), (BATCHES, "batch")):
            outcome = fidelity(name, noise, docs.tolist()) if name != noise else ""
            different[rule] += outcome == "different"
            same[rule] += outcome == "same"
        for limit in LIMITS:
            different[f"KL above {limit:g}"] += int(np.average(kl[docs], weights=weights[docs]) > limit)
        different[f"{LIKELIEST} below 95 %"] += int(np.average(top[docs], weights=weights[docs]) < 0.95)
    return tuple({rule: count / draws for rule, count in counts.items()} for counts in (different, same))  # type: ignore[return-value]


def other_kernel(copy: str) -> str:
    """The same weights under another kernel, beside which a copy is judged."""
    return "float32" if copy == "eager" else "eager"


def copies(runs: int) -> None:
    """Copies by their log-probabilities: wrong alarms, copies that are found, and the texts that this needs."""
    draws = min(2 * runs, DRAWS)
    drawn = {name: {size: draw_copy(name, size, draws) for size in TEXTS} for name in COPIES}
    table = Table(
        f"Copies called another model by {DRAWN} texts, percent of {draws} draws",
        "copy", "distance, times the noise", "KL, nats", f"{KERNEL}: same / different", f"{BATCHES}: same / different",
        *COPY_RULES[2:],
    )  # fmt: skip
    for name, words in COPIES.items():
        (different, same), weights = drawn[name][DRAWN], read_column(name, "tokens")
        distance, own = (read_column(copy, "distance") for copy in (name, other_kernel(name)))
        times = np.average(distance, weights=weights) / np.average(own, weights=weights)
        wrong = different[KERNEL] + different[BATCHES]
        right = wrong <= 0.02 if name in SAME_WEIGHTS else name == "q8" or different[KERNEL] >= POWER
        kernel, batches = (f"{100 * same[rule]:.0f} / {100 * different[rule]:.0f}" for rule in (KERNEL, BATCHES))
        table.row(
            words, f"{times:.2f}", f"{np.average(read_column(name, 'divergence'), weights=weights):.4f}",
            flag(kernel, right), batches if name != "batch" else "-",
            *(f"{100 * different[rule]:.0f}" for rule in COPY_RULES[2:]),
        )  # fmt: skip
    table = Table(
        f"Texts needed to call it another model in {100 * POWER:.0f} % of {draws} draws; in brackets where so many "
        f"or more also call the right weights another, in over {100 * WRONG:.0f} %",
        "copy", *COPY_RULES,
    )  # fmt: skip
    for name in (name for name in COPIES if name not in SAME_WEIGHTS):
        cells = []
        for rule in COPY_RULES:
            one, *others = ({size: drawn[of][size][0][rule] for size in TEXTS} for of in (name, *SAME_WEIGHTS))
            count, text = needed(one, others, fixed=rule not in (KERNEL, BATCHES))
            least, most = COPY_NEEDS.get((rule, name), (0, math.inf))
            cells.append(flag(text, least <= count <= most))
        table.row(COPIES[name], *cells)
