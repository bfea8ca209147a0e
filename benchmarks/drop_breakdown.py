"""How often the three parts of a drop hold the truth: simulated docs through `stats.break_down_drop`.

    python benchmarks/drop_breakdown.py                  1,000 runs of each case; under a minute
    python benchmarks/drop_breakdown.py --runs 2000
    python benchmarks/drop_breakdown.py --small          a few runs of each: CI

Of each doc a recorded verdict is drawn; the grader takes some wrong ones for right or right ones for wrong, the model
loses some, and some docs are asked with another prompt, of which a further share is lost. The truth of each figure is
what these shares come to over all docs that could have been asked. Coverage should be 95 % at least; the exit code is 1
where it is less by more than chance.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np
from counting import Table, main, rate

from meta_eval import stats

# Docs, accuracy, flips each way besides; shares that grader, model and prompt lose; the share asked otherwise; docs of
# one cluster, which are graded, answered and asked alike.
CASES: Sequence[tuple[str, int, float, float, float, float, float, float, int]] = (
    ("nothing differs but 4 % of flips", 1000, 0.6, 0.02, 0.0, 0.0, 0.0, 0.0, 1),
    ("all three", 1000, 0.6, 0.02, 0.01, 0.03, 0.05, 0.3, 1),
    ("few docs, all three", 100, 0.6, 0.02, 0.02, 0.05, 0.10, 0.3, 1),
    ("one doc in fifty asked otherwise", 1000, 0.6, 0.02, 0.0, 0.02, 0.3, 0.02, 1),
    ("nineteen in twenty asked otherwise", 1000, 0.6, 0.02, 0.0, 0.02, 0.05, 0.95, 1),
    ("clusters of four, all three", 1000, 0.6, 0.02, 0.01, 0.03, 0.05, 0.3, 4),
)


def coverage(runs: int) -> None:
    table = Table(
        f"The 95 % interval holds the truth, percent of {runs:,} runs (at least 95)",
        "what is true", "docs", "total", "grader", "model", "prompts",
    )  # fmt: skip
    for name, docs, right, noise, grader, model, prompt, share, size in CASES:
        rng = np.random.default_rng(7)
        held: Counter[str] = Counter()
        known = 0
        after_model = (1 - right - grader * (1 - right)) * noise  # what flips from wrong to right
        kept = right + grader * (1 - right)
        true_model = kept * (model + noise) - after_model
        true = {
            "grader": -grader * (1 - right),
            "model": true_model,
            "prompts": share * kept * (1 - model - noise) * prompt,
        }
        true["total"] = sum(true.values())
        for _ in range(runs):
            groups = docs // size

            def drawn(
                chance: float, groups: int = groups, size: int = size, rng: np.random.Generator = rng
            ) -> np.ndarray:
                return np.repeat(rng.random(groups) < chance, size)

            recorded = drawn(right)
            regraded = recorded | (drawn(grader) & ~recorded)
            lost, won, other, by_prompt = drawn(model + noise), drawn(noise), drawn(share), drawn(prompt)
            new = np.where(regraded, ~lost & ~(other & by_prompt), won)
            decomposition = stats.break_down_drop(
                recorded.astype(float), regraded.astype(float), new.astype(float), list(~other),
                clusters=None if size == 1 else np.repeat(np.arange(groups), size).tolist(),
            )  # fmt: skip
            if decomposition.model is None or decomposition.prompts is None:
                continue
            known += 1
            intervals = {
                "total": decomposition.total.interval(),
                "grader": decomposition.grader.interval(),
                "model": decomposition.model.interval(),
                "prompts": decomposition.prompts.interval,
            }
            held.update(part for part, interval in intervals.items() if true[part] in interval)
        parts = ("total", "grader", "model", "prompts")
        table.row(name, f"{docs:,}", *(rate(held[part], known, 0.95) for part in parts))


if __name__ == "__main__":
    sys.exit(main(__doc__ or "", {"coverage": coverage}))
