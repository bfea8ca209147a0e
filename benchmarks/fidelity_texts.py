"""Where greedy texts of copies of a real model part, and how often `compare --texts` calls a copy different.

    python benchmarks/fidelity_texts.py [--small]          the table of docs/method/same_model.md; small: checked alone
    python benchmarks/fidelity_texts.py --write TABLES     measure the flips first

``real_model_flips.csv`` has a row per doc and a column per copy of SmolLM2-135M-Instruct in bfloat16: the places, from
0, where the copy's likeliest token is not the reference's, each with the gap of the two under the reference, nats.
Of greedy answers the first flip is where the copy's own text parts. TABLES come from::

    python tools/real_model.py folders COPIES
    python tools/real_tables.py COPIES TABLES --no-probes --only reference batch eager float32
    python tools/real_tables.py COPIES TABLES --no-probes --only int8 q8 lora fp8w fp8wa q5 q4 --tasks greedy
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from fidelity_noise import COPIES, IDENTICAL, check

from meta_eval.base.thresholds import NEAR_TIE_NATS
from meta_eval.judge.text_partings import TextComparison, TextPair, TextVocabulary, compare_greedy_texts
from meta_eval.judge.token_table import Forced, read_tokens

FLIPS = Path(__file__).parent / "real_model_flips.csv"
DRAWS, DRAWN = 1000, 50
TASK = "greedy"
UNDER_FLOAT32 = "under_float32"  # the reference's tokens under a table in float32
COARSE = ("fp8w", "fp8wa", "q5", "q4")  # called different in nearly all draws
# By place the gap, nats; None where a table does not tell.
Flips = dict[int, float | None]
# A character for each token.
_FIRST = 0x100
VOCABULARY = TextVocabulary(
    lambda text: [ord(character) - _FIRST for character in text],
    lambda ids: "".join(chr(_FIRST + token) for token in ids),
)


# Measuring


def measure_flips(reference: Sequence[Forced], copy: Sequence[Forced]) -> dict[tuple[str, int], Flips]:
    """By doc of the copy, where its likeliest token is not the reference's."""
    rows = {(row.task, row.doc): row for row in reference}
    pairs: list[TextPair] = []
    table: dict[str, Forced] = {}
    result: dict[tuple[str, int], Flips] = {}
    for other in copy:
        row = rows[other.task, other.doc]
        assert np.array_equal(row.token_ids, other.token_ids)
        result[row.task, row.doc] = {}
        for at in np.flatnonzero(row.top_ids != other.top_ids).tolist():
            scored = end_at(row, at)
            key = f"{row.task}/{row.doc}/{at}"
            table[key], ids = scored, scored.token_ids.tolist()
            words = [VOCABULARY.decode([*ids[:at], token]) for token in (ids[at], int(other.top_ids[at]))]
            pairs.append(TextPair(row.task, row.doc, words[0], words[1], key))
    for parting in compare_greedy_texts(pairs, VOCABULARY, [table]).partings if pairs else ():
        result[parting.task, parting.doc][parting.at - 1] = parting.gap
    return result


def end_at(row: Forced, at: int) -> Forced:
    """The start of an answer, with the likeliest token at its end."""
    assert row.top_k_ids is not None and row.top_k_logprobs is not None
    size = slice(at + 1)
    return replace(
        row, token_ids=np.append(row.token_ids[:at], row.top_ids[at]),
        logprobs=np.append(row.logprobs[:at], row.top_logprobs[at]), ranks=row.ranks[size], top_ids=row.top_ids[size],
        top_logprobs=row.top_logprobs[size], top_k_ids=row.top_k_ids[size], top_k_logprobs=row.top_k_logprobs[size],
    )  # fmt: skip


def write_flips(tables: Path) -> None:
    """Write the flips of the tables in a folder."""
    read = {path.stem: list(read_tokens(path)) for path in tables.glob("*.parquet")}
    reference = read["reference"]
    names = [name for name in (*IDENTICAL, *COPIES) if name in read]
    flips = {name: measure_flips(reference, read[name]) for name in names}
    flips[UNDER_FLOAT32] = measure_flips(read["float32"], reference)
    with FLIPS.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["task", "doc", "tokens", *flips])
        for row in reference:
            cells = [of.get((row.task, row.doc)) for of in flips.values()]
            out.writerow(
                [row.task, row.doc, len(row.token_ids), *("-" if cell is None else spell(cell) for cell in cells)]
            )


