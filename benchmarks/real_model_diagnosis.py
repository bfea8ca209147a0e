"""How often `fidelity` names the right cause of a fault of a real model, and how often a wrong one.

    python tools/real_model.py folders COPIES
    python tools/real_tables.py COPIES TABLES --dtype float32
    python benchmarks/real_model_diagnosis.py TABLES

TABLES are fidelity tables of SmolLM2-135M-Instruct and of copies with a fault each, with their probes. Docs are drawn
with replacement from those that were probed, as many short and long ones as there are. The noise is the A/A pair of
another attention kernel. A draw is wrong if it names a single cause that is not the fault's, and it misses if no group
that it names has that cause. CI runs the same draws on taught models (`tests/plugins/tokens`).
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np
from fidelity_power import LABELS, TRUTH, misnamed, sample

from meta_eval.judge.token_table import read_tokens
from meta_eval.plugins.tokens.causes import POSITIONS, QUANTISED, TEMPLATE
from meta_eval.plugins.tokens.comparison import compare_tables
from meta_eval.plugins.tokens.diagnosis import diagnose
from meta_eval.plugins.tokens.diagnosis_case import ProbePair
from meta_eval.plugins.tokens.perturbations import NO_BOS
from meta_eval.plugins.tokens.probe_table import read_probes
from meta_eval.plugins.tokens.table_pairing import Pair, pair_tables
from meta_eval.plugins.tokens.yardstick import Noise, measure_docs

DRAWS = 40
NOISE = "eager"
# Copies that tools/real_tables.py makes besides those of tools/forced_tokens.py.
TRUTH |= {
    "system": TEMPLATE, "template": TEMPLATE, "rope": POSITIONS, "lora": QUANTISED, "q4": QUANTISED, "q5": QUANTISED,
    "fp8w": QUANTISED, "int6": QUANTISED,
}  # fmt: skip


def draw(folder: Path, name: str, draws: int) -> Counter[tuple[str, tuple[str, ...]]]:
    """Verdicts and the groups that are named, over draws of the docs."""
    reference, copy, noise = (read_tokens(folder / f"{table}.parquet") for table in ("reference", name, NOISE))
    pair_tables(reference, copy)
    measured = measure_docs(pair_tables(reference, noise))
    distances = dict(
        zip(zip(measured.tasks.tolist(), measured.docs, strict=True), measured.values.tolist(), strict=True)
    )
    sides = [({(row.task, row.doc): row for row in table}, read_probes(table.path)) for table in (reference, copy)]
    probes = sides[0][1]
    keys = [sorted({key[:2] for key in probes if (key[2] == NO_BOS) == is_short}) for is_short in (True, False)]
    rng, seen = np.random.default_rng(7), Counter[tuple[str, tuple[str, ...]]]()
    for _ in range(draws):
        some = [of[at] for of in keys for at in (rng.integers(len(of), size=len(of)) if of else ())]
        (first, ours), (second, theirs) = (sample(*side, some) for side in sides)
        both = Pair(first, second, None, 0.0, 0, 0, 0)
        yardstick = Noise(
            {(key[0], number): distances[key] for number, key in enumerate(some) if key in distances}, ("kernel",)
        )
        judged = compare_tables(both, yardstick)
        finding = diagnose(judged, both, ProbePair(both, ours, theirs))
        seen[judged.outcome, finding.groups if finding else ()] += 1
    return seen


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", type=Path)
    parser.add_argument("--draws", type=int, default=DRAWS)
    chosen = parser.parse_args()
    total = Counter[str]()
    for name in sorted(path.stem for path in chosen.tables.glob("*.parquet") if "." not in path.stem):
        if name not in TRUTH:
            continue
        seen = draw(chosen.tables, name, chosen.draws)
        named, wrong, missed = misnamed(name, seen)
        different = sum(count for (outcome, _), count in seen.items() if outcome == "different")
        right = sum(count for (outcome, groups), count in seen.items() if outcome == "different" and groups) - missed
        total.update(named=named, wrong=wrong, missed=missed, different=different, right=max(0, right))
        groups = Counter[str]()
        for (_, said), count in seen.items():
            groups[" or ".join(LABELS[group] for group in said) or "nothing"] += count
        print(f"{name:18} different {different:3}, named {named:3}, wrong {wrong:3}, missed {missed:3}: {dict(groups)}")
    print(f"all: {dict(total)}")


if __name__ == "__main__":
    main()
