"""A distance beside the noise of the same weights: what is said of a copy, and how often it is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from forced_tables import HEADER, answer, drawn, moved, table
from hypothesis import given
from hypothesis import strategies as st
from marks import thorough

from meta_eval.base.errors import UserError
from meta_eval.judge.token_table import Forced
from meta_eval.plugins.tokens.api import fidelity_report
from meta_eval.plugins.tokens.comparison import TableComparison, compare_tables
from meta_eval.plugins.tokens.fidelity_report import FidelityReport
from meta_eval.plugins.tokens.table_pairing import Pair
from meta_eval.plugins.tokens.token_columns import make_columns
from meta_eval.plugins.tokens.yardstick import Noise, make_noise
from meta_eval.stats.ratio import ratio_of_means


def paired(baseline: Sequence[Forced], other: Sequence[Forced]) -> Pair:
    return Pair(make_columns(baseline), make_columns(other), None, 0.0, 0, 0, 0)


def noise_of(baseline: Sequence[Forced], again: Sequence[Forced]) -> Noise:
    return make_noise(paired(baseline, again), HEADER, HEADER, HEADER)


def compared(baseline: Sequence[Forced], again: Sequence[Forced], copy: Sequence[Forced]) -> TableComparison:
    return compare_tables(paired(baseline, copy), noise_of(baseline, again))


@pytest.mark.parametrize(
    ("times", "outcome"), [(0.0, "same"), (1.0, "same"), (1.5, "undecided"), (2.0, "undecided"), (4.0, "different")]
)
def test_the_ratio_to_the_noise_decides(times: float, outcome: str) -> None:
    baseline = drawn(60, 60)
    comparison = compared(baseline, moved(baseline, 0.03), moved(baseline, 0.03 * times, seed=2))
    assert comparison.outcome == outcome
    assert comparison.all.times_noise == pytest.approx(times, rel=0.15, abs=1e-5)


def test_the_same_factor_decides_whatever_the_noise() -> None:
    baseline = drawn(60, 60)
    for size in (0.001, 0.01, 0.05):
        assert compared(baseline, moved(baseline, size), moved(baseline, size, seed=2)).outcome == "same"
        assert compared(baseline, moved(baseline, size), moved(baseline, 4 * size, seed=2)).outcome == "different"


def in_folders(tmp_path: Path, *, again: bool = True, copy: float = 0.05, **header: object) -> FidelityReport:
    """The report of a copy beside a baseline that has been measured twice, as the command leaves its tables."""
    baseline = drawn(30, 120)
    table(tmp_path / "base" / "fidelity" / "a.parquet", baseline)
    if again:
        table(tmp_path / "base" / "fidelity" / "again" / "a2.parquet", moved(baseline, 0.005))
    table(tmp_path / "copy.parquet", moved(baseline, copy, seed=2), replace(HEADER, **header))
    return fidelity_report(tmp_path / "copy.parquet", baseline=tmp_path / "base")


def test_a_second_table_beside_the_baseline_is_used(tmp_path: Path) -> None:
    report = in_folders(tmp_path)
    assert report.outcome == "different"
    assert report.noise == "my/model (vllm 0.32.0), measured with other batches"
    assert "times the noise" in report.summary


def test_without_a_noise_only_what_is_beyond_any_noise_seen_is_different(tmp_path: Path) -> None:
    report = in_folders(tmp_path, again=False)
    assert report.outcome == "undecided" and "--again" in report.summary
    assert in_folders(tmp_path, again=False, copy=0.3).outcome == "different"
    assert in_folders(tmp_path, again=False, copy=0.0).outcome == "same"


def test_the_noise_of_a_batch_says_nothing_about_another_engine(tmp_path: Path) -> None:
    report = in_folders(tmp_path, engine="sglang 0.5")
    assert report.outcome == "undecided" and "another engine" in report.summary
    assert in_folders(tmp_path, engine="sglang 0.5", copy=0.005).outcome == "same"
    assert in_folders(tmp_path, engine="sglang 0.5", copy=0.3).outcome == "different"
    measured = in_folders(tmp_path, measured={"dtype": "float32"})
    assert measured.outcome == "undecided"


def test_a_second_engine_of_the_same_weights_covers_a_copy_on_it(tmp_path: Path) -> None:
    baseline = drawn(60, 60)
    first = table(tmp_path / "a.parquet", baseline)
    copy = table(tmp_path / "c.parquet", moved(baseline, 0.05, seed=2), replace(HEADER, engine="sglang 0.5"))
    again = table(tmp_path / "b.parquet", moved(baseline, 0.005), replace(HEADER, engine="sglang 0.5"))
    report = fidelity_report(copy.path, baseline=first.path, noise=again.path)
    assert report.outcome == "different" and report.noise is not None and "other engine" in report.noise


def test_the_table_of_the_noise_is_reported_as_noise(tmp_path: Path) -> None:
    in_folders(tmp_path)
    folder = tmp_path / "base" / "fidelity"
    report = fidelity_report(folder / "again" / "a2.parquet", baseline=folder / "a.parquet")
    assert report.is_noise and report.outcome is None and report.finding is None
    assert report.summary.startswith("The noise of this model between two measurements: 0.00")


def test_a_noise_of_other_weights_is_said(tmp_path: Path) -> None:
    baseline = drawn(60, 60)
    first = table(tmp_path / "a.parquet", baseline)
    again = table(tmp_path / "b.parquet", moved(baseline, 0.5), replace(HEADER, model="my/other"))
    copy = table(tmp_path / "c.parquet", moved(baseline, 0.5, seed=2))
    report = fidelity_report(copy.path, baseline=first.path, noise=again.path)
    notes = " ".join(report.notes)
    assert (
        report.outcome == "undecided"
        and "names another model: my/other and not my/model" in notes
        and "above any noise seen" in notes
    )


def test_nothing_is_the_same_by_a_noise_above_any_seen(tmp_path: Path) -> None:
    """Of texts or of one of its tasks: the second table may be of other weights. A copy that is equal is the same."""
    quiet, loud = drawn(60, 60), [replace(item, task="meta_loud") for item in drawn(12, 9, seed=5)]
    both = quiet + loud
    for size, whose in ((5.0, ""), (0.005, "meta_loud: ")):
        again = moved(quiet, size) + moved(loud, 0.5)
        comparison = compared(both, again, moved(quiet, size, seed=2) + moved(loud, 0.5, seed=3))
        assert comparison.outcome == "undecided"
        assert comparison.reasons[0].startswith(f"{whose}the noise of ") and "--noise" in comparison.reasons[0]
        assert compared(both, again, both).outcome == "same"


@pytest.mark.parametrize("empty", ["candidate", "baseline", "noise"])
def test_a_table_without_rows_has_nothing_in_common(empty: str, tmp_path: Path) -> None:
    baseline = drawn(30, 20)
    answers = {"baseline": baseline, "candidate": moved(baseline, 0.01), "noise": moved(baseline, 0.005, seed=5)}
    names = {name: table(tmp_path / f"{name}.parquet", answers[name] if name != empty else []).path for name in answers}
    with pytest.raises(UserError, match="has no doc in common with"):
        fidelity_report(names["candidate"], baseline=names["baseline"], noise=names["noise"])
    assert fidelity_report(names[empty]).figures == ()


def test_an_equal_second_table_makes_any_difference_count() -> None:
    baseline = drawn(60, 60)
    different = compared(baseline, baseline, moved(baseline, 0.005))
    assert different.outcome == "different"
    assert "times the least noise that counts, 0.0001 nats (measured: none)" in different.reasons[0]
    assert compared(baseline, baseline, moved(baseline, 5e-5)).outcome == "same"


def test_no_long_answer_decides() -> None:
    baseline = [answer(doc, np.full(2000 if doc == 0 else 20, -3.0)) for doc in range(40)]
    copy = moved(moved(baseline, 0.01, seed=2), 0.5, docs=[0])
    comparison = compared(baseline, moved(baseline, 0.01), copy)
    assert comparison.outcome == "undecided"
    assert comparison.all.distance.value < 0.05  # 0.36 if each token had the same weight


def test_a_task_with_much_noise_does_not_hide_another() -> None:
    quiet, loud = drawn(40, 40), [replace(item, task="meta_loud") for item in drawn(40, 40, seed=5)]
    again = moved(quiet, 0.002) + moved(loud, 0.05)
    copy = moved(quiet, 0.02, seed=2) + moved(loud, 0.05, seed=3)
    comparison = compared(quiet + loud, again, copy)
    assert {task.name: task.outcome for task in comparison.tasks} == {"meta_gsm8k": "different", "meta_loud": "same"}
    assert comparison.outcome == "different"


def rates(times: float, runs: int, docs: int) -> dict[str, float]:
    """How often each outcome occurs, with heavy tails, noise that a doc's tokens share, and tasks of unlike noise."""
    outcomes: Counter[str] = Counter()
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        sizes = 0.01 * rng.lognormal(-0.32, 0.8, docs) * np.where(np.arange(docs) % 2, 5, 1)
        lengths = rng.integers(5, 60, docs)

        def measured(factor: float, sizes: np.ndarray = sizes, lengths: np.ndarray = lengths,
                     rng: np.random.Generator = rng) -> list[Forced]:  # fmt: skip
            return [
                answer(doc, -30 + rng.laplace(0, factor * size, n).astype(np.float32), task=f"meta_{doc % 2}")
                for doc, (size, n) in enumerate(zip(sizes, lengths, strict=True))
            ]  # fmt: skip

        baseline = [answer(doc, np.full(n, -30.0), task=f"meta_{doc % 2}") for doc, n in enumerate(lengths)]
        outcomes[compared(baseline, measured(1.0), measured(times)).outcome] += 1
    return {outcome: outcomes[outcome] / runs for outcome in ("same", "undecided", "different")}


