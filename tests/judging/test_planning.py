"""A plan foretells what identical copies show: beside copies that are drawn, and from what a pack says."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from places import THOROUGH
from runs import read_lines, write_lines, write_run
from shared import whole_pack

from meta_eval import stats
from meta_eval.base.errors import UserError
from meta_eval.base.thresholds import PLANNED_FLIPS
from meta_eval.judge.decide import decide_outcome
from meta_eval.judge.flips import TaskFlips, measure_flips
from meta_eval.judge.gate import Gate
from meta_eval.judge.pair import TaskPair
from meta_eval.judge.plan import PlannedTask, plan_answers, plan_pack, plan_tasks
from meta_eval.pack.manifest import read_manifest
from meta_eval.reports.plan_table import describe_weak_points, plan_json, plan_table
from meta_eval.stats.identical import expect_copy

SIZES = {"small": 198, "middle": 448, "large": 3000}


def plan_of(sizes: dict[str, int], flips: float = 0.04, **margins: float) -> list[PlannedTask]:
    return [PlannedTask(name, expect_copy(docs, flips), margin=margins.get(name)) for name, docs in sizes.items()]


def drawn(sizes: dict[str, int], flips: float, rng: np.random.Generator) -> list[TaskPair]:
    drops = []
    for name, docs in sizes.items():
        lost, won, same = rng.multinomial(docs, [flips / 2, flips / 2, 1 - flips]).tolist()
        before, after = [1.0] * lost + [0.0] * (won + same), [0.0] * lost + [1.0] * won + [0.0] * same
        drops.append(TaskPair(name, measured_drop=stats.paired_drop(before, after)))
    return drops


def test_the_whole_ships_as_often_as_is_said() -> None:
    """benchmarks/plans.py has the large simulation."""
    rng, runs, draws = np.random.default_rng(4), 400 if THOROUGH else 30, 80 if THOROUGH else 20
    sizes = {"small": 198, "middle": 448}
    whole = plan_tasks(plan_of(sizes), 0.03, draws=draws).whole
    assert whole is not None
    assert whole.margin_sure is not None
    drops = [drawn(sizes, 0.04, rng) for _ in range(runs)]
    for allowed, chance in ((0.03, whole.chance), (whole.margin_sure, 0.95)):
        share = sum(decide_outcome(each, allowed).outcome == "SHIP" for each in drops) / runs
        error = (chance * (1 - chance)) ** 0.5 * (1 / runs + 1 / draws) ** 0.5
        assert abs(share - chance) < 0.02 + 3 * error


def test_a_margin_of_its_own_and_repeats_do_what_is_said() -> None:
    tasks = plan_of(SIZES, middle=0.04)
    plan = plan_tasks(tasks, whole=False)
    chances = {each.planned.task: each.chances for each in plan.tasks}
    assert (chances["middle"].margin, chances["small"].margin) == (0.04, 0.01)
    assert (chances["middle"].runs, chances["small"].runs_of_both) == (1, None)
    assert chances["middle"].chance > 0.95 > chances["small"].chance
    large, both = chances["large"], chances["large"].runs_of_both
    assert both is not None
    assert 1 < both <= 16
    for runs, sure in ((both, True), (both - 1, False)):
        averaged = tasks[2].average(runs, runs)
        (again,) = plan_tasks([averaged], whole=False).tasks
        assert (again.chances.chance >= 0.95) is sure
    assert large.could_see < chances["middle"].could_see < chances["small"].could_see
    assert [each.under_cap > 0.95 for each in plan.tasks] == [False, True, True]


def test_the_same_plan_every_time() -> None:
    first, second = (plan_tasks(plan_of({"gsm8k": 5000}), 0.013, draws=5) for _ in range(2))
    assert plan_json(first) == plan_json(second)
    assert first.chance_of_mean == pytest.approx(first.tasks[0].chances.chance)


def test_the_plan_says_what_more_sampled_answers_do() -> None:
    """Beside copies whose answers are drawn; benchmarks/sampled.py has those of whole packs."""
    rng, docs, draws = np.random.default_rng(11), 4000, 400 if THOROUGH else 30
    planned = plan_answers(plan_of({"gsm8k": docs}, 0.12), 0.013, draws=draws)
    chances = {(each.baseline_answers, each.answers): each.chance for each in planned}
    right = np.where(rng.random(docs) < 0.5, 0.0644, 0.9356)  # of a doc: 2 p (1 - p) = 0.12
    for answers in (1, 4):
        drawn = [stats.paired_drop(*(rng.binomial(answers, right) / answers for _ in "ab")) for _ in range(draws)]
        share = np.mean(
            [decide_outcome([TaskPair("gsm8k", measured_drop=drop)], 0.013).outcome == "SHIP" for drop in drawn]
        )
        assert abs(share - chances[answers, answers]) < 0.03 + 3 * (0.5 / draws) ** 0.5
    assert chances[1, 1] < 0.75 < 0.9 < chances[4, 4]


def test_weak_points_are_a_sentence_each() -> None:
    assert list(describe_weak_points(plan_tasks(plan_of({"a": 20000, "b": 20000}), whole=False))) == []
    sentences = list(describe_weak_points(plan_tasks(plan_of(SIZES), whole=False)))
    assert [sentence.partition(":")[0] for sentence in sentences] == [
        "at margin 1 an identical copy ships in at most 85 % of runs",
        "in a single task, an identical copy is rarely within margin",
        "the interval of a small task reaches the cap of 5 points and keeps an identical copy from SHIP",
    ]
    assert "small in 6 % of runs (95 % at a margin of 6.2)" in sentences[1]


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_pack(tmp_path_factory)


def test_a_pack_says_docs_subtasks_and_clusters(pack: Path) -> None:
    plan = plan_pack(pack, Gate(margin={"mean": 2, "meta_gpqa*": 9}, weights="docs"), whole=False)
    tasks = {each.planned.task: each for each in plan.tasks}
    assert set(tasks) == set(read_manifest(pack).tasks)
    assert (plan.margin, plan.weighting) == (0.02, "docs")
    assert (tasks["meta_gpqa"].chances.margin, tasks["meta_ifeval"].chances.margin) == (0.09, 0.02)
    assert all(each.planned.flips == pytest.approx(PLANNED_FLIPS) for each in plan.tasks)
    pro = tasks["meta_mmlu_pro_instruct"].planned
    assert sum(drop.docs for drop in pro.subtasks.values()) == pro.expected.docs == 15
    assert sum(pro.subtask_weights.values()) == pytest.approx(1)
    mgsm = next(each.planned for name, each in tasks.items() if "mgsm" in name)
    assert mgsm.expected.clusters < mgsm.expected.docs
    assert not mgsm.subtask_weights
    assert "4 % of docs, which is assumed" in plan_table(plan).legend


def test_flips_are_named_measured_or_assumed(pack: Path) -> None:
    gate = Gate(tasks=["meta_ifeval", "meta_gpqa"])
    named = plan_pack(pack, gate, flips=0.1, whole=False)
    assert all(each.planned.measured for each in named.tasks)
    measured = plan_pack(pack, gate, flips={"meta_ifeval": TaskFlips(0.2)}, whole=False)
    shares = {each.planned.task: (each.planned.flips, each.planned.measured) for each in measured.tasks}
    assert shares["meta_ifeval"] == (pytest.approx(0.2), True)
    assert shares["meta_gpqa"] == (pytest.approx(0.04), False)
    assert "of others 4 % of docs, which is assumed" in plan_table(measured).legend


def test_where_docs_share_questions_chances_are_a_range_until_it_is_measured(pack: Path) -> None:
    gate = Gate(tasks=["meta_ifeval", "meta_mgsm"])
    plan = plan_pack(pack, gate, flips=0.2, whole=False)
    assert plan.alike is not None
    (name,) = [each.planned.task for each in plan.tasks if each.planned.is_open and "mgsm" in each.planned.task][:1]
    alone, together = (next(each for each in of.tasks if each.planned.task == name) for of in (plan, plan.alike))
    assert alone.planned.expected.variance < together.planned.expected.variance
    assert (alone.chances.margin_sure or 1) < (together.chances.margin_sure or 1)
    assert "\u2013" in next(
        column.write(column.value(row.subject))
        for row in plan_table(plan).rows
        if row.name == name
        for column in plan_table(plan).columns
        if column.key == "margin_sure"
    )
    assert "--flips RESULTS measures it" in plan_table(plan).legend
    assert list(describe_weak_points(plan))[-1].startswith("docs of ")
    assert plan_json(plan)["tasks"][name]["alike_assumed"]
    assert plan_json(plan)["alike"]["tasks"][name]["alike"] == 1.0
    known = {each.planned.task: TaskFlips(0.2, 0.3) for each in plan.tasks}
    measured = plan_pack(pack, gate, flips=known, whole=False)
    assert measured.alike is None
    between = next(each.planned for each in measured.tasks if each.planned.task == name)
    assert alone.planned.expected.variance < between.expected.variance < together.planned.expected.variance


def test_a_gate_plans_its_own_tasks(pack: Path) -> None:
    rules = Gate(margin=3.0, cap=8.0, tasks=[{"meta_ifeval": {"margin": 6}}, "meta_gpqa"])
    plan = plan_pack(pack, rules, whole=False)
    assert (plan.cap, {each.planned.task: each.chances.margin for each in plan.tasks}) == (
        0.08,
        {"meta_gpqa": 0.03, "meta_ifeval": 0.06},
    )
    assert dataclasses.asdict(plan)["whole"] is None


def test_flips_are_measured_between_two_runs_of_a_model(tmp_path: Path) -> None:
    verdicts = [1.0] * 60 + [0.0] * 40
    write_run(tmp_path, verdicts, recorded=None)
    write_run(tmp_path, [0.0] * 5 + verdicts[5:], recorded=None, time="2026-01-02T03-04-06")
    assert measure_flips([tmp_path]) == {"meta_some": TaskFlips(pytest.approx(5.5 / 101))}


def write_clustered(folder: Path, verdicts: np.ndarray, second: int) -> None:
    """A run whose verdicts are of questions, each in several languages."""
    time = f"2026-01-02T03-04-0{second}"
    write_run(folder, verdicts.ravel().tolist(), time=time)
    path = folder / f"samples_meta_some_{time}.jsonl"
    lines = read_lines(path)
    for number, line in enumerate(lines):
        line["doc"]["cluster"] = str(number // verdicts.shape[1])
    write_lines(path, lines)


@pytest.mark.parametrize(
    ("alike", "docs", "measured"), [(0.0, 100, 0.0), (0.5, 100, 0.5), (1.0, 100, 1.0), (1.0, 20, None)]
)
def test_how_alike_docs_of_a_question_flip_is_measured(
    tmp_path: Path, alike: float, docs: int, measured: float | None
) -> None:
    rng, shape = np.random.default_rng(7), (docs, 6)
    together = rng.random(shape) < alike**0.5
    luck = np.where(together, rng.random((docs, 1)), rng.random(shape))
    before = np.where(luck < 0.1, 0.0, np.where(luck < 0.2, 1.0, rng.random(shape) < 0.5)).astype(float)
    after = np.where(luck < 0.2, 1 - before, before)
    write_clustered(tmp_path, before, 5)
    write_clustered(tmp_path, after, 6)
    flips = measure_flips([tmp_path])["meta_some"]
    assert flips.alike == (None if measured is None else pytest.approx(measured, abs=0.12))


def test_a_single_run_measures_no_flips(tmp_path: Path) -> None:
    write_run(tmp_path, [1.0] * 20)
    with pytest.raises(UserError, match="no task was answered twice"):
        measure_flips([tmp_path])
