"""How often `meta-eval equality` calls endpoints different, and with which power, beside the paper's test.

    python benchmarks/equality.py              # drawn answers, 1,000 draws a cell; two hours of a core
    python benchmarks/equality.py --fault "10 % of another" --cell 50x30 --decided 1000    # who is called the same
    python benchmarks/equality.py --small      # a few draws: CI, which fails where a rate cannot be as promised
    python benchmarks/equality.py --real OUT   # answers of a real model, which benchmarks/equality_samples.py draws

Drawn answers have eight words, each one of three that the prompt and the word before it allow (60, 30 and 10 %). The
other source is the same; the same at temperature 0.7; with 10 or 100 % of another model, whose words are others; with a
fixed first word ("system prompt"); or cut after four words.

Answers of the real model are drawn without replacement from those that are there. A mixture has 10 % of Q4_0 with
another system prompt. Draws share answers, so a rate over draws is not as sure as that of so many independent ones: the
rates of identical sources beside 1 % say little there, and the drawn answers say it.

Columns: percent of draws that are called different by this test (p <= 1 %); the same of the paper's test (the MMD with
a Hamming kernel of all places, labels permuted over all prompts, p <= 1 %, and p < 5 % as the paper has it); and of the
first draws, percent called the same, the mean simulated power, and the median of the answers that would do.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import statistics
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from meta_eval.plugins.equality.equality_decision import decide
from meta_eval.plugins.equality.sides import Side
from meta_eval.plugins.equality.thresholds import DIFFERENT, POWER
from meta_eval.plugins.equality.two_samples import PromptSamples, run_test

PROMPTS, ANSWERS = (10, 25, 50), (5, 10, 20)
PERMUTATIONS = 499
ENOUGH = 4.0  # standard errors of a rate that CI allows
Samples = list[PromptSamples]


class Rates(NamedTuple):
    """Shares of draws, 0 to 1; ``needed`` is a number of answers, None if most draws name none."""

    different: float
    paper: float
    paper_5: float
    same: float
    power: float
    needed: float | None


@functools.cache
def list_words(model: str, prompt: int, place: int, last: str) -> list[str]:
    """The words that a model allows at a place behind another word."""
    own = random.Random(f"{model} {prompt} {place} {last}")
    return [f"{own.choice('bcdfgklmnprst')}{own.choice('aeiou')}{own.randrange(99)}" for _ in range(3)]


def write(prompt: int, rng: random.Random, *, temperature: float = 1.0, model: str = "", words: int = 8) -> str:
    """A drawn answer."""
    weights = [weight ** (1 / temperature) for weight in (0.6, 0.3, 0.1)]
    said: list[str] = []
    for place in range(words):
        last = said[-1] if said else ""
        said.append(rng.choices(list_words(model, prompt, place, last), weights)[0])
    return " ".join(said)


FAULTS: dict[str, Callable[[int, random.Random], str]] = {
    "identical": write,
    "temperature 0.7": lambda prompt, rng: write(prompt, rng, temperature=0.7),
    "10 % of another": lambda prompt, rng: write(prompt, rng, model="other" if rng.random() < 0.1 else ""),
    "another": lambda prompt, rng: write(prompt, rng, model="other"),
    "system prompt": lambda prompt, rng: f"Hello! {write(prompt, rng)}",
    "cut": lambda prompt, rng: write(prompt, rng, words=4),
}


def draw(fault: str, prompts: int, answers: int, seed: int) -> Samples:
    """Answers of both sides."""
    rng, other = random.Random(f"a {seed}"), FAULTS[fault]
    return [
        PromptSamples([write(prompt, rng) for _ in range(answers)], [other(prompt, rng) for _ in range(answers)])
        for prompt in range(prompts)
    ]  # fmt: skip


class Real:
    """Answers of a real model, by source and prompt."""

    def __init__(self, folder: Path) -> None:
        self.sources: dict[str, list[list[str]]] = {
            path.stem: list(json.loads(path.read_text("utf-8")).values()) for path in sorted(folder.glob("*.json"))
        }
        self.prompts = min(len(prompts) for prompts in self.sources.values())

    def list_faults(self) -> list[str]:
        """What there is to draw, identical first."""
        kept = [name for name in self.sources if name not in ("F32", "F32 again", "another")]
        return ["identical", *kept, *(["10 % of another"] if "another" in self.sources else [])]

    def draw(self, fault: str, prompts: int, answers: int, seed: int) -> Samples:
        """Answers of both sides, without replacement, to prompts that are drawn, too."""
        rng, samples = random.Random(f"{fault} {prompts} {answers} {seed}"), list[PromptSamples]()
        for prompt in sorted(rng.sample(range(self.prompts), prompts)):
            pool = [*self.sources["F32"][prompt], *self.sources["F32 again"][prompt]]
            rng.shuffle(pool)
            a, b = pool[:answers], pool[answers : 2 * answers]
            if fault in self.sources:
                b = rng.sample(self.sources[fault][prompt], answers)
            elif fault != "identical":
                others = iter(rng.sample(self.sources["another"][prompt], len(self.sources["another"][prompt])))
                b = [next(others, text) if rng.random() < 0.1 else text for text in b]
            samples.append(PromptSamples(a, b))
        return samples


def run_paper(samples: Samples, rng: np.random.Generator) -> float:
    """The p value of the paper's test: `mmd_hamming` with `two_sample_permutation_pvalue` of its package
    (github.com/i-gao/model-equality-testing): kernels are shares of the longest answer, 0 between prompts; means are
    over pairs of the same prompt; labels are permuted over all answers."""
    longest = max(len(text) for one in samples for text in (*one.a, *one.b))
    sums = np.zeros((PERMUTATIONS + 1, 6))
    total = sum(len(one.a) + len(one.b) for one in samples)
    labels = np.zeros((PERMUTATIONS + 1, total), np.float32)
    at = 0
    for one in samples:
        labels[:, at : at + len(one.a)] = 1
        at += len(one.a) + len(one.b)
    rng.permuted(labels[1:], axis=1, out=labels[1:])
    at = 0
    for one in samples:
        codes = np.full((len(one.a) + len(one.b), longest), -1)
        for row, text in zip(codes, (*one.a, *one.b), strict=True):
            row[: len(text)] = list(map(ord, text))
        kernel = np.stack([(row == codes).mean(axis=1) for row in codes]).astype(np.float32)
        np.fill_diagonal(kernel, 0)
        x = labels[:, at : at + len(codes)]
        at += len(codes)
        y = 1 - x
        a, b = x.sum(axis=1), y.sum(axis=1)
        sums += np.stack([((x @ kernel) * x).sum(1), a * (a - 1), ((y @ kernel) * y).sum(1), b * (b - 1),
                          ((x @ kernel) * y).sum(1), a * b], axis=1)  # fmt: skip
    found = sums[:, 0] / sums[:, 1] + sums[:, 2] / sums[:, 3] - 2 * sums[:, 4] / sums[:, 5]
    return float((1 + (found[1:] >= found[0] - 1e-9).sum()) / (1 + PERMUTATIONS))


def measure(draws: Sequence[Samples], decided: int) -> Rates:
    """The rates over draws; those of whole decisions over the first."""
    rng = np.random.default_rng(0)
    ours = [run_test(samples, PERMUTATIONS).p <= DIFFERENT for samples in draws]
    paper = [run_paper(samples, rng) for samples in draws]
    sides = Side("A", "", ""), Side("B", "", "")
    decisions = [
        decide({(f"{number:03}",): one for number, one in enumerate(samples)}, *sides) for samples in draws[:decided]
    ]
    powers = [decision.power.power for decision in decisions if decision.power is not None]
    named = [float(decision.needed) if decision.needed else np.inf for decision in decisions if decision.power]
    needed = statistics.median(named) if named else np.inf
    return Rates(
        statistics.mean(ours), statistics.mean(p <= DIFFERENT for p in paper), statistics.mean(p < 0.05 for p in paper),
        sum(decision.outcome == "same" for decision in decisions) / max(1, len(decisions)),
        statistics.mean(powers) if powers else 0.0, None if np.isinf(needed) else needed,
    )  # fmt: skip


def main() -> None:
    """Print the table, and fail where a rate cannot be as promised."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a few draws: CI")
    parser.add_argument("--real", type=Path, metavar="OUT", help="answers of a real model")
    parser.add_argument("--draws", type=int, default=1000, help="draws a cell")
    parser.add_argument("--decided", type=int, default=10, help="draws that are decided to the end")
    parser.add_argument("--fault", nargs="+", metavar="NAME", help="these sources alone")
    parser.add_argument("--cell", nargs="+", metavar="PROMPTSxANSWERS", help="these numbers alone")
    chosen = parser.parse_args()
    draws, decided = (20, 1) if chosen.small else (chosen.draws, chosen.decided)
    cells = [(10, 5), (25, 10)] if chosen.small else list(product(PROMPTS, ANSWERS))
    if chosen.cell:
        cells = [(int(prompts), int(answers)) for prompts, answers in (cell.split("x") for cell in chosen.cell)]
    real = Real(chosen.real) if chosen.real else None
    print("| source | prompts | answers | different | paper, 1 % | paper, 5 % | same | power | would do |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    bad = []
    for fault in chosen.fault or (real.list_faults() if real else FAULTS):
        for prompts, answers in cells:
            if real and prompts > real.prompts:
                continue
            make = real.draw if real else draw
            rates = measure([make(fault, prompts, answers, seed) for seed in range(draws)], decided)
            shares = " | ".join(f"{100 * share:.1f}" for share in rates[:5])
            print(f"| {fault} | {prompts} | {answers} | {shares} | {rates.needed or '-'} |", flush=True)
            allowed = DIFFERENT + ENOUGH * (DIFFERENT * (1 - DIFFERENT) / draws) ** 0.5
            if fault == "identical" and not real and rates.different > allowed:
                bad.append(f"{fault}, {prompts}, {answers}: different {rates.different}")
            # *Same* promises that 10 % of another model would be found with a probability of 80 %.
            if fault in ("another", "10 % of another") and rates.same > 1 - POWER:
                bad.append(f"{fault}, {prompts}, {answers}: same {rates.same}")
    if bad:
        sys.exit("\n".join(bad))


if __name__ == "__main__":
    main()
