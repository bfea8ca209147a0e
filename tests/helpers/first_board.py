"""Details in the first Open LLM Leaderboard's columns of 2023, and in lighteval's of 2024, over our own rows.

`board_shapes` has the layouts that public sources show.

Likelihoods are random. The verdicts follow from them by the harness's rules, which are implemented here again.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

RUN = "2024-03-05T10-11-12.345678"
OLD_RUN = "2023-07-19T13:48:53.093937"
REPOSITORY = "open-llm-leaderboard-old/details_org__Model-one"

Row = dict[str, Any]


def choice(n: int, prompt: str, choices: list[str], gold: int, *, spaced: bool = True) -> Row:
    """Make a doc of a choice in the columns of 2024."""
    costs = _costs(n, prompt, choices)
    by_length = [cost / len(text) for cost, text in zip(costs, choices, strict=True)]
    metrics = {"acc": float(_best(costs) == gold), "acc_norm": float(_best(by_length) == gold)}
    return _row(prompt, [f" {text}" if spaced else text for text in choices], [gold], costs, metrics)


def truthful(n: int) -> Row:
    prompt, first, second = f"Q: Do {n} moons sing?\nA:", ["No.", "Yes.", "Two do."], ["No.", "They do not.", "Yes."]
    costs = _costs(n, prompt, [*first, *second])
    shares = [math.exp(cost) for cost in costs[3:]]
    metrics = {"mc1": float(_best(costs[:3]) == 0), "mc2": sum(shares[:2]) / sum(shares)}
    return _row(prompt, [f" {text}" for text in [*first, *second]], [0, 3, 4], costs, metrics)


def sum_of(n: int) -> Row:
    gold = f"{n} + 2 = {n + 2}\n#### {n + 2}"
    answer = gold if n % 2 else f"so it is\n#### {n + 7}"
    row = _row(f"Question: What is {n} + 2?\nAnswer:", [], [], [], {"acc": n % 2 == 1})
    return {**row, "predictions": [answer], "gold": [gold], "choices": None, "gold_index": None}


def tasks() -> dict[str, list[Row]]:
    """Make the docs of the board's benchmarks by file name, except Winogrande. MMLU has a single subject."""
    arc = [
        choice(n, f"Question: Which is {n}?\nAnswer:", [f"pebble {n}", f"a cup of rain {n}", "moss"], n % 3)
        for n in range(9)
    ]
    ends = ["takes out loaves.", "sings a long song.", "sleeps.", "flies."]
    swag = [choice(n % 4, f"Baking: A woman opens oven {n % 4}. She ", ends, n % 4, spaced=False) for n in range(6)]
    subject = [choice(n % 7, f"What comes after {n % 7}?\nA. 1\nB. 2\nAnswer:", list("ABCD"), 1) for n in range(8)]
    return {
        "harness|arc:challenge|25": arc,
        "harness|hellaswag|10": swag,
        "harness|hendrycksTest-anatomy|5": subject,
        "harness|hendrycksTest-virology|5": subject[:3],
        "harness|truthfulqa:mc|0": [truthful(n) for n in range(5)],
        "harness|gsm8k|5": [sum_of(n) for n in range(6)],
    }  # fmt: skip


def as_2023(row: Row) -> Row:
    """Convert a row to the columns of 2023, with separate metrics, a single right choice and hashes."""
    hashes = {"cont_tokens": "0" * 16, "example": "1" * 16, "full_prompt": "2" * 16, "input_tokens": "3" * 16}
    kept = {name: row[name] for name in ("example", "full_prompt", "choices", "predictions", "truncated")}
    return {**kept, **row["metrics"], "gold": row["gold_index"][0], "hashes": hashes}


def write(folder: Path, files: Mapping[str, list[Row]], run: str = RUN) -> Path:
    """Write a folder like the snapshot of a details dataset."""
    (folder / run).mkdir(parents=True, exist_ok=True)
    results = {name: {"acc": 0.5, "acc_stderr": 0.1} for name in files}
    tree = {"results": results, "versions": {}, "config_general": {"model_name": "org/Model-one"}}
    (folder / f"results_{run}.json").write_text(json.dumps(tree), encoding="utf-8")
    for name, rows in files.items():
        pq.write_table(pa.Table.from_pylist(rows), folder / run / f"details_{name}_{run}.parquet")
    return folder


def tokens_of(row: Row, encode: Callable[[str], list[int]], front: list[int]) -> Row:
    """Add the token ids of the model's input to a row, padded at the end as in a batch."""
    requests = [front + encode(row["full_prompt"] + text) for text in row["choices"]]
    longest = max(map(len, requests))
    padded = [longest - len(ids) for ids in requests]
    ids = [text + [0] * by for text, by in zip(requests, padded, strict=True)]
    return {**row, "input_tokens": ids, "padded": padded}


def _row(prompt: str, choices: list[str], golds: list[int], costs: list[float], metrics: Mapping[str, Any]) -> Row:
    return {
        "example": prompt.splitlines()[0], "full_prompt": f"Shots first.\n\n{prompt}", "instruction": "",
        "choices": choices, "gold_index": golds, "gold": None, "predictions": costs, "metrics": dict(metrics),
        "num_asked_few_shots": 5, "num_effective_few_shots": -1, "truncated": [0] * max(1, len(choices)),
    }  # fmt: skip


def _costs(n: int, prompt: str, choices: list[str]) -> list[float]:
    draw = random.Random(hashlib.sha256(f"{n} {prompt}".encode()).digest())
    return [-round(draw.uniform(1, 9), 6) for _ in choices]


def _best(values: list[float]) -> int:
    return values.index(max(values))
