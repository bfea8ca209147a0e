"""How often `load` calls a server worse, same or undecided: sound and faulty ones, with and without scored answers.

    python benchmarks/load.py [--small]

Answers are those of `load_model.Model`. A full server takes the second of two nearly tied words at half of such places,
which is what rounding does. Some answers end a word or a sentence early or late, and some part in a sentence that
another answer has, too. Faults are those of `load_faults.py`, of a server of which 4 % part. Each draw takes docs of
2,000. They are asked alone twice and under load once, as the command does.
"""

from __future__ import annotations

import argparse
import functools
import heapq
import random
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

from load_faults import Faulty
from load_model import TIE, WORDS, Model

from meta_eval.plugins.load.in_flight import find_in_flight
from meta_eval.plugins.load.level_decision import Counts, Verdicts, count, decide, find_smallest_rate
from meta_eval.plugins.load.signs import OtherTexts, ScoredSign, Seen, classify
from meta_eval.plugins.load.thresholds import NEAR_TIE, SHARED, SHARED_UNSCORED
from meta_eval.sockets import Answer


@dataclass(frozen=True)
class Sound:
    """Where a sound server parts."""

    tied: float = 0.0
    """The share of words at which two are nearly as likely."""

    tied_ends: float = 0.0
    """The share of answers that end a word or a sentence early or late."""

    in_stock: bool = False
    """Whether the other words are a stock sentence, which another answer has, too."""


SOUND = {
    "no parting": Sound(),
    "4 % part": Sound(0.0065, 0.008),
    "10 % part": Sound(0.016, 0.02),
    "30 % part": Sound(0.054, 0.06),
    "10 % part, in stock sentences": Sound(0.016, 0.02, in_stock=True),
    "30 % part, in stock sentences": Sound(0.054, 0.06, in_stock=True),
}
FAULTS = {
    "answers exchanged, 0.3 %": ("exchange", 0.003),
    "answers exchanged, 1 %": ("exchange", 0.01),
    "20 words of another, 2 %": ("splice", 0.02),
    "a tail lost, 1 %": ("tail", 0.01),
    "a tail lost, 3 %": ("tail", 0.03),
    "a tail lost and not counted, 3 %": ("uncounted tail", 0.03),
}
# The least share of draws that must be found.
FOUND = {"20 words of another, 2 %": 0.7, "a tail lost, 3 %": 0.9}
SIZES = (200, 500)
DRAWS, FAULT_DRAWS, SMALL_DRAWS = 1000, 200, 10
LEVEL, PROMPTS = 8, 2000
OUTCOMES = (("same", "no fault seen"), ("worse",), ("undecided",))
ENDS = (" Indeed.", " Let me know if you want to know more.")


@dataclass(frozen=True)
class Cell:
    """What is drawn."""

    name: str
    docs: int
    is_scored: bool
    sound: Sound
    fault: str = "none"
    share: float = 0.0


class Written(NamedTuple):
    """What the model writes alone: the text, what it has if it is right, and whether a place is tied."""

    text: str
    right: str
    is_tied: bool


@functools.cache
def write_alone(tied: float) -> dict[str, Written]:
    """By prompt what a model writes alone."""
    model, written = Model(tied=tied), {}
    for prompt in (f"{number} question" for number in range(PROMPTS)):
        text = model.write(prompt)
        words = text.split()
        is_tied = any(len(model.find_words(prompt, tuple(words[:at]))) > 1 for at in range(len(words)))
        written[prompt] = Written(text, f"is {model.find_gold(prompt)}.", is_tied)
    return written


def draw(cell: Cell, seed: int) -> str:
    """The outcome of one draw."""
    rng = random.Random(f"{cell} {seed}")
    model, written = Model(tied=cell.sound.tied), write_alone(cell.sound.tied)
    prompts = dict(enumerate(rng.sample(sorted(written), cell.docs)))
    alone = {doc: written[prompt].text for doc, prompt in prompts.items()}
    right = {doc: written[prompt].right for doc, prompt in prompts.items()}
    loaded = {
        doc: model.write(prompt, rng, 0.5) if written[prompt].is_tied else alone[doc] for doc, prompt in prompts.items()
    }
    for doc in prompts:  # which of two nearly tied words is chosen alone is chance, too
        if rng.random() < 0.5:
            alone[doc], loaded[doc] = loaded[doc], alone[doc]
    _part_soundly(cell.sound, rng, alone, loaded)
    near = {doc for doc, text in loaded.items() if text != alone[doc]}  # the model's own tokens
    spans = _draw_spans(rng, list(prompts))
    faulty = Faulty(cell.fault.removeprefix("uncounted "), cell.share, 0, rng.randrange(2**32))
    faulty.in_flight = LEVEL
    tokens = {doc: len(text.split()) for doc, text in loaded.items()}
    for doc in sorted(spans, key=spans.__getitem__):
        text = faulty.spoil(loaded[doc], faulty.choose(100))
        if text != loaded[doc]:
            near.discard(doc)
            tokens[doc] = len(text.split()) if "uncounted" in cell.fault else tokens[doc]
            loaded[doc] = text
    keys = {("t", doc): prompt for doc, prompt in prompts.items()}
    others = OtherTexts(keys, {key: {alone[key[1]]} for key in keys}, SHARED if cell.is_scored else SHARED_UNSCORED)
    parted = [doc for doc, text in loaded.items() if text != alone[doc]]
    found = {("t", doc): others.find(("t", doc), loaded[doc]) for doc in parted}
    foreign = {key: part for key, part in found.items() if part is not None}
    by_chance = False
    if not cell.is_scored:
        in_flight, by_chance = find_in_flight(
            {key: others.find_owner(part) for key, part in foreign.items()}, {("t", doc): spans[doc] for doc in spans}
        )
        foreign = {key: part for key, part in foreign.items() if key in in_flight}
    seen = [Seen("t", doc, "same") for doc in prompts.keys() - parted]
    for doc in parted:
        prompt = prompts[doc]
        scored = _score(model, prompt, loaded[doc], doc in near) if cell.is_scored else None
        given = _answer(doc, alone[doc], len(alone[doc].split()))
        one = _answer(doc, loaded[doc], tokens[doc])
        seen.append(classify([given], one, prompt, foreign.get(("t", doc)), scored, NEAR_TIE, by_chance=by_chance))
    again = Counts(cell.docs, cell.docs, 0, 0, 0, 0, ())
    before, after = ({doc for doc in prompts if right[doc] in texts[doc]} for texts in (alone, loaded))
    verdicts = Verdicts(cell.docs, len(before - after), len(after - before))
    return decide(count(seen), again, verdicts, is_scored=cell.is_scored).outcome