def test_a_copy_with_only_its_noise_is_the_same_and_four_times_it_is_different() -> None:
    assert rates(1.0, 20, 50)["same"] >= 0.9
    assert rates(4.0, 10, 50)["different"] == 1


@thorough
def test_at_the_limit_each_outcome_is_wrong_as_seldom_as_promised() -> None:
    at_limit = rates(2.0, 200, 50)
    assert at_limit["different"] <= 0.03 and at_limit["same"] <= 0.03


@given(
    st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 5), st.integers(1, 50)), min_size=2, max_size=20),
    st.floats(0.1, 10),
)
def test_the_ratio_follows_its_units(rows: list[tuple[float, float, int]], factor: float) -> None:
    values, reference, weights = (np.array(column, float) for column in zip(*rows, strict=True))
    strata = [index % 2 for index in range(len(rows))]
    ratio = ratio_of_means(values, reference, weights, strata)
    scaled = ratio_of_means(values * factor, reference, weights, strata)
    assert scaled.value == pytest.approx(factor * ratio.value) and scaled.freedom == pytest.approx(ratio.freedom)
    assert ratio_of_means(reference, reference, weights, strata).value == pytest.approx(1.0)
    by_stratum = [values[s::2] @ weights[s::2] / (reference[s::2] @ weights[s::2]) for s in (0, 1)]
    assert ratio.value == pytest.approx(np.average(by_stratum, weights=[weights[0::2].sum(), weights[1::2].sum()]))


def test_few_tokens_are_never_the_same() -> None:
    baseline = drawn(14, 3)
    compare = compared(baseline, baseline, baseline)
    assert compare.outcome == "undecided"
    assert compare.reasons == ("too few tokens: 42, and at least 44 are needed to be the same",)
    baseline = drawn(15, 3)
    assert compared(baseline, baseline, baseline).outcome == "same"
