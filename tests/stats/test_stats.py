"""Statistics against hand-computed cases, scipy, references written out here, and simulation with fixed seeds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from marks import thorough
from places import THOROUGH

from meta_eval import stats
from meta_eval.stats.clustered_mean import average_docs

RUNS = 400 if THOROUGH else 200

shares = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=40)
scores = st.lists(st.floats(0, 1), min_size=1, max_size=40)


def half_width(interval: stats.Interval) -> float:
    return (interval.upper - interval.lower) / 2


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (3, 10), (10, 10), (448, 1000), (1, 1)])
def test_wilson_is_scipys(successes: int, n: int) -> None:
    expected = scipy.stats.binomtest(successes, n).proportion_ci(0.95, "wilson")
    interval = stats.wilson_interval(successes, n)
    assert (interval.lower, interval.upper) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_what_is_no_share(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="no share"):
        stats.wilson_interval(successes, n)


def test_macro_averages_over_subtasks() -> None:
    assert stats.macro_mean([1, 1, 1, 0], ["a", "a", "a", "b"]) == 0.5
    assert stats.mean([1, 1, 1, 0]) == 0.75


def test_one_stratum_has_wilsons_own_interval() -> None:
    assert stats.stratified_wilson([(30, 40)]) == stats.wilson_interval(30, 40)


def test_strata_without_variation_count_as_one_sample() -> None:
    # Ten subtasks of one doc each, seven of them right: ten docs.
    values = [1.0] * 7 + [0.0] * 3
    interval = stats.score_interval(values, list(range(10)))
    expected = stats.wilson_interval(7, 10)
    assert (interval.lower, interval.upper) == pytest.approx((expected.lower, expected.upper))


@pytest.mark.parametrize(
    ("sizes", "low", "high"),
    [([3] * 6, 0.2, 0.9), ([20] * 7, 0.97, 0.97), ([10, 1000], 0.5, 0.9), ([50] * 30, 0.3, 0.95)],
    ids=["few docs", "near 1", "unequal", "many subtasks"],
)
def test_the_interval_of_a_macro_average_covers(sizes: list[int], low: float, high: float) -> None:
    rng = np.random.default_rng(7)
    truth = np.linspace(low, high, len(sizes))
    covered = sum(
        truth.mean() in stats.stratified_wilson(list(zip(rng.binomial(sizes, truth).tolist(), sizes, strict=True)))
        for _ in range(RUNS)
    )
    assert covered >= 0.93 * RUNS


def test_other_scores_have_the_interval_of_a_share_with_their_variance() -> None:
    values = [0.1, 0.5, 0.9, 0.4, 0.35, 0.8]
    centre, t = np.mean(values), scipy.stats.t.ppf(0.975, 5)
    n = centre * (1 - centre) / scipy.stats.sem(values) ** 2
    ends = (centre + t * t / 2 / n + t * np.array([-1, 1]) * np.sqrt(centre * (1 - centre) / n + (t / n / 2) ** 2)) / (
        1 + t * t / n
    )
    interval = stats.score_interval(values)
    assert (interval.lower, interval.upper) == pytest.approx(tuple(ends), abs=1e-12)


def shares_of_four_answers(rng: np.random.Generator) -> list[float]:
    """25 docs at 0.93: most are always right, some never."""
    return (rng.binomial(4, rng.beta(0.93, 0.07, 25)) / 4).tolist()


def pooled_instructions(rng: np.random.Generator) -> list[float]:
    """40 docs with 1 to 3 instructions each; half of the docs follow all of theirs or none."""
    sizes = rng.integers(1, 4, 40)
    chances = np.where(rng.random(40) < 0.5, rng.random(40) < 0.93, 0.93)
    return stats.pooled_contributions(list(zip(rng.binomial(sizes, chances).tolist(), sizes.tolist(), strict=True)))


def small_noise_and_lost_docs(rng: np.random.Generator) -> list[float]:
    """25 docs near 1, of which each is lost whole with a chance of 7 %."""
    return np.where(rng.random(25) < 0.93, 1 - rng.random(25) / 100, 0.0).tolist()


@pytest.mark.parametrize(
    ("draw", "truth"),
    [(shares_of_four_answers, 0.93), (pooled_instructions, 0.93), (small_noise_and_lost_docs, 0.93 * 0.995)],
)
def test_the_interval_of_a_score_near_1_covers(
    draw: Callable[[np.random.Generator], list[float]], truth: float
) -> None:
    rng = np.random.default_rng(8)
    covered = sum(truth in stats.score_interval(draw(rng)) for _ in range(RUNS))
    assert 0.94 * RUNS <= covered <= 0.985 * RUNS


def test_scores_that_do_not_vary_are_not_certain() -> None:
    assert stats.score_interval([0.5] * 20) == stats.wilson_interval(10, 20)
    clusters = [number // 2 for number in range(20)]
    for score in (0.5, 0.1, 2 / 3, 0.8933170425576351):  # a mean of floats is seldom exactly each of them
        assert half_width(stats.score_interval([score] * 20)) > 0.1
        assert half_width(stats.score_interval([score] * 20, clusters=clusters)) > 0.1
        assert half_width(stats.score_interval([score] * 20, labels=clusters)) > 0.1


@given(scores, st.booleans())
def test_an_interval_holds_its_score_and_stays_between_0_and_1(values: list[float], yes_or_no: bool) -> None:
    chosen = [round(value) for value in values] if yes_or_no else values
    interval = stats.score_interval(chosen)
    assert 0 <= interval.lower <= stats.mean(chosen) + 1e-9
    assert stats.mean(chosen) - 1e-9 <= interval.upper <= 1


def test_contributions_to_a_pooled_share_average_to_it() -> None:
    docs = [(1, 1), (0, 3), (2, 2), (1, 2)]
    contributions = stats.pooled_contributions(docs)
    assert stats.mean(contributions) == pytest.approx(4 / 8)
    # By hand: R = 1/2, 2 instructions a doc; a doc with y of m is R + (y - R m) / 2.
    assert contributions == pytest.approx([0.75, -0.25, 1.0, 0.5])


def test_the_mean_of_four_is_ifevals() -> None:
    docs = [((True, True), (True, True)), ((False,), (True,)), ((True, False, False), (True, True, False))]
    prompts_strict, prompts_loose = 1 / 3, 2 / 3
    instructions_strict, instructions_loose = 3 / 6, 5 / 6
    expected = (prompts_strict + prompts_loose + instructions_strict + instructions_loose) / 4
    assert stats.mean(stats.mean_of_four_contributions(docs)) == pytest.approx(expected)


@thorough
def test_the_interval_of_the_mean_of_four_covers() -> None:
    rng = np.random.default_rng(11)

    def draw(n: int) -> list[tuple[tuple[bool, ...], tuple[bool, ...]]]:
        follows, counts = rng.beta(3, 1, n), rng.integers(1, 4, n)
        docs = []
        for share, count in zip(follows, counts, strict=True):
            strict = rng.random(count) < share
            docs.append((tuple(strict.tolist()), tuple((strict | (rng.random(count) < 0.2)).tolist())))
        return docs

    truth = stats.mean(stats.mean_of_four_contributions(draw(100_000)))
    covered = sum(truth in stats.score_interval(stats.mean_of_four_contributions(draw(100))) for _ in range(RUNS))
    assert covered >= 0.92 * RUNS


def test_holm_by_hand() -> None:
    assert stats.correct_by_holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.correct_by_holm([0.9, 0.8]) == [1.0, 1.0]
    assert stats.correct_by_holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_never_lowers_and_keeps_the_order(p_values: list[float]) -> None:
    corrected = stats.correct_by_holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, corrected, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [corrected[i] for i in order] == sorted(corrected)


# Averages over docs in clusters


def textbook_cr2(values: np.ndarray, labels: np.ndarray, clusters: np.ndarray) -> tuple[float, float]:
    """CR2 and its degrees of freedom with whole matrices, as Bell and McCaffrey write them: regression on subtasks."""
    names = np.unique(labels)
    x = (labels[:, None] == names).astype(float)
    bread = np.linalg.inv(x.T @ x)
    hat = x @ bread @ x.T
    contrast = np.full(len(names), 1 / len(names))
    residuals, rows = values - hat @ values, []
    for name in np.unique(clusters):
        at = clusters == name
        own, vectors = np.linalg.eigh(np.eye(at.sum()) - hat[np.ix_(at, at)])
        adjusted = vectors @ np.diag(own**-0.5) @ vectors.T
        rows.append((contrast @ bread @ x[at].T @ adjusted) @ (np.eye(len(values)) - hat)[at])
    influence = np.array(rows)
    together = (clusters[:, None] == clusters[None, :]).astype(float)
    covariance = influence @ together @ influence.T
    return (
        float(np.sum((influence @ residuals) ** 2)),
        float(np.trace(covariance) ** 2 / np.trace(covariance @ covariance)),
    )


@pytest.mark.parametrize("subtasks", [1, 3])
@pytest.mark.parametrize("kind", ["uneven", "across", "alone"])
def test_the_variance_of_an_average_is_the_textbooks_cr2(subtasks: int, kind: str) -> None:
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(subtasks), [8, 12, 10][:subtasks])
    clusters = {
        "uneven": np.repeat(np.arange(10), [1, 1, 2, 2, 6, 3, 5, 4, 3, 3])[: len(labels)],
        "across": np.concatenate([np.arange(n) % 7 for n in [8, 12, 10][:subtasks]]),
        "alone": np.arange(len(labels)),
    }[kind]
    values = rng.random(len(labels))
    average = average_docs(values, labels.tolist(), clusters.tolist())
    assert (average.variance, average.freedom) == pytest.approx(textbook_cr2(values, labels, clusters))


def test_docs_on_their_own_have_the_variance_of_a_stratified_mean() -> None:
    values, labels = [0.1, 0.5, 0.9, 0.4, 1.0, 0.0, 0.3], [*"aaaa", *"bbb"]
    average = average_docs(values, labels)
    expected = (np.var(values[:4], ddof=1) / 4 + np.var(values[4:], ddof=1) / 3) / 4
    assert average.variance == pytest.approx(expected)
    plain = average_docs(values)
    assert math.sqrt(plain.variance) == pytest.approx(scipy.stats.sem(values))
    assert plain.freedom == pytest.approx(6)


def test_equal_clusters_count_as_one_doc_each() -> None:
    values = np.random.default_rng(4).random(24)
    average = average_docs(values, clusters=[index // 4 for index in range(24)])
    assert math.sqrt(average.variance) == pytest.approx(scipy.stats.sem(values.reshape(6, 4).mean(axis=1)))
    assert average.freedom == pytest.approx(5)
    assert average.grain == pytest.approx(1 / 6)


def test_subtasks_of_one_doc_are_told_from_each_other() -> None:
    values = [0.0, 1.0, 1.0, 0.0]
    average = average_docs(values, list(range(4)))
    assert math.sqrt(average.variance) == pytest.approx(scipy.stats.sem(values))


def test_a_single_subtask_of_one_doc_is_told_from_all() -> None:
    average = average_docs([1.0, 0.0, 1.0, 0.0], [*"abbb"])
    assert average.freedom >= 1
    assert 0 < average.variance < 1


def test_one_cluster_tells_nothing() -> None:
    assert average_docs([1.0, 0.0, 1.0], clusters=["p"] * 3).freedom == 0
    assert stats.score_interval([1.0, 0.0], clusters=["p", "p"]) == stats.Interval(0, 1)
    assert stats.paired_drop([1.0, 0.0], [0.0, 0.0], clusters=["p", "p"]).interval() == stats.Interval(-1, 1)
    assert stats.paired_drop([1.0], [0.0]).p_value() == 1


def test_a_score_of_clustered_docs_has_a_wider_interval() -> None:
    values = [1.0] * 10 + [0.0] * 10
    alone = stats.score_interval(values)
    clustered = stats.score_interval(values, clusters=[index // 2 for index in range(20)])
    assert half_width(clustered) > 1.3 * half_width(alone)


def test_scores_of_clusters_that_do_not_vary_are_not_certain() -> None:
    interval = stats.score_interval([1.0] * 20, clusters=[index // 5 for index in range(20)])
    assert interval.upper == 1
    assert interval.lower < stats.wilson_interval(4, 4).lower + 1e-9


def test_every_doc_needs_its_cluster() -> None:
    with pytest.raises(ValueError, match="2 names for 3 docs"):
        stats.score_interval([1.0, 0.0, 1.0], clusters=["p", "q"])


# Drops


def tango(lost: int, won: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """The score interval of lost/n - won/n as Tango 1998 has it, by root finding."""
    z = scipy.stats.norm.ppf((1 + level) / 2)

    def statistic(delta: float) -> float:
        b = -lost - won + (2 * n - lost + won) * delta
        c = -won * delta * (1 - delta)
        q = (math.sqrt(max(0.0, b * b - 8 * n * c)) - b) / (4 * n)
        variance = n * (2 * q + delta * (1 - delta))
        return (lost - won - n * delta) / math.sqrt(variance) if variance > 0 else 0.0

    def end(goal: float, low: float, high: float) -> float:
        return float(scipy.optimize.brentq(lambda delta: statistic(delta) - goal, low, high))

    seen = (lost - won) / n
    return end(z, -1 + 1e-9, seen - 1e-9), end(-z, seen + 1e-9, 1 - 1e-9)


def pair(both: int, first: int, second: int, neither: int) -> tuple[list[float], list[float]]:
    a = [1.0] * (both + first) + [0.0] * (second + neither)
    b = [1.0] * both + [0.0] * first + [1.0] * second + [0.0] * neither
    return a, b


def drop_of(lost: int, won: int, n: int) -> stats.Drop:
    first, second = pair(0, lost, won, n - lost - won)
    return stats.paired_drop(first, second)


def test_the_reference_is_tangos() -> None:
    """The textbook's airway data again, for which Tango's interval is known: -0.517 to -0.026."""
    assert tango(1, 7, 21) == pytest.approx((-0.517, -0.026), abs=1e-3)


@pytest.mark.parametrize(
    ("lost", "won", "n"),
    [
        (0, 0, 448),
        (3, 0, 448),
        (0, 3, 448),
        (12, 4, 448),
        (14, 13, 448),
        (30, 10, 541),
        (40, 41, 1324),
        (400, 350, 12032),
    ],
)
def test_a_drop_has_about_tangos_interval(lost: int, won: int, n: int) -> None:
    result, expected = drop_of(lost, won, n).interval(), tango(lost, won, n)
    width = (expected[1] - expected[0]) / 2
    assert (result.lower, result.upper) == pytest.approx(expected, abs=0.12 * width)
    assert half_width(result) == pytest.approx(width, rel=0.1)


def test_a_drop_of_many_flips_has_students_interval_and_test() -> None:
    rng = np.random.default_rng(8)
    first = (rng.random(2000) < 0.6).astype(float)
    second = np.where(rng.random(2000) < 0.2, rng.random(2000) < 0.55, first).astype(float)
    drop = stats.paired_drop(first, second)
    expected = scipy.stats.ttest_rel(first, second)
    interval = expected.confidence_interval()
    assert (drop.interval().lower, drop.interval().upper) == pytest.approx((interval.low, interval.high), abs=5e-4)
    assert drop.p_value() == pytest.approx(expected.pvalue, rel=0.05)


def test_no_flip_leaves_something_open() -> None:
    drop = stats.paired_drop([1.0] * 200, [1.0] * 200)
    t = scipy.stats.t.ppf(0.975, 199)
    assert drop.interval() == stats.Interval(pytest.approx(-t * t / 200), pytest.approx(t * t / 200))
    assert drop.p_value() == 1


def test_small_changes_do_not_shrink_what_unseen_flips_may_be() -> None:
    """One doc of 100 changes by a hundredth: others may yet change by more."""
    before = [1.0] * 100
    drop = stats.paired_drop(before, [0.99, *before[1:]])
    assert drop.interval().upper > 0.015


flips = st.lists(
    st.sampled_from([(0.0, 0.0), (1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.5, 0.25)]), min_size=2, max_size=60
)


@settings(deadline=None)
@given(flips, st.booleans(), st.booleans())
def test_a_drop_turned_round_is_a_gain(docs: list[tuple[float, float]], by_subtask: bool, clustered: bool) -> None:
    labels = [index % 2 for index in range(len(docs))] if by_subtask else None
    clusters = [index // 3 for index in range(len(docs))] if clustered else None
    before, after = [a for a, _ in docs], [b for _, b in docs]
    there = stats.paired_drop(before, after, labels, clusters)
    back = stats.paired_drop(after, before, labels, clusters)
    turned = back.interval().scale(-1)
    assert there.value == pytest.approx(-back.value, abs=1e-12)
    assert (there.interval().lower, there.interval().upper) == pytest.approx((turned.lower, turned.upper))
    assert there.p_value() == pytest.approx(back.p_value())


@settings(deadline=None)
@given(flips, st.randoms())
def test_the_order_of_docs_does_not_matter(docs: list[tuple[float, float]], chance: Any) -> None:
    rows = [(a, b, index % 3, index // 4) for index, (a, b) in enumerate(docs)]
    shuffled = list(rows)
    chance.shuffle(shuffled)

    def figures_of(those: list[tuple[float, float, int, int]]) -> tuple[float, ...]:
        drop = stats.paired_drop(*(list(column) for column in zip(*those, strict=True)))
        return drop.value, drop.interval().lower, drop.interval().upper, drop.p_value()

    assert figures_of(rows) == pytest.approx(figures_of(shuffled), abs=1e-9)


@settings(deadline=None)
@given(flips)
def test_sign_interval_and_p_are_of_one_statistic(docs: list[tuple[float, float]]) -> None:
    drop = stats.paired_drop([a for a, _ in docs], [b for _, b in docs])
    interval, narrow = drop.interval(), drop.interval(0.8)
    assert drop.value in interval
    assert interval.lower <= narrow.lower <= narrow.upper <= interval.upper
    clipped = interval.lower == -1 or interval.upper == 1
    # Small losses beside a gain of a whole doc reach further on the side of gains.
    mixed = drop.small_variance > 0 and drop.flipped > 0
    assert clipped or mixed or (interval.lower + interval.upper) * drop.value >= -1e-9
    if abs(drop.p_value() - 0.05) > 1e-9:
        assert (drop.p_value() < 0.05) == (0 not in interval)
    if abs(drop.p_value(0.1) - 0.05) > 1e-9:
        assert (drop.p_value(0.1) < 0.05) == (0.1 not in interval)


def test_the_sign_is_that_of_the_published_average() -> None:
    """A run that loses many docs of a large subtask and wins few of a small one has gained in the macro average."""
    before = [1.0] * 900 + [0.0] * 20
    after = [0.0] * 90 + [1.0] * 810 + [1.0] * 10 + [0.0] * 10
    labels = ["large"] * 900 + ["small"] * 20
    drop = stats.paired_drop(before, after, labels)
    assert drop.value == pytest.approx((0.1 - 0.5) / 2)
    assert drop.interval().upper < 0
    assert drop.candidate == pytest.approx(stats.macro_mean(after, labels))


def test_ifevals_drop_is_that_of_the_mean_of_four() -> None:
    before = [((True, True), (True, True)), ((False,), (True,)), ((True, False, True), (True, True, True))]
    after = [((True, False), (True, True)), ((False,), (True,)), ((True, False, True), (True, False, True))]
    first, second = stats.mean_of_four_shares(before), stats.mean_of_four_shares(after)
    drop = stats.paired_drop(first, second)
    for score, docs in ((drop.baseline, before), (drop.candidate, after)):
        assert score == pytest.approx(stats.mean(stats.mean_of_four_contributions(docs)))
    assert (drop.flipped, drop.small_lost) == (0, drop.lost)
    # By hand, of 3 prompts and 6 instructions: strictly 1 and 1 are lost, loosely 1 and 1.
    assert drop.value == pytest.approx((1 / 3 + 1 / 6 + 1 / 3 + 1 / 6) / 4)


def test_recovery_goes_with_the_drop() -> None:
    assert drop_of(0, 10, 1000).recovery is None
    drop = stats.paired_drop([1.0] * 80 + [0.0] * 20, [1.0] * 60 + [0.0] * 40)
    assert drop.recovery == pytest.approx(0.75)
    recovered = drop.recovery_interval()
    assert recovered is not None
    assert recovered.upper == pytest.approx(1 - drop.interval().lower / 0.8)


def covered(draw: Callable[[np.random.Generator], stats.Drop], truth: float, runs: int = RUNS) -> float:
    rng = np.random.default_rng(17)
    return sum(truth in draw(rng).interval() for _ in range(runs)) / runs


@pytest.mark.parametrize(
    ("n", "lost", "won"), [(30, 0.1, 0.1), (150, 0.02, 0.0), (150, 0.05, 0.02), (448, 0.04, 0.03), (1000, 0.2, 0.1)]
)
def test_the_interval_of_a_drop_covers(n: int, lost: float, won: float) -> None:
    def draw(rng: np.random.Generator) -> stats.Drop:
        counts = rng.multinomial(n, [lost, won, 1 - lost - won])
        return drop_of(int(counts[0]), int(counts[1]), n)

    assert covered(draw, lost - won) >= 0.925


@pytest.mark.parametrize("sizes", [[7] * 60, [2, 4, 6, 8, 10] * 12], ids=["equal", "uneven"])
def test_the_interval_of_a_drop_in_clusters_covers(sizes: list[int]) -> None:
    """An intra-class correlation of 0.6, which the plain interval does not survive."""
    clusters = np.repeat(np.arange(len(sizes)), sizes)

    def values(rng: np.random.Generator) -> np.ndarray:
        def some(n: int) -> np.ndarray:
            return rng.choice([1.0, 0.0, -1.0], n, p=[0.12, 0.80, 0.08])

        return np.where(rng.random(len(clusters)) < 0.6**0.5, some(len(sizes))[clusters], some(len(clusters)))

    def draw(rng: np.random.Generator) -> stats.Drop:
        return stats.paired_drop(values(rng), np.zeros(len(clusters)), clusters=clusters.tolist())

    def plain(rng: np.random.Generator) -> stats.Drop:
        return stats.paired_drop(values(rng), np.zeros(len(clusters)))

    assert 0.92 <= covered(draw, 0.04, 250) <= 0.985
    assert covered(plain, 0.04, 250) < 0.85


def test_the_interval_of_a_drop_covers_where_few_large_clusters_may_move_whole() -> None:
    """30 problems with 64 copies: in one run of twelve none of them moves whole, which says little of those that could."""
    clusters = np.repeat(np.arange(30), 64)

    def draw(rng: np.random.Generator) -> stats.Drop:
        whole, own = (rng.choice([1.0, 0.0, -1.0], n, p=[0.05, 0.92, 0.03]) for n in (30, 1920))
        changes = np.where(rng.random(1920) < 0.6**0.5, whole[clusters], own)
        return stats.paired_drop(changes, np.zeros(1920), clusters=clusters.tolist())

    assert covered(draw, 0.02, 250) >= 0.945


def lost_whole(n: int, size: int, share: float) -> Callable[[np.random.Generator], stats.Drop]:
    """Clusters of which a share is lost whole. In the others 6 % of docs flip; single docs change by a hundredth."""
    clusters = np.repeat(np.arange(n), size).tolist() if size > 1 else None

    def draw(rng: np.random.Generator) -> stats.Drop:
        small = (
            rng.choice([1.0, 0.0, -1.0], (n, size), p=[0.03, 0.94, 0.03]) if clusters else rng.normal(0, 0.01, (n, 1))
        )
        losses = np.where(rng.random((n, 1)) < share, 1.0, small).ravel()
        return stats.paired_drop(losses, np.zeros(n * size), clusters=clusters)

    return draw


@pytest.mark.parametrize(
    ("n", "size", "share"), [(30, 64, 0.05), (100, 10, 0.02), (250, 7, 0.01), (60, 1, 0.014), (200, 1, 0.014)]
)
def test_rare_whole_losses_beside_small_changes_are_not_excluded(n: int, size: int, share: float) -> None:
    """Of so few clusters none may be lost whole, as if none could be."""
    draw, rng, runs = lost_whole(n, size, share), np.random.default_rng(19), RUNS if THOROUGH else 80
    assert sum(draw(rng).interval().upper < share for _ in range(runs)) <= 0.025 * runs


def test_changes_of_whole_docs_are_judged_as_counts() -> None:
    """Small changes elsewhere widen the interval; without them it is that of the counts alone."""
    whole = [1.0] * 9 + [-1.0] * 5 + [0.0] * 300
    alone = stats.paired_drop(whole, [0.0] * 314)
    with_small = stats.paired_drop(whole[:-100] + [0.3, -0.3] * 50, [0.0] * 314)
    assert (alone.small_lost, alone.small_variance) == (0, 0)
    assert alone.interval().upper == drop_of(9, 5, 314).interval().upper < with_small.interval().upper


def test_changed_clusters_are_counted_by_what_they_change() -> None:
    def changed(losses: Sequence[float]) -> float:
        clusters = [index // 4 for index in range(len(losses))]
        return stats.paired_drop(losses, [0.0] * len(losses), clusters=clusters).flipped

    assert changed([1, 1, 1, 1] * 3 + [0] * 8) == pytest.approx(3)
    assert changed([1, 1, 0, 0] * 3 + [0] * 8) == pytest.approx(3)
    assert changed([1, 0, 0, 0] * 3 + [0] * 8) == 0
    assert changed([1, 1, 1, 1, 1, 1, 0, 0, 1, -1, 0, 0]) == pytest.approx(6**2 / (4**2 + 2**2))
    assert changed([1, -1, 0, 0, 0, 0, 0, 0]) == 0


@pytest.mark.parametrize(("n", "flips"), [(448, 0.06), (1324, 0.02), (150, 0.05)])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 22])
def test_what_could_be_seen_is_seen_four_times_in_five(n: int, flips: float, alpha: float) -> None:
    half = round(n * flips / 2)
    effect = drop_of(half, half, n).find_detectable(alpha)
    rng = np.random.default_rng(6)
    counts = rng.multinomial(n, [flips / 2 + effect, flips / 2, 1 - flips - effect], size=RUNS)
    drawn = Counter((lost, won) for lost, won, _ in counts.tolist())  # many draws have the same counts
    seen = sum(times for (lost, won), times in drawn.items() if drop_of(lost, won, n).p_value() < alpha) / RUNS
    assert 0.75 <= seen <= 0.97


# Against a published number alone


def test_an_unpaired_drop_has_the_noise_of_both_scores() -> None:
    values = [1.0] * 600 + [0.0] * 400
    drop = stats.unpaired_drop(0.65, values)
    assert drop.value == pytest.approx(0.05)
    assert drop.variance == pytest.approx(0.6 * 0.4 / 999 + 0.65 * 0.35 / 999)
    assert not drop.paired


def test_an_unpaired_drop_covers_what_two_samples_do() -> None:
    def draw(rng: np.random.Generator) -> stats.Drop:
        published = float(np.mean(rng.random(300) < 0.6))
        return stats.unpaired_drop(published, (rng.random(300) < 0.5).astype(float))

    assert 0.92 <= covered(draw, 0.1) <= 0.99


@pytest.mark.parametrize("score", [0.0, 1.0])
@pytest.mark.parametrize("published", [0.0, 0.5, 1.0])
def test_an_unpaired_drop_is_never_certain(score: float, published: float) -> None:
    drop = stats.unpaired_drop(published, [score] * 50)
    assert drop.value == pytest.approx(published - score)
    assert drop.interval().upper - drop.interval().lower > 0.02


def test_a_published_number_is_a_share() -> None:
    with pytest.raises(ValueError, match="no share"):
        stats.unpaired_drop(65.0, [1.0, 0.0])


# Several tasks


def test_a_mean_drop_is_weighed() -> None:
    drops = [drop_of(30, 10, 500), drop_of(5, 10, 200)]
    mean = stats.mean_drop(drops, [0.75, 0.25])
    assert mean.value == pytest.approx(0.75 * 0.04 - 0.25 * 0.025)
    assert mean.variance == pytest.approx(0.75**2 * drops[0].variance + 0.25**2 * drops[1].variance)
    assert stats.mean_drop(drops).value == pytest.approx((0.04 - 0.025) / 2)


def test_the_mean_of_one_drop_is_it() -> None:
    for drop in (drop_of(30, 10, 500), drop_of(0, 0, 500)):
        mean = stats.mean_drop([drop])
        assert (mean.value, mean.variance, mean.freedom) == pytest.approx((drop.value, drop.variance, drop.freedom))
        assert (mean.interval().lower, mean.interval().upper) == pytest.approx(
            (drop.interval().lower, drop.interval().upper)
        )


def test_questions_that_tasks_share_tie_their_drops() -> None:
    """The same 40 questions in two languages: what is lost in one is lost in the other."""
    lost = [1.0] * 8 + [0.0] * 32
    kept = [0.0] * 40
    shared = [stats.paired_drop(lost, kept, clusters=list(range(40))) for _ in range(2)]
    apart = [stats.paired_drop(lost, kept, clusters=[(task, n) for n in range(40)]) for task in range(2)]
    assert stats.mean_drop(shared).variance == pytest.approx(shared[0].variance)
    assert stats.mean_drop(apart).variance == pytest.approx(shared[0].variance / 2)


def test_weights_go_by_docs_and_not_by_outcomes() -> None:
    assert stats.precision_weights([drop_of(30, 1, 600), drop_of(0, 0, 200)]) == pytest.approx([0.75, 0.25])
    assert stats.precision_weights([drop_of(0, 0, 600), drop_of(9, 9, 200)]) == pytest.approx([0.75, 0.25])


def test_a_task_of_a_single_doc_has_no_weight_beside_others() -> None:
    single = stats.paired_drop([1.0], [0.0])
    assert stats.precision_weights([drop_of(30, 1, 600), single]) == [1.0, 0.0]
    assert stats.precision_weights([single, single]) == [0.5, 0.5]


def test_a_score_without_a_baselines_answers_weighs_less() -> None:
    paired, unpaired = drop_of(10, 10, 500), stats.unpaired_drop(0.5, [1.0, 0.0] * 250)
    heavy, light = stats.precision_weights([paired, unpaired])
    assert heavy / light == pytest.approx(unpaired.variance / paired.variance)


def test_unlike_drops_are_found() -> None:
    alike = stats.heterogeneity_p([drop_of(30, 10, 500), drop_of(30, 10, 500)])
    unlike = stats.heterogeneity_p([drop_of(60, 10, 500), drop_of(10, 10, 500)])
    assert alike is not None
    assert unlike is not None
    assert alike > 0.9
    assert unlike < 0.001
    assert stats.heterogeneity_p([drop_of(3, 1, 50)]) is None


# Repeats


def test_runs_are_averaged_by_doc() -> None:
    assert stats.average_runs([[1.0, 0.0], [0.0, 0.0]]).tolist() == [0.5, 0.0]
    with pytest.raises(ValueError, match="no run"):
        stats.average_runs([])
    with pytest.raises(ValueError, match="1 and 2 docs"):
        stats.average_runs([[1.0], [1.0, 0.0]])


def test_an_a_a_pair_measures_the_engines_noise() -> None:
    # Half the squared differences, by the square of the docs.
    assert stats.run_noise([[1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0]]) == pytest.approx((0.5 + 0.5) / 16)
    # Over subtasks a doc counts as its subtask does: 1 of 2 docs, one of two subtasks.
    assert stats.run_noise([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]], [*"aab"]) == pytest.approx(0.5 / 16)
    with pytest.raises(ValueError, match="two runs"):
        stats.run_noise([[1.0]])
    with pytest.raises(ValueError, match="docs"):
        stats.run_noise([[1.0], [1.0, 0.0]])


def test_repeats_narrow_the_interval_of_noise() -> None:
    rng = np.random.default_rng(9)
    chance = np.where(rng.random(2000) < 0.1, 0.5, 1.0)

    def run() -> list[float]:
        return (rng.random(2000) < chance).astype(float).tolist()

    once = stats.paired_drop(run(), run())
    often = stats.paired_drop(
        stats.average_runs([run() for _ in range(8)]), stats.average_runs([run() for _ in range(8)])
    )
    assert often.variance == pytest.approx(once.variance / 8, rel=0.4)
    assert once.variance == pytest.approx(2 * stats.run_noise([run() for _ in range(8)]), rel=0.3)


@pytest.mark.parametrize(
    ("lost", "won", "p"), [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 2 / 32), (0, 5, 2 / 32), (3, 3, 1.0), (9, 2, 134 / 2048)]
)
def test_drift_between_two_answers_is_the_sign_test_of_both_sides(lost: int, won: int, p: float) -> None:
    losses = [1.0] * lost + [-0.5] * won + [0.0] * 7
    assert stats.repeat_p_value(losses) == pytest.approx(p, rel=1e-12)
