"""Three outcomes for each task, one decision for all: by cases whose numbers are known, by properties, by simulation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import THOROUGH

from meta_eval import stats
from meta_eval.base.thresholds import MARGIN
from meta_eval.judge.decide import Decision, Veto, decide_outcome
from meta_eval.judge.decision import RepeatPlan, TaskDecision
from meta_eval.judge.drops import measure_run_drop
from meta_eval.judge.figures import measure_baseline_distance
from meta_eval.judge.pair import MeasuredFlips, TaskPair
from meta_eval.reports.text import describe_repeats


@functools.cache
def drop_of(lost: int, won: int, n: int) -> stats.Drop:
    return stats.paired_drop([1.0] * lost + [0.0] * (n - lost), [0.0] * lost + [1.0] * won + [0.0] * (n - lost - won))


def evidence(lost: int, won: int, n: int, task: str = "meta_some", margin: float | None = None) -> TaskPair:
    return TaskPair(task, measured_drop=drop_of(lost, won, n), margin=margin)


def decide_alone(lost: int, won: int, n: int, margin: float = MARGIN) -> TaskDecision:
    (task,) = decide_outcome([evidence(lost, won, n)], margin).tasks
    return task


# One task


@pytest.mark.parametrize(
    ("lost", "won", "n", "outcome"),
    [
        (100, 100, 10_000, "within margin"),  # 0 +- 0.28 points
        (160, 100, 10_000, "within margin"),  # 0.6 +- 0.32: there, and inside the margin
        (200, 120, 10_000, "undecided"),  # 0.8 +- 0.35: larger than 0, maybe than the margin, and no more than allowed
        (300, 100, 10_000, "worse"),  # 2 +- 0.4: larger than the margin
        (15, 15, 448, "undecided"),  # 0 +- 2.4
        (15, 3, 448, "worse"),  # 2.7 +- 1.9
        (3, 15, 448, "within margin"),  # a gain
        (0, 0, 300, "undecided"),  # up to 1.3: no flip is no proof
        (0, 0, 1000, "within margin"),  # up to 0.4
    ],
)
def test_the_outcome(lost: int, won: int, n: int, outcome: str) -> None:
    assert decide_alone(lost, won, n).outcome == outcome


def test_the_outcome_is_that_of_the_interval_which_is_shown() -> None:
    result = decide_alone(160, 100, 10_000)
    assert result.interval == result.drop.interval()
    assert result.interval.upper < result.margin == MARGIN
    assert result.p == result.drop.p_value() < 0.05


def test_a_drop_inside_the_margin_is_remarked_on() -> None:
    assert decide_alone(160, 100, 10_000).remark == "a drop of about 0.6 points is proven, and is allowed"
    assert decide_alone(100, 100, 10_000).remark is None


def test_a_gain_is_remarked_on() -> None:
    assert decide_alone(100, 300, 10_000).remark == "it is above its baseline, by about 2.0 points"


def test_below_is_corrected_for_the_number_of_tasks_and_the_interval_is_not() -> None:
    alone = decide_alone(15, 4, 448)
    assert alone.outcome == "worse"
    others = [evidence(15, 15, 448, f"task {index}") for index in range(9)]
    among = decide_outcome([evidence(15, 4, 448), *others]).tasks[0]
    assert among.outcome == "undecided"
    assert among.interval == alone.interval
    assert among.p_corrected == pytest.approx(10 * alone.p)
    assert "chance" in str(among.remark)
    assert among.detectable_drop > alone.detectable_drop


def test_a_task_may_have_a_margin_of_its_own() -> None:
    decision = decide_outcome([evidence(15, 15, 448, "a"), evidence(15, 15, 448, "b", 0.03)])
    assert [(task.margin, task.outcome) for task in decision.tasks] == [(0.01, "undecided"), (0.03, "within margin")]


def test_without_a_baselines_answers_less_can_be_shown() -> None:
    values = [1.0] * 600 + [0.0] * 400
    (task,) = decide_outcome([TaskPair("meta_some", measured_drop=stats.unpaired_drop(0.6, values))]).tasks
    assert task.outcome == "undecided"
    assert "docs cannot be paired" in str(task.remark)


def test_one_doc_shows_nothing() -> None:
    decision = decide_outcome([evidence(1, 0, 1)])
    assert decision.outcome == "UNDECIDED"
    assert decision.tasks[0].outcome == "undecided"
    assert decision.tasks[0].repeats_needed is None


# All tasks


def test_an_identical_model_ships() -> None:
    decision = decide_outcome([evidence(14, 14, 448, "small"), evidence(300, 300, 12_000, "large")])
    assert (decision.outcome, decision.exit_code) == ("SHIP", 0)
    assert decision.reasons == ("not ruled out: a loss of 2.5 points in small",)
    assert decision.mean is not None
    assert decision.interval == decision.mean.interval()
    assert decision.repeats_needed is None


def test_the_mean_is_weighed_by_docs_and_the_other_is_not() -> None:
    decision = decide_outcome([evidence(20, 0, 500, "a"), evidence(0, 0, 1500, "b")])
    assert [task.weight for task in decision.tasks] == pytest.approx([0.25, 0.75])
    assert decision.mean is not None
    assert decision.unweighted_mean is not None
    assert decision.mean.value == pytest.approx(0.01)
    assert decision.unweighted_mean.value == pytest.approx(0.02)
    assert decision.heterogeneity_p is not None
    assert decision.heterogeneity_p < 0.001


def test_a_mean_that_has_dropped_by_more_than_the_margin_is_a_dont() -> None:
    decision = decide_outcome([evidence(300, 100, 10_000, "a"), evidence(300, 100, 10_000, "b")])
    assert (decision.outcome, decision.exit_code) == ("DON'T SHIP", 1)
    assert decision.reasons == ("proven larger than the margin: the mean drop, a 2.0, b 2.0",)


def test_one_task_that_has_collapsed_is_a_dont_whatever_the_mean() -> None:
    decision = decide_outcome([evidence(60, 10, 448, "small"), evidence(300, 300, 12_000, "large")])
    assert decision.interval is not None
    assert decision.interval.upper < MARGIN
    assert decision.outcome == "DON'T SHIP"
    assert decision.reasons == ("proven larger than the margin: small 11.2",)


def test_a_drop_that_may_be_allowed_is_no_dont() -> None:
    decision = decide_outcome([evidence(200, 120, 10_000)])
    assert (decision.outcome, decision.exit_code) == ("UNDECIDED", 3)
    assert decision.reasons[0] == "the mean drop is proven neither smaller nor larger than the margin"


def test_a_task_that_is_worse_forbids_ship() -> None:
    decision = decide_outcome([evidence(22, 8, 448, "small"), evidence(300, 300, 12_000, "large")])
    assert decision.interval is not None
    assert decision.interval.upper < MARGIN
    assert (decision.outcome, decision.reasons[0]) == ("UNDECIDED", "worse: small by 3.1 points")


def test_a_loss_inside_the_margin_is_allowed_of_many_tasks_too() -> None:
    """What they lose together is shown to be there, and to be no more than the margin."""
    small = [evidence(10, 8, 250, f"small {index}") for index in range(40)]
    decision = decide_outcome([*small, evidence(300, 300, 20_000, "large")])
    assert decision.interval is not None
    assert decision.interval.upper < MARGIN
    assert decision.unweighted_interval is not None
    assert decision.unweighted_interval.lower > 0
    assert decision.outcome == "SHIP"
    assert (
        decision.reasons[0]
        == "not ruled out: a loss of 4.5 points in small 9, 4.5 in small 8, 4.5 in small 7 and 37 more"
    )


def test_a_task_is_worse_than_the_others_and_not_than_nothing() -> None:
    """All tasks lose 0.8 points: those that chance makes 1.4 do not stand out, and would alone."""
    losing = [evidence(180, 100, 10_000, f"t{index}") for index in range(8)]
    same = [evidence(100, 100, 10_000, f"t{index}") for index in range(8)]
    unlucky = evidence(46, 18, 2_000, "unlucky")
    assert decide_outcome([*losing, unlucky]).tasks[-1].outcome == "undecided"
    assert decide_outcome([*same, unlucky]).tasks[-1].outcome == "worse"


def test_where_all_tasks_lose_more_than_the_margin_alike_all_are_worse() -> None:
    decision = decide_outcome([evidence(400, 100, 10_000, f"t{index}") for index in range(4)])
    assert [task.outcome for task in decision.tasks] == ["worse"] * 4


def test_the_cap_forbids_what_the_mean_and_significance_let_through() -> None:
    """A task that lost 3.3 points, which six points may be: no test finds it, and the mean least of all."""
    tasks = [evidence(24, 9, 448, "small"), *(evidence(120, 120, 6_000, f"t{index}") for index in range(20))]
    decision = decide_outcome(tasks)
    assert decision.interval is not None
    assert decision.interval.upper < MARGIN
    assert decision.tasks[0].outcome == "undecided"
    assert (decision.outcome, decision.reasons) == (
        "UNDECIDED", ("not ruled out: a loss beyond the cap, up to 6.1 points in small (cap 5.5)",),
    )  # fmt: skip
    assert decide_outcome(tasks, cap=0.07).outcome == "SHIP"
    own = [replace(tasks[0], cap=0.07), *tasks[1:]]
    assert decide_outcome(own).outcome == "SHIP"


def test_the_cap_of_few_docs_is_what_an_identical_copy_stays_under() -> None:
    few = decide_outcome([evidence(5, 4, 164, "few"), evidence(300, 300, 12_000, "large")])
    assert few.tasks[0].cap > few.tasks[0].interval.upper > 0.05
    assert few.outcome == "SHIP"
    assert few.tasks[1].cap == 0.05


def test_docs_that_exclude_no_drop_at_all_forbid_ship_and_are_named() -> None:
    decision = decide_outcome([evidence(0, 0, 5, "tiny"), evidence(10, 10, 12_000, "large")])
    assert (decision.outcome, decision.reasons) == (
        "UNDECIDED", ("too few docs to rule out any loss: tiny",),
    )  # fmt: skip


def test_subtasks_that_exclude_no_drop_stand_behind_their_task_once_without_their_prefix() -> None:
    subtasks = {
        name: drop_of(0, 0, 5) for name in ("math.algebra", "math.geometry", "math.numbers", "math.precalculus")
    }
    decision = decide_outcome([replace(evidence(10, 10, 12_000, "meta_math"), subtasks=subtasks)])
    (reason,) = decision.reasons
    assert reason == "too few docs to rule out any loss: meta_math: algebra, geometry, numbers and 1 more"


@pytest.mark.parametrize(
    ("lost", "reason"), [(45, "worse: mmlu, law by 6.6 points"), (27, "not ruled out: a loss beyond the cap, up to 5.")]
)
def test_a_subtask_hides_behind_no_other(lost: int, reason: str) -> None:
    subtasks = {"law": drop_of(lost, 12, 500), **{f"s{index}": drop_of(20, 20, 1_000) for index in range(13)}}
    decision = decide_outcome([replace(evidence(260 + lost, 272, 13_500, "mmlu"), subtasks=subtasks)])
    assert decision.outcome == "UNDECIDED"
    assert reason in decision.reasons[0]
    same = subtasks | {"law": drop_of(12, 12, 500)}
    assert decide_outcome([replace(evidence(272, 272, 13_500, "mmlu"), subtasks=same)]).outcome == "SHIP"


def test_a_drop_in_small_tasks_that_may_be_chance_forbids_ship() -> None:
    decision = decide_outcome([evidence(18, 8, 448, "small"), evidence(300, 300, 12_000, "large")])
    assert decision.interval is not None
    assert decision.interval.upper < MARGIN
    assert decision.outcome == "UNDECIDED"
    assert decision.reasons == ("the plain mean dropped by 1.1 points",)


def test_a_drop_of_the_plain_mean_that_chance_explains_forbids_nothing() -> None:
    decision = decide_outcome([evidence(1, 0, 30, "small"), evidence(300, 300, 12_000, "large")])
    assert decision.unweighted_mean is not None
    assert decision.unweighted_mean.value > MARGIN
    assert decision.outcome == "SHIP"


def test_worse_says_what_is_proven() -> None:
    tasks = [evidence(40, 10, 2_000, "law"), evidence(150, 300, 12_000, "others")]
    (law, _) = decide_outcome(tasks).tasks
    assert (law.outcome, law.remark) == (
        "worse",
        "a loss is proven and more than the other tasks; that it is larger than the margin is not",
    )


@pytest.mark.parametrize(("lost", "docs", "said"), [(20, 2_000, False), (19, 2_000, False), (15, 2_000, True)])
def test_a_number_of_docs_that_nobody_has_is_not_said(lost: int, docs: int, said: bool) -> None:
    """The drop of 20 docs in 2,000 is the margin: but for rounding, no number of docs would do."""
    drop = replace(drop_of(lost + 10, 10, docs), lost=(lost + 10) / docs + 1e-17)
    plan = decide_outcome([TaskPair("gsm8k", measured_drop=drop)]).repeats_needed
    assert plan is not None
    assert (plan.times_docs is not None) is said
    assert ("times as many docs" in str(describe_repeats(plan))) is said


def test_a_veto_forbids_ship_with_its_reason() -> None:
    same = [evidence(100, 100, 10_000)]
    decision = decide_outcome(
        same, vetoes=[Veto("54 of 541 answers are empty", "meta_ifeval"), Veto("the pack was edited")]
    )
    assert decision.outcome == "UNDECIDED"
    assert decision.reasons == ("meta_ifeval: 54 of 541 answers are empty", "the pack was edited")
    assert decide_outcome([evidence(300, 100, 10_000)], vetoes=[Veto("the pack was edited")]).outcome == "DON'T SHIP"


def test_a_ship_that_leaves_nothing_open_has_no_reasons() -> None:
    decision = decide_outcome([evidence(160, 100, 10_000)])
    assert (decision.outcome, decision.reasons) == ("SHIP", ())


def test_nothing_decides_nothing() -> None:
    decision = decide_outcome([], vetoes=[Veto("meta_gpqa was not run")])
    assert (decision.outcome, decision.mean) == ("UNDECIDED", None)
    assert decision.reasons == ("meta_gpqa was not run", "there is no task to decide on")


@pytest.mark.parametrize("margin", [0.0, -0.01, 1.0, float("nan")])
def test_a_margin_is_a_share(margin: float) -> None:
    with pytest.raises(ValueError, match="margin"):
        decide_outcome([evidence(1, 1, 50)], margin)
    with pytest.raises(ValueError, match="margin"):
        decide_outcome([evidence(1, 1, 50, margin=margin)])


def test_tasks_have_names_of_their_own() -> None:
    with pytest.raises(ValueError, match="one name"):
        decide_outcome([evidence(1, 1, 50), evidence(1, 1, 50)])


# What would settle it


def settled(*tasks: TaskPair, margin: float = MARGIN) -> RepeatPlan:
    plan = decide_outcome(tasks, margin).repeats_needed
    assert plan is not None
    return plan


def test_without_a_measurement_repeats_are_promised_at_best() -> None:
    plan = settled(evidence(15, 15, 448), margin=0.023)
    assert not plan.measured
    assert plan.provable_margin == pytest.approx(decide_outcome([evidence(15, 15, 448)]).tasks[0].interval.upper)
    # All flips the engine's, half of the variance our side's: sqrt(1/2) of 2.8 standard errors is the least.
    error = drop_of(15, 15, 448).variance ** 0.5
    assert plan.best_possible_margin == pytest.approx((1.965 + 0.842) * error * 0.5**0.5, rel=1e-3)
    assert plan.runs == ()


def test_a_baseline_that_can_be_run_again_settles_more() -> None:
    base = evidence(15, 15, 448)
    recorded = settled(base, margin=0.02)
    both = settled(replace(base, baseline_repeats=1), margin=0.02)
    assert recorded.runs == ()
    assert dict(both.runs)["meta_some"] == 3  # 2.8 * 1.22 / sqrt(3) = 1.98
    assert both.best_possible_margin == 0


def test_an_engine_that_was_seen_to_be_quiet_leaves_nothing_to_repeats() -> None:
    plan = settled(
        replace(evidence(15, 15, 448), runs=stats.RunSpread(0.0, 1, 0.0, 0.0, 0.0), baseline_repeats=1), margin=0.02
    )
    assert plan.measured
    assert plan.runs == ()
    assert plan.best_possible_margin == pytest.approx(plan.provable_margin)


def test_no_number_of_runs_shows_what_the_estimate_contradicts() -> None:
    plan = settled(replace(evidence(140, 100, 2000), baseline_repeats=1))
    assert plan.runs == ()
    assert plan.best_possible_margin >= 0.02


def test_repeats_go_where_they_take_most_variance_away_for_each_doc() -> None:
    noisy = replace(evidence(150, 150, 1500, "noisy"), baseline_repeats=1)
    quiet = replace(evidence(15, 15, 1500, "quiet"), baseline_repeats=1)
    plan = settled(noisy, quiet, margin=0.009)
    runs = dict(plan.runs)
    assert runs["noisy"] > runs.get("quiet", 1)


def test_runs_that_were_made_count() -> None:
    rng = np.random.default_rng(3)
    chance = np.where(rng.random(448) < 0.1, 0.5, 0.0)
    runs = [(rng.random(448) < chance).astype(float).tolist() for _ in range(5)]
    drop = stats.paired_drop(runs[0], stats.average_runs(runs[1:]))
    plan = settled(TaskPair("t", measured_drop=drop, repeats=4, runs=stats.measure_runs((), runs[1:])), margin=0.015)
    assert all(count > 4 for _, count in plan.runs)


# The baseline and the published number


def test_the_baselines_distance_is_a_figure_of_its_own() -> None:
    distance = measure_baseline_distance("meta_math_hard", "final_em,none", 0.238, 0.254, "a judge model at Meta")
    assert distance.baseline_minus_reference == pytest.approx(-0.016)
    assert not distance.within_rounding
    assert distance.explanation == "a judge model at Meta"
    assert measure_baseline_distance("meta_ifeval", "mean_acc,none", 0.80417, 0.804).within_rounding
    assert measure_baseline_distance("meta_gpqa", "exact_match,none", None, 0.328).baseline_minus_reference is None


# Properties


tables = st.lists(
    st.integers(2, 120).flatmap(lambda n: st.tuples(st.integers(0, n // 2), st.integers(0, n // 2), st.just(n))),
    min_size=1,
    max_size=5,
)
RANK = {"DON'T SHIP": 0, "UNDECIDED": 1, "SHIP": 2}


def decided(rows: list[tuple[int, int, int]], margin: float) -> Decision:
    return decide_outcome([evidence(*row, task=str(index)) for index, row in enumerate(rows)], margin)


@given(tables, st.floats(0.001, 0.5), st.floats(0.001, 0.4))
def test_a_wider_margin_never_makes_anything_worse(
    rows: list[tuple[int, int, int]], margin: float, more: float
) -> None:
    narrow, wide = decided(rows, margin), decided(rows, margin + more)
    assert RANK[narrow.outcome] <= RANK[wide.outcome]
    assert narrow.interval == wide.interval
    for before, after in zip(narrow.tasks, wide.tasks, strict=True):
        assert before.outcome != "within margin" or after.outcome == "within margin"
        assert after.outcome != "worse" or before.outcome == "worse"


@given(tables, st.randoms())
def test_the_order_of_tasks_does_not_matter(rows: list[tuple[int, int, int]], chance: object) -> None:
    tasks = [evidence(*row, task=str(index)) for index, row in enumerate(rows)]
    shuffled = list(tasks)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    there, back = decide_outcome(tasks), decide_outcome(shuffled)
    assert there.outcome == back.outcome
    assert there.interval is not None
    assert back.interval is not None
    assert (there.interval.lower, there.interval.upper) == pytest.approx((back.interval.lower, back.interval.upper))
    assert {task.name: task.outcome for task in there.tasks} == {task.name: task.outcome for task in back.tasks}


@given(tables)
def test_what_is_said_agrees_with_itself(rows: list[tuple[int, int, int]]) -> None:
    decision = decided(rows, 0.05)
    assert decision.interval is not None
    assert decision.mean is not None
    assert sum(task.weight for task in decision.tasks) == pytest.approx(1)
    assert decision.mean.value == pytest.approx(sum(task.weight * task.drop.value for task in decision.tasks), abs=1e-9)
    if decision.outcome == "SHIP":
        assert decision.interval.upper < 0.05
        assert all(task.outcome != "worse" for task in decision.tasks)
    else:
        assert decision.reasons
    for task in decision.tasks:
        assert (task.outcome == "within margin") == (task.interval.upper < task.margin)
        # A drop beyond its margin is proven one-sided at 5 %.
        assert task.outcome != "worse" or (task.interval.lower > 0 and task.p <= task.p_corrected < 0.1)


# Simulation: small; benchmarks/verdicts.py has the large ones. The wrong rules that these are about err in one run of
# seven or more.

RUNS = 100 if THOROUGH else 20


@pytest.mark.parametrize("flips", [0.0, 0.04])
def test_a_drop_of_the_margin_seldom_ships(flips: float) -> None:
    """Five small tasks, where weights that follow the outcome would ship it in one run of seven or more."""
    rng, shipped, held = np.random.default_rng(12), 0, 0
    for _ in range(RUNS):
        counts = rng.multinomial(200, [0.02 + flips / 2, flips / 2, 0.98 - flips], size=5)
        decision = decide_outcome([evidence(int(a), int(b), 200, str(i)) for i, (a, b, _) in enumerate(counts)], 0.02)
        shipped += decision.outcome == "SHIP"
        held += sum(task.outcome == "within margin" for task in decision.tasks)
    assert shipped <= 0.05 * RUNS
    assert held <= 0.05 * 5 * RUNS


def test_an_identical_model_is_seldom_shown_below_anywhere() -> None:
    rng, below, worse = np.random.default_rng(13), 0, 0
    for _ in range(RUNS // 2):
        counts = rng.multinomial(400, [0.03, 0.03, 0.94], size=22)
        decision = decide_outcome([evidence(int(a), int(b), 400, str(i)) for i, (a, b, _) in enumerate(counts)])
        below += any(task.outcome == "worse" for task in decision.tasks)
        worse += decision.outcome == "DON'T SHIP"
    assert below <= 0.05 * (RUNS // 2)
    assert worse <= 0.025 * (RUNS // 2)


def draw_evidence(rng: np.random.Generator, n: int, task: str, drop: float = 0.0, flips: float = 0.03) -> TaskPair:
    lost, won, _ = rng.multinomial(n, [flips / 2 + drop, flips / 2, 1 - flips - drop])
    return evidence(int(lost), int(won), n, task)


def test_a_task_is_seldom_worse_than_others_that_are_uncertain() -> None:
    """Both tasks lose the margin; the mean of the others is that of 500 docs."""
    rng = np.random.default_rng(14)
    found = sum(
        any(
            task.outcome == "worse"
            for task in decide_outcome([draw_evidence(rng, n, str(n), 0.01, 0.04) for n in (12_000, 500)]).tasks
        )
        for _ in range(RUNS * 2)
    )
    assert found <= 0.1 * RUNS * 2


def test_a_task_beyond_its_margin_is_proven_by_a_one_sided_test() -> None:
    """Of 22 tasks one lost 4 points more than the margin: Holm's first step allows 0.05 / 22.25 one way."""
    others = [evidence(60, 60, 3_000, f"t{index}") for index in range(21)]
    for lost, outcome in ((33, "DON'T SHIP"), (26, "UNDECIDED")):
        decision = decide_outcome([evidence(lost, 9, 448, "lost"), *others])
        assert decision.outcome == outcome
        assert (decision.tasks[0].outcome == "worse") == (outcome == "DON'T SHIP")


