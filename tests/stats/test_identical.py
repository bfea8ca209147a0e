"""The worse end that few identical copies exceed, beside copies that are drawn."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import THOROUGH

from meta_eval import stats
from meta_eval.stats.identical import (
    chance_within,
    expect_copy,
    margin_within,
    narrow_drop,
    of_counts,
    skellam_quantile,
    worst_end,
)
from meta_eval.stats.intervals import t_quantile


@functools.cache
def upper_end(docs: int, lost: int, won: int) -> float:
    """The upper end of a drop's interval. Many draws have the same counts."""
    same = docs - lost - won
    before, after = [1.0] * lost + [0.0] * (won + same), [0.0] * lost + [1.0] * won + [0.0] * same
    return stats.paired_drop(before, after).interval().upper


@pytest.mark.parametrize(("docs", "flips"), [(100, 0.02), (164, 0.06), (448, 0.04), (1319, 0.05)])
def test_few_identical_copies_exceed_it(docs: int, flips: float) -> None:
    rng = np.random.default_rng(docs)
    runs, chance = 1500 if THOROUGH else 200, 0.05
    like = stats.paired_drop([0.0] * docs, [0.0] * docs)
    end = worst_end(like, flips, chance)
    lost, won = rng.binomial(docs, flips / 2, (2, runs)).tolist()
    ends = [upper_end(docs, down, up) for down, up in zip(lost, won, strict=True)]
    beyond = sum(value > end for value in ends) / runs
    assert beyond <= chance + 3 * (chance * (1 - chance) / runs) ** 0.5
    assert end < max(ends) + 1e-9 or beyond == 0


def test_more_flips_and_less_chance_go_further() -> None:
    like = stats.paired_drop([0.0] * 448, [0.0] * 448)
    assert worst_end(like, 0.02, 0.01) < worst_end(like, 0.06, 0.01) < worst_end(like, 0.06, 0.001)


@pytest.mark.parametrize(("docs", "flips", "margin"), [(198, 0.04, 0.05), (448, 0.06, 0.03), (1319, 0.04, 0.02)])
def test_as_many_copies_are_within_the_margin_as_is_said(docs: int, flips: float, margin: float) -> None:
    rng, runs = np.random.default_rng(docs), 1500 if THOROUGH else 400
    drawn = rng.multinomial(docs, [flips / 2, flips / 2, 1 - flips], runs).tolist()
    ends = [upper_end(docs, lost, won) for lost, won, _ in drawn]
    expected = expect_copy(docs, flips)
    for allowed, chance in ((margin, chance_within(expected, margin)), (margin_within(expected) + 1e-9, 0.95)):
        share = sum(end < allowed for end in ends) / runs
        assert abs(share - chance) < 0.02 + 3 * (chance * (1 - chance) / runs) ** 0.5


@given(docs=st.integers(30, 3000), flips=st.floats(0.0, 0.3), margin=st.floats(0.005, 0.2))
def test_more_docs_a_wider_margin_and_fewer_flips_ship_more_often(docs: int, flips: float, margin: float) -> None:
    """But for whole flips: the fewer there are, the larger is a step of what is counted."""
    chance, step = chance_within(expect_copy(docs, flips), margin), 0.03 + 0.15 / (1 + docs * flips) ** 0.5
    assert 0 <= chance <= chance_within(expect_copy(docs, flips), margin * 1.1) + 1e-9 <= 1 + 2e-9
    assert chance <= chance_within(expect_copy(2 * docs, flips), margin) + step
    assert chance <= chance_within(expect_copy(docs, flips / 2), margin) + step


@given(docs=st.integers(30, 3000), flips=st.floats(0.01, 0.3), chance=st.floats(0.5, 0.99))
def test_the_margin_of_a_chance_has_this_chance(docs: int, flips: float, chance: float) -> None:
    expected = expect_copy(docs, flips)
    margin = margin_within(expected, chance)
    assert chance_within(expected, margin) < chance + 1e-9
    assert margin == 1 or chance_within(expected, margin + 1e-9) >= chance - 1e-9
    assert margin_within(narrow_drop(expected, 0.5), chance) <= margin + expected.grain