def _part_soundly(sound: Sound, rng: random.Random, alone: dict[int, str], loaded: dict[int, str]) -> None:
    """Put ends and stock sentences into answers."""
    parted = [doc for doc, text in loaded.items() if text != alone[doc]]
    for doc in alone:
        if rng.random() < sound.tied_ends:
            longer = rng.choice((alone, loaded))
            longer[doc] += rng.choice(ENDS)
    for doc in parted if sound.in_stock else ():
        stock, owner = " ".join(rng.choices(WORDS, k=20)), rng.choice(list(alone))
        if owner != doc:
            words = loaded[doc].split(" ")
            loaded[doc] = " ".join([*words[:5], stock, *words[5:]])
            alone[owner], loaded[owner] = f"{stock} {alone[owner]}", f"{stock} {loaded[owner]}"


def _draw_spans(rng: random.Random, docs: list[int]) -> dict[int, tuple[float, float]]:
    """When each doc is asked, in a random order, `LEVEL` in flight."""
    rng.shuffle(docs)
    free, spans = [0.0] * LEVEL, {}
    for doc in docs:
        began = heapq.heappop(free)
        spans[doc] = began, began + rng.uniform(0.8, 1.2)
        heapq.heappush(free, spans[doc][1])
    return spans


def _score(model: Model, prompt: str, text: str, is_near: bool) -> ScoredSign:
    if is_near:
        return ScoredSign(TIE, 0)
    distances = [distance for distance, _ in model.score(prompt, text)][:-1]
    worst = max(range(len(distances)), key=distances.__getitem__)
    return ScoredSign(distances[worst], worst)


def _answer(doc: int, text: str, tokens: int) -> Answer:
    return Answer(id=f"t/{doc}", text=text, finish_reason="stop", completion_tokens=tokens)


def measure(cells: Mapping[Cell, int]) -> dict[Cell, Counter[str]]:
    """The outcomes of so many draws of each cell."""
    jobs = [(cell, seed) for cell, draws in cells.items() for seed in range(draws)]
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
    sizes = SIZES[:1] if small else SIZES
    kinds: dict[str, tuple[Any, ...]] = {name: (sound,) for name, sound in SOUND.items()}
    kinds |= {name: (SOUND["4 % part"], *fault) for name, fault in FAULTS.items()}
    cells = {
        Cell(name, docs, is_scored, *kind): SMALL_DRAWS if small else DRAWS if name in SOUND else FAULT_DRAWS
        for name, kind in kinds.items() for docs in sizes for is_scored in (True, False)
    }  # fmt: skip
    counts = measure(cells)
    print(f"Percent of draws: same, or no fault seen / worse / undecided. {DRAWS} draws, of faults {FAULT_DRAWS}.\n")
    heads = [f"{docs}{'' if scored else ', not scored'}" for docs in sizes for scored in (True, False)]
    print(f"| | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for name in kinds:
        row = [cell for cell in cells if cell.name == name]
        print(f"| {name} | {' | '.join(_write(counts[cell], cells[cell]) for cell in row)} |")
    print(
        "\nSmallest rate found in 95 %:",
        ", ".join(f"{n}: {100 * find_smallest_rate(n, count([])):.1f} %" for n in sizes),
    )
    worse = {cell: counts[cell]["worse"] / draws for cell, draws in cells.items()}
    wrong = [cell for cell in cells if cell.fault == "none" and worse[cell] > max(0.01, 1 / cells[cell])]
    missed = [cell for cell in cells if worse[cell] < FOUND.get(cell.name, 0.0) - small]
    if wrong or missed:
        print(f"wrong alarms: {wrong}; not found: {missed}", file=sys.stderr)
        sys.exit(1)


def _write(counts: Counter[str], draws: int) -> str:
    """The percent of draws of each of `OUTCOMES`."""
    shares = (100 * sum(counts[outcome] for outcome in some) / draws for some in OUTCOMES)
    return "/".join(f"{share:.1f}".removesuffix(".0") for share in shares)


if __name__ == "__main__":
    main()