def test_tasks_at_their_margin_are_seldom_failed() -> None:
    rng = np.random.default_rng(15)
    failed = sum(
        decide_outcome([draw_evidence(rng, 400 + 100 * index, str(index), 0.01, 0.04) for index in range(12)]).outcome
        == "DON'T SHIP"
        for _ in range(RUNS)
    )
    assert failed <= 0.05 * RUNS + 2


@pytest.mark.parametrize(("drop", "least", "most"), [(0.0, 0.9, 1.0), (0.05, 0.0, 0.15), (0.10, 0.0, 0.02)])
def test_a_task_of_few_docs_does_not_hide_a_loss_behind_it(drop: float, least: float, most: float) -> None:
    rng = np.random.default_rng(16)
    shipped = sum(
        decide_outcome(
            [draw_evidence(rng, 164, "few", drop), *(draw_evidence(rng, n, str(n)) for n in (600, 1_050, 12_000))]
        ).outcome
        == "SHIP"
        for _ in range(RUNS)
    )
    spread = 2 * (RUNS * 0.1) ** 0.5
    assert least * RUNS - spread <= shipped <= most * RUNS + spread


def test_the_cap_of_few_docs_does_not_grow_with_their_losses() -> None:
    large = [evidence(180, 180, 12_000, "large"), evidence(20, 20, 1_300, "other")]
    ends = {lost: decide_outcome([evidence(lost, 3, 164, "few"), *large]) for lost in (5, 12)}
    assert [ends[lost].outcome for lost in (5, 12)] == ["SHIP", "UNDECIDED"]
    assert ends[12].tasks[0].interval.upper >= ends[12].tasks[0].cap