def spell(flips: Flips) -> str:
    """``4:0.25 9:``; a gap that is not measured is empty."""
    return " ".join(f"{at}:{'' if gap is None else format(gap, '.3g')}" for at, gap in sorted(flips.items()))


def read_flips() -> tuple[list[tuple[str, int]], dict[str, list[Flips | None]]]:
    """The task and tokens of each doc, and by copy its flips; None for a doc that the copy was not asked."""
    with FLIPS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name not in ("task", "doc", "tokens")]
    return [(row["task"], int(row["tokens"])) for row in rows], {
        name: [None if row[name] == "-" else parse(row[name]) for row in rows] for name in names
    }


def parse(cell: str) -> Flips:
    """The flips of a cell."""
    return {int(at): float(gap) if gap else None for at, _, gap in (flip.partition(":") for flip in cell.split())}


# Deciding


def compare(docs: Sequence[tuple[int, Flips]]) -> TextComparison:
    """Compare texts with these tokens and flips, of which the first counts."""
    pairs, table = [], {}
    for number, (tokens, flips) in enumerate(docs):
        ids = np.full(tokens, 1, np.int32)
        text = VOCABULARY.decode(ids.tolist())
        at = min(flips, default=tokens)
        other = text[:at] + VOCABULARY.decode([2] * (tokens - at))
        pairs.append(TextPair(TASK, number, text, other, str(number)))
        gap, likely = flips.get(at), np.full(tokens, -1.0, np.float32)
        if gap is not None:
            kept = np.tile(np.array([1, 2], np.int32), (tokens, 1))
            logprobs = np.tile(np.array([-1.0, -1.0 - gap], np.float32), (tokens, 1))
            table[str(number)] = Forced(TASK, None, number, "", 0, ids, likely, ids, ids, likely, kept, logprobs)
    return compare_greedy_texts(pairs, VOCABULARY, [table])


def count_different(docs: Sequence[tuple[int, Flips]], draws: int) -> int:
    """How many draws of docs with replacement are called different."""
    rng = np.random.default_rng(5)
    picks = rng.integers(len(docs), size=(draws, DRAWN))
    return sum(compare([docs[at] for at in pick]).outcome == "different" for pick in picks)


def largest(gaps: Iterable[float | None]) -> float:
    """The largest gap; infinite if one is not measured."""
    return max((np.inf if gap is None else gap for gap in gaps), default=0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--write", type=Path, metavar="TABLES")
    chosen = parser.parse_args()
    if chosen.write:
        write_flips(chosen.write)
    docs, flips = read_flips()
    draws = 10 if chosen.small else DRAWS
    greedy = [at for at, (task, _) in enumerate(docs) if task == TASK]
    mean = np.mean([docs[at][1] for at in greedy])
    print(f"{len(greedy)} greedy answers of {mean:.0f} tokens; {draws:,} draws of {DRAWN} docs each\n")
    print("| copy | texts that part | changes | largest gap | percent of draws called different |")
    print("|---|--:|--:|--:|--:|")
    for name in (name for name in flips if name != UNDER_FLOAT32):
        some = [(docs[at][1], flips[name][at] or {}) for at in greedy]
        found = compare(some)
        figures = found.figures[0]
        different = count_different(some, draws)
        gap = largest(parting.gap for parting in found.partings)
        words, share = (IDENTICAL | COPIES)[name], 100 * different / draws
        print(f"| {words} | {figures.partings} | {figures.changes} | {gap:.2g} | {share:.1f} |")
        check(name, name not in IDENTICAL or not figures.changes + figures.not_measured + different)
        check(name, name not in COARSE or different >= 0.95 * draws)
    same = [gap for name in IDENTICAL for cell in flips.get(name, ()) for gap in (cell or {}).values()]
    tokens = sum(docs[at][1] for name in IDENTICAL for at, cell in enumerate(flips.get(name, ())) if cell is not None)
    most, mixed = largest(same), largest(gap for cell in flips[UNDER_FLOAT32] for gap in (cell or {}).values())
    at_most = 1 - 0.05 ** (1 / len(same))  # Clopper and Pearson, one-sided, 95 %
    print(
        f"\nThe same weights choose {len(same):,} of {tokens:,} tokens of all texts differently, no gap above "
        f"{most:.2g}: at most {100 * at_most:.1f} % of such flips are changes"
    )
    print(f"Under a table in float32 no gap is above {mixed:.2g}")
    check("the same weights", max(most, mixed) <= NEAR_TIE_NATS)


if __name__ == "__main__":
    main()