def test_worse_ends_are_those_of_intervals() -> None:
    """One formula, for single drops and for all that may come."""
    from meta_eval.stats.identical import _worse_ends

    expected = expect_copy(90, 0.1, [place % 3 for place in range(90)], [place // 2 for place in range(90)])
    ends = {round(float(end), 12) for end in _worse_ends(expected)[0]}
    for lost, won in ((0, 0), (3, 1), (0, 4), (7, 7)):
        assert round(of_counts(expected, lost, won, 1 / 90).interval().upper, 12) in ends


def test_clusters_count_instead_of_docs() -> None:
    alone, together = expect_copy(600, 0.04), expect_copy(600, 0.04, clusters=[place // 10 for place in range(600)])
    assert (together.docs, together.clusters, together.variance) == (600, 60, pytest.approx(alone.variance))
    # Of 60 clusters one in 17 may be lost whole, though none was.
    assert margin_within(alone) < 1 - 0.025 ** (1 / 60) < margin_within(together) < 0.1


@pytest.mark.parametrize(("alike", "margin"), [(0.0, 0.02), (0.3, 0.03), (1.0, 0.04)])
def test_copies_whose_clusters_flip_alike_are_within_the_margin_as_is_said(alike: float, margin: float) -> None:
    """benchmarks/plans.py has the large simulation."""
    rng, runs, clusters = np.random.default_rng(3), 400 if THOROUGH else 120, [place // 6 for place in range(1200)]
    within = 0
    for _ in range(runs):
        together = rng.random((200, 6)) < alike**0.5
        luck = np.where(together, rng.random((200, 1)), rng.random((200, 6))).ravel()
        before, after = (luck < 0.03).astype(float), ((luck >= 0.03) & (luck < 0.06)).astype(float)
        within += stats.paired_drop(before.tolist(), after.tolist(), None, clusters).interval().upper < margin
    chance = chance_within(expect_copy(1200, 0.06, clusters=clusters, alike=alike), margin)
    assert abs(within / runs - chance) < 0.04 + 3 * (chance * (1 - chance) / runs) ** 0.5


def test_quantiles_of_students_distribution_are_scipys() -> None:
    from scipy.stats import t

    for freedom in (3, 149.5, 150, 197, 541.3, 12_031, 1e9):
        for level in (0.5, 0.95, 0.99, 0.999):
            assert t_quantile(level, freedom) == pytest.approx(t.ppf((1 + level) / 2, freedom), rel=1e-9)
    assert t_quantile(0.95, np.inf) == pytest.approx(1.959963984540054, rel=1e-15)


def test_quantiles_of_differences_are_scipys() -> None:
    from scipy.stats import skellam

    for mean in (0.5, 1.0, 3.3, 20.0, 300.0):
        for chance in (0.01, 0.5, 0.9, 0.99, 0.9999):
            assert skellam_quantile(chance, mean) == int(skellam.ppf(chance, mean, mean))


def test_weights_do_not_hang_on_the_drops() -> None:
    sizes = (100, 300, 600)
    drops = [expect_copy(size, flips) for size, flips in zip(sizes, (0.3, 0.0, 0.1), strict=True)]
    shared = expect_copy(600, 0.1, clusters=[place // 2 for place in range(600)])
    assert stats.weigh_tasks(drops, "equal") == pytest.approx([1 / 3] * 3)
    assert stats.weigh_tasks(drops, "docs") == pytest.approx([0.1, 0.3, 0.6])
    assert stats.weigh_tasks(drops) == pytest.approx([0.1, 0.3, 0.6])
    assert stats.weigh_tasks([*drops[:2], shared]) == pytest.approx([1 / 7, 3 / 7, 3 / 7])
