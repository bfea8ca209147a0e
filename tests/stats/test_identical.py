"""The worse end that few identical copies exceed, beside copies that are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from places import THOROUGH

from meta_eval import stats
from meta_eval.stats.identical import worst_end


@pytest.mark.parametrize(("docs", "flips"), [(100, 0.02), (164, 0.06), (448, 0.04), (1319, 0.05)])
def test_few_identical_copies_exceed_it(docs: int, flips: float) -> None:
    rng = np.random.default_rng(docs)
    runs, chance = 4000 if THOROUGH else 400, 0.05
    like = stats.paired_drop([0.0] * docs, [0.0] * docs)
    end = worst_end(like, flips, chance)
    lost, won = rng.binomial(docs, flips / 2, (2, runs)).tolist()
    ends = [
        stats.paired_drop([1.0] * down + [0.0] * (docs - down), [0.0] * down + [1.0] * up + [0.0] * (docs - down - up))
        .interval()
        .upper
        for down, up in zip(lost, won, strict=True)
    ]
    beyond = sum(value > end for value in ends) / runs
    assert beyond <= chance + 3 * (chance * (1 - chance) / runs) ** 0.5
    assert end < max(ends) + 1e-9 or beyond == 0


def test_more_flips_and_less_chance_go_further() -> None:
    like = stats.paired_drop([0.0] * 448, [0.0] * 448)
    assert worst_end(like, 0.02, 0.01) < worst_end(like, 0.06, 0.01) < worst_end(like, 0.06, 0.001)