def test_a_task_that_flips_unlike_others_is_judged_by_its_own_gains() -> None:
    """36 losses beside 36 gains are an identical copy's, though the other tasks flip a fourth as often."""
    others = [evidence(6 * size, 6 * size, 600 * size, f"t{size}") for size in (2, 3, 20)]
    assert decide_outcome([evidence(18, 18, 448, "lively"), *others]).outcome == "SHIP"


def with_measured(task: TaskPair, share: float) -> TaskPair:
    return replace(task, measured_flips=MeasuredFlips(share, task.drop.docs))


def test_a_measured_noise_finds_what_the_cap_leaves_open() -> None:
    tasks = [evidence(24, 11, 541, "lost"), *(evidence(24 * n, 24 * n, 1_200 * n, f"t{n}") for n in range(1, 12))]
    assert decide_outcome(tasks).outcome == "SHIP"
    measured = decide_outcome([with_measured(task, 0.04) for task in tasks])
    assert (measured.outcome, measured.reasons) == (
        "UNDECIDED", ("points lost beyond what the measured noise explains: lost 2.4",),
    )  # fmt: skip
    same = [evidence(13, 11, 541, "lost"), *tasks[1:]]
    assert decide_outcome([with_measured(task, 0.04) for task in same]).outcome == "SHIP"


