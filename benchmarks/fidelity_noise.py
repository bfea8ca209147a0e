"""How often copies of a real model are called the same or different beside the noise of its own weights.

    python benchmarks/fidelity_noise.py [--small]          the table of docs/method/same_model.md; small: checked alone
    python benchmarks/fidelity_noise.py --write TABLES     renew the docs' distances first

Distances of SmolLM2-135M-Instruct in bfloat16 from itself and from its copies lie in ``real_model_docs.csv``, a row per
doc and a column per copy. ``tools/real_tables.py`` makes TABLES. Each draw takes docs with replacement from each
kind of text and decides as `meta-eval fidelity` does.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meta_eval.judge.token_table import read_tokens
from meta_eval.plugins.tokens.comparison import TableComparison, compare_tables
from meta_eval.plugins.tokens.table_pairing import Pair, pair_tables
from meta_eval.plugins.tokens.token_columns import AnswerRows, Columns
from meta_eval.plugins.tokens.yardstick import Noise, measure_docs

DOCS = Path(__file__).parent / "real_model_docs.csv"
DRAWS, DRAWN = 1000, 50
# The same weights, measured in another way; and what each is.
IDENTICAL = {
    "batch": "prompts in batches",
    "eager": "another attention kernel",
    "float32": "computed in float32",
    "float16": "computed in float16",
}
COPIES = {
    "int8": "weights in 8 bits, groups of 32",
    "int6": "weights in 6 bits",
    "q8": "GGUF Q8_0",
    "q5": "GGUF Q5_0",
    "q4": "GGUF Q4_0",
    "fp8w": "weights in FP8",
    "fp8wa": "weights and activations in FP8",
    "int4": "weights in 4 bits, groups of 32",
    "lora": "an adapter of rank 4",
    "rope": "another RoPE base",
}
BATCHES = "batch"
# What is told apart beside any A/A pair.
COARSE = ("int6", "q5", "q4", "fp8w", "fp8wa", "int4", "rope")


def read_docs() -> tuple[list[str], NDArray[np.int64], dict[str, NDArray[np.float64]]]:
    """The task and the tokens of each doc, and by copy its mean absolute difference, nats a token."""
    with DOCS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    copies = [name for name in rows[0] if name not in ("task", "doc", "tokens")]
    values = {name: np.array([float(row[name]) for row in rows]) for name in copies}
    return [row["task"] for row in rows], np.array([int(row["tokens"]) for row in rows]), values


def write_docs(tables: Path) -> None:
    """Write the distances of the tables in a folder."""
    reference = read_tokens(tables / "reference.parquet")
    names = [name for name in (*IDENTICAL, *COPIES) if (tables / f"{name}.parquet").exists()]
    docs = {name: measure_docs(pair_tables(reference, read_tokens(tables / f"{name}.parquet"))) for name in names}
    first = docs[names[0]]
    with DOCS.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["task", "doc", "tokens", *names])
        for row, (task, doc) in enumerate(zip(first.tasks, first.docs, strict=True)):
            out.writerow([task, doc, first.tokens[row], *(f"{docs[name].values[row]:.3g}" for name in names)])


def make_pair(tasks: list[str], tokens: NDArray[np.int64], distances: NDArray[np.float64]) -> Pair:
    """Two tables whose docs are so far apart: every token of a doc differs by its mean."""
    rows = np.repeat(np.arange(len(tasks)), tokens)
    at = np.arange(len(rows)) - np.repeat(np.cumsum(tokens) - tokens, tokens)
    answers = tuple(
        AnswerRows(task, None, doc, 0, int(count), False, f"{doc}")
        for doc, (task, count) in enumerate(zip(tasks, tokens, strict=True))
    )
    zeros = np.zeros(len(rows), np.int32)

    def columns(logprobs: NDArray[np.float32]) -> Columns:
        return Columns(answers, rows, at, at, zeros, logprobs, np.zeros(len(rows), np.float32), zeros, zeros)

    base = np.full(len(rows), -30, np.float32)
    return Pair(columns(base), columns((base - distances[rows]).astype(np.float32)), None, 0.0, 0, 0, 0)


def compare(docs: list[int], noise: str, copy: str, *, covers: bool) -> TableComparison:
    """Compare some docs of a copy with the noise of an A/A pair."""
    tasks, tokens, values = read_docs()
    some = np.array(docs)
    names = [tasks[doc] for doc in docs]
    distances = {(task, at): float(values[noise][doc]) for at, (task, doc) in enumerate(zip(names, docs, strict=True))}
    return compare_tables(make_pair(names, tokens[some], values[copy][some]), Noise(distances, (), covers))


def draw(rng: np.random.Generator, tasks: list[str], size: int) -> list[int]:
    """So many docs with replacement, the same number of each kind of text."""
    kinds = sorted(set(tasks))
    of_kind = [[doc for doc, task in enumerate(tasks) if task == kind] for kind in kinds]
    counts = [size // len(kinds) + (at < size % len(kinds)) for at in range(len(kinds))]
    return [int(rng.choice(docs)) for docs, count in zip(of_kind, counts, strict=True) for _ in range(count)]


def count_outcomes(copy: str, noise: str, draws: int) -> Counter[str]:
    """The outcomes of draws of a copy beside an A/A pair."""
    # An identical copy with another kernel is not covered by a pair that differs in its batches alone.
    covers = noise != BATCHES or copy not in IDENTICAL
    tasks, rng = read_docs()[0], np.random.default_rng(5)
    return Counter(compare(draw(rng, tasks, DRAWN), noise, copy, covers=covers).outcome for _ in range(draws))


def print_noise() -> None:
    """The distances of the same weights by kind of text."""
    tasks, _, values = read_docs()
    kinds = sorted(set(tasks))
    print(f"| same weights, nats a token | {' | '.join(kinds)} |")
    print(f"|---|{'--:|' * len(kinds)}")
    for name in filter(values.__contains__, IDENTICAL):
        pair = compare(list(range(len(tasks))), name, name, covers=True)
        print(f"| {IDENTICAL[name]} | {' | '.join(f'{task.distance.value:.3f}' for task in pair.tasks)} |")
    print()


def check(name: str, held: bool) -> None:
    if not held:
        raise SystemExit(f"{name}: outside its bounds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--write", type=Path, metavar="TABLES")
    chosen = parser.parse_args()
    if chosen.write:
        write_docs(chosen.write)
    tasks, _, values = read_docs()
    draws = 10 if chosen.small else DRAWS
    print_noise()
    print(f"{len(tasks)} docs; {draws:,} draws of {DRAWN} docs each; percent of draws\n")
    print("| copy | distance, nats | A/A pair | times its noise | same | undecided | different |")
    print("|---|--:|---|--:|--:|--:|--:|")
    for copy in values:
        for noise in (name for name in IDENTICAL if name in values and name != copy):
            whole = compare(list(range(len(tasks))), noise, copy, covers=True).all
            outcomes = count_outcomes(copy, noise, draws)
            shares = " | ".join(f"{100 * outcomes[name] / draws:.1f}" for name in ("same", "undecided", "different"))
            words, times = (IDENTICAL | COPIES)[copy], whole.times_noise or 0.0
            print(f"| {words} | {whole.distance.value:.4f} | {IDENTICAL[noise]} | {times:.2f} | {shares} |")
            check(f"{copy} beside {noise}", copy not in IDENTICAL or outcomes["different"] <= draws / 100)
            check(f"{copy} beside {noise}", copy not in COARSE or outcomes["different"] >= 0.95 * draws)


if __name__ == "__main__":
    main()
