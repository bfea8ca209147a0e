"""How often `load` calls a server worse, same or undecided: sound and faulty ones, with and without scored answers.

    python benchmarks/load.py [--small]

Answers are those of `load_model.Model`. A full server takes the second of two nearly tied words at half of such places,
which is what rounding does; its faults are those of `load_faults.py`. Each draw has other prompts. Docs are asked alone
twice and under load once, as the command does.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from load_faults import Faulty
from load_model import Model

from meta_eval.plugins.load.level_decision import Verdicts, count, decide, find_smallest_rate
from meta_eval.plugins.load.signs import OtherTexts, Scored, classify
from meta_eval.plugins.load.thresholds import NEAR_TIE, SHARED, SHARED_UNSCORED
from meta_eval.sockets import Answer

SOUND = {"no parting": (0.0, "none", 0.0), "5 % part": (0.01, "none", 0.0), "30 % part": (0.08, "none", 0.0)}
FAULTS = {
    "answers exchanged, 0.3 %": (0.01, "exchange", 0.003),
    "answers exchanged, 1 %": (0.01, "exchange", 0.01),
    "20 words of another, 2 %": (0.01, "splice", 0.02),
    "a tail lost, 1 %": (0.01, "tail", 0.01),
    "a tail lost, 3 %": (0.01, "tail", 0.03),
}
SIZES = (200, 500)
DRAWS, SMALL_DRAWS = 200, 10


@dataclass(frozen=True)
class Cell:
    """What is drawn."""

    name: str
    docs: int
    is_scored: bool
    tied: float
    fault: str
    share: float


def draw(cell: Cell, seed: int) -> str:
    """The outcome of one draw."""
    rng = random.Random(f"{cell} {seed}")
    model = Model(tied=cell.tied)
    prompts = {doc: f"{seed} {doc} question" for doc in range(cell.docs)}
    alone = {doc: model.write(prompt) for doc, prompt in prompts.items()}
    faulty = Faulty(cell.fault, cell.share, 0, rng.randrange(2**32))
    faulty.in_flight = 8
    loaded, tokens = {}, {}
    for doc, prompt in prompts.items():
        text = model.write(prompt, rng, 0.5)
        tokens[doc] = len(text.split())
        loaded[doc] = faulty.spoil(text, faulty.choose(100))
    keys = {("t", doc): prompt for doc, prompt in prompts.items()}
    others = OtherTexts(keys, {key: {alone[key[1]]} for key in keys}, SHARED if cell.is_scored else SHARED_UNSCORED)
    seen = []
    for doc, prompt in prompts.items():
        given = [_answer(doc, alone[doc], len(alone[doc].split()))]
        one = _answer(doc, loaded[doc], tokens[doc])
        scored = None
        if cell.is_scored and loaded[doc] != alone[doc]:
            distances = [distance for distance, _ in model.score(prompt, loaded[doc])][:-1]
            worst = max(range(len(distances)), key=distances.__getitem__)
            scored = Scored(distances[worst], worst)
        foreign = others.find(("t", doc), loaded[doc])
        foreign = None if foreign and foreign in alone[doc] else foreign
        seen.append(classify(given, one, prompt, foreign, scored, NEAR_TIE))
    again = count([classify([_answer(doc, text, 1)], _answer(doc, text, 1), "", None, None, 1.0)
                   for doc, text in alone.items()])  # fmt: skip
    right = {doc: f"is {model.find_gold(prompt)}." for doc, prompt in prompts.items()}
    before, after = ({doc for doc in prompts if texts[doc].endswith(right[doc])} for texts in (alone, loaded))
    verdicts = Verdicts(cell.docs, len(before - after), len(after - before))
    return decide(count(seen), again, verdicts).outcome


def _answer(doc: int, text: str, tokens: int) -> Answer:
    return Answer(id=f"t/{doc}", text=text, finish_reason="stop", completion_tokens=tokens)


def measure(cells: Sequence[Cell], draws: int) -> dict[Cell, Counter[str]]:
    """The outcomes of so many draws of each cell."""
    jobs = [(cell, seed) for cell in cells for seed in range(draws)]
    with ProcessPoolExecutor(2) as pool:
        outcomes = pool.map(_draw, jobs, chunksize=8)
        counts: dict[Cell, Counter[str]] = {cell: Counter() for cell in cells}
        for (cell, _), outcome in zip(jobs, outcomes, strict=True):
            counts[cell][outcome] += 1
    return counts


def _draw(job: tuple[Cell, int]) -> str:
    return draw(*job)


def main() -> None:
    """Print the table; end with 1 where a rate is not what the page promises."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    draws, sizes = (SMALL_DRAWS, SIZES[:1]) if small else (DRAWS, SIZES)
    cells = [
        Cell(name, docs, is_scored, *kind)
        for name, kind in {**SOUND, **FAULTS}.items() for docs in sizes for is_scored in (True, False)
    ]  # fmt: skip
    counts = measure(cells, draws)
    print(f"Percent of {draws} draws: same / worse / undecided.\n")
    heads = [f"{docs}{'' if scored else ', not scored'}" for docs in sizes for scored in (True, False)]
    print(f"| | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for name in {**SOUND, **FAULTS}:
        row = [counts[cell] for cell in cells if cell.name == name]
        shown = ["/".join(f"{100 * found[o] / draws:.0f}" for o in ("same", "worse", "undecided")) for found in row]
        print(f"| {name} | {' | '.join(shown)} |")
    alone = count([])
    print(
        "\nSmallest rate found in 95 %:", ", ".join(f"{n}: {100 * find_smallest_rate(n, alone):.1f} %" for n in sizes)
    )
    wrong = [cell for cell in cells if cell.fault == "none" and counts[cell]["worse"] > max(1, 0.01 * draws)]
    found = [
        cell for cell in cells
        if cell.is_scored and (cell.fault, cell.share) == ("splice", 0.02) and counts[cell]["worse"] < 0.8 * draws
    ]  # fmt: skip
    if wrong or found:
        print(f"wrong alarms: {wrong}; not found: {found}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