def run_of_flips(truth: np.ndarray, rng: np.random.Generator) -> list[float]:
    """A run in which 2 % of the docs flip, so that 4 % differ between two."""
    return np.where(rng.random(len(truth)) < 0.02, 1 - truth, truth).tolist()


def run_of_eight_answers(chance: np.ndarray, rng: np.random.Generator) -> list[float]:
    return (rng.binomial(8, chance) / 8).tolist()


@pytest.mark.parametrize("run", [run_of_flips, run_of_eight_answers])
def test_a_second_run_of_an_identical_copy_ships_as_one_run_does(run: Callable[..., list[float]]) -> None:
    rng, ships = np.random.default_rng(7), [0, 0]
    for _ in range(4):
        tasks = []
        for docs in (541, 1324, 448, 12_032):
            truth = rng.beta(0.158, 0.158, docs) if run is run_of_eight_answers else (rng.random(docs) < 0.5) * 1.0
            tasks.append([run(truth, rng) for _ in range(3)])
        for place, runs in enumerate((1, 2)):
            pairs = [
                TaskPair(f"t{number}", **vars(measure_run_drop(task[:runs], task[2:])))
                for number, task in enumerate(tasks)
            ]
            ships[place] += decide_outcome(pairs).outcome == "SHIP"
    assert min(ships) >= 3


def test_noise_that_was_measured_on_a_quieter_engine_stops_no_identical_copy() -> None:
    """The engine flips 1 % of docs between two answers, and 4 % beside the other engine."""
    tasks = [evidence(12, 11, 541, "small"), *(evidence(24 * n, 24 * n, 1_200 * n, f"t{n}") for n in range(1, 12))]
    assert decide_outcome([with_measured(task, 0.01) for task in tasks]).outcome == "SHIP"


def test_losses_beyond_chance_forbid_ship_below_the_cap() -> None:
    """A loss in 448 docs that seldom flip: more likely of a copy that lost the cap than of one that lost the margin."""
    tasks = [evidence(19, 4, 448, "small"), *(evidence(12 * n, 12 * n, 1_200 * n, f"t{n}") for n in range(1, 22))]
    decision = decide_outcome(tasks, cap=0.06)
    assert decision.tasks[0].interval.upper < decision.tasks[0].cap
    assert (decision.outcome, decision.reasons) == (
        "UNDECIDED", ("points lost beyond what chance explains: small 3.3",),
    )  # fmt: skip


def test_the_summary_names_few_tasks_whatever_their_number() -> None:
    decision = decide_outcome([evidence(18 + index, 4, 300, f"t{index}") for index in range(22)])
    assert len(decision.reasons) == 1 and decision.reasons[0].endswith(" more")
    tasks = [evidence(27 + index % 3, 15, 600, f"t{index}") for index in range(22)]
    undecided = decide_outcome(tasks, margin=0.02, cap=0.04)
    assert "not ruled out: a loss beyond the cap, up to " in undecided.reasons[1]
    assert undecided.reasons[1].endswith(" and 11 more")
    beyond = decide_outcome([evidence(19 + index % 2, 12, 400, f"t{index}") for index in range(22)], margin=0.012)
    assert beyond.interval is not None and beyond.interval.lower > 0.012
    assert beyond.reasons[0].endswith("larger than the margin: with 23 tests its interval alone is no proof")
